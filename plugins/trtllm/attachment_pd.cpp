// What an Attachment learns for context and generation legs.
#include "plugins/trtllm/attachment.hpp"

namespace sluice::trtllm {

void Attachment::ask_schema() {
    schema_at_tick_ = ticks_ + kRetryTicks;
    get(schema_call_, "/openapi.json", kMaxSchemaBody, &Attachment::on_schema);
}

void Attachment::on_schema(const sluice_http_result& r) {
    if (r.status != SLUICE_OK) {
        return;
    }
    const auto members = r.http_code == 200 ? parse_schema(text(r.body)) : std::nullopt;
    if (members) {
        has_schema_ = true;
        set_accepts(*members);
        return;
    }
    // It has none, or another: what the release says holds until then.
    schema_at_tick_ = ticks_ + kRecheckTicks;
}

void Attachment::set_accepts(std::uint32_t members) {
    accepts_.store(members, std::memory_order_relaxed);
    shared_.accepts_changed();
}

// Another process may be of another build.
void Attachment::forget_accepts() {
    has_schema_ = false;
    refused_.store(0, std::memory_order_relaxed);
    set_accepts(accepted_by_release(version_));
    ask_schema();
}

void Attachment::look_at_key() {
    if (const std::string wrong = shared_.key.look(); !wrong.empty()) {
        host_.error("the key of hand-offs cannot be used", {{"reason", wrong}});
    }
}

}  // namespace sluice::trtllm
