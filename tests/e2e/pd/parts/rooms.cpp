// An engine adapter as somebody else would write it: both legs run at once and meet in a room of
// the engines, and nobody reads what prefill answers.
//
// It is no part of the gateway; the tests load it with --plugins.
#include <sluice/sdk.hpp>

#include <memory>
#include <string>

namespace {

constexpr const char* kReserved[] = {"room", nullptr};
constexpr sluice_engine_info kInfo{
    sizeof(sluice_engine_info), SLUICE_CAP_PD, 16, 0, kReserved, nullptr};

class Rooms final : public sluice::Engine<Rooms> {
public:
    struct Attachment {};

    Rooms(sluice::Host, std::string_view) {}
    const sluice_engine_info& info() const noexcept { return kInfo; }
    std::unique_ptr<Attachment> attach(const sluice_endpoint&, std::uint32_t) {
        return std::make_unique<Attachment>();
    }
    void detach(std::unique_ptr<Attachment>) noexcept {}

    sluice_status plan(const sluice_request&, sluice_plan& out) {
        out.kind = SLUICE_PLAN_CONCURRENT;
        out.flags = SLUICE_PLAN_DRAIN;
        return SLUICE_OK;
    }
    sluice_status build_leg(const sluice_leg& leg, sluice_leg_out& out) {
        if (leg.kind == SLUICE_LEG_SINGLE) {
            return SLUICE_OK;
        }
        sluice::Edits body(leg.request->body, leg.request->fields);
        body.set("room", std::to_string(leg.transfer_id));
        return body.emit(out);
    }
    sluice_status on_reply(const sluice_leg& leg, const sluice_reply& reply, sluice_reply_out& out,
                           sluice_error* err) {
        out.cached_tokens = SLUICE_ANY;
        const bool is_prefill = leg.kind == SLUICE_LEG_PREFILL;
        if (reply.http_code >= 500 && is_prefill) {
            out.next = SLUICE_NEXT_FAIL;
            (void)sluice::report(err, SLUICE_E_PROTOCOL, "nobody is in the room");
            return SLUICE_OK;
        }
        const bool is_good = is_prefill && reply.http_code < 300;
        out.next = is_good ? SLUICE_NEXT_CONTINUE : SLUICE_NEXT_RELAY;
        return SLUICE_OK;
    }
};

constexpr const char* kProvides[] = {SLUICE_EXT_ENGINE, nullptr};
constexpr const char* kNeeds[] = {nullptr};
const sluice_plugin_desc kDesc{sizeof(sluice_plugin_desc),
                               0,
                               "org.example.engine.rooms",
                               "rooms",
                               "Rooms",
                               "An engine whose legs meet in a room.",
                               "1.0.0",
                               "Apache-2.0",
                               "Example",
                               "",
                               R"({"type":"object","additionalProperties":false,"properties":{}})",
                               R"({"type":"object","additionalProperties":false,"properties":{}})",
                               kProvides,
                               kNeeds};
const sluice::PluginSpec kPlugins[] = {{&kDesc, &Rooms::make}};

}  // namespace

SLUICE_EXPORT const sluice_plugin_entry* sluice_plugin_entry_v1(void) {
    return sluice::plugin_entry<kPlugins>();
}
