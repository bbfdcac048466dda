// An adapter's instance and its attachments as requests see them.
#include "core/flow/plugin_book.hpp"

namespace sluice::flow {
namespace {

class EngineAdapter final : public route::Engine {
public:
    EngineAdapter(EnginePtr engine, const std::vector<plugin::AttachmentPtr>& attachments,
                  std::vector<plugin::EndpointInfo> infos)
        : engine_(std::move(engine)),
          attachments_(attachments.begin(), attachments.end()),
          infos_(std::move(infos)) {}

    sluice_status plan(const sluice_request& request, sluice_plan& out,
                       sluice_error* err) const noexcept override {
        return engine_->plan(request, out, err);
    }
    sluice_status build_leg(const route::LegAsk& ask, sluice_leg_out& out,
                            sluice_error* err) const noexcept override {
        const Held held(ask, *this);
        return engine_->build_leg(held.leg, out, err);
    }
    sluice_status on_reply(const route::LegAsk& ask, const sluice_reply& reply,
                           sluice_reply_out& out, sluice_error* err) const noexcept override {
        const Held held(ask, *this);
        return engine_->on_reply(held.leg, reply, out, err);
    }

    route::Judgement judge(std::size_t pool_index, const sluice_request& request, int status,
                           std::span<const sluice_pair> headers,
                           std::string_view body) const noexcept override {
        const plugin::AttachmentPtr attachment =
            pool_index < attachments_.size() ? attachments_[pool_index].lock() : nullptr;
        const auto held = attachment ? attachment->hold() : nullptr;
        if (!held) {
            return route::Judgement::Relay;
        }
        const sluice_endpoint endpoint = plugin::to_sdk(attachment->endpoint());
        sluice_leg leg{};
        leg.size = sizeof leg;
        leg.request = &request;
        leg.endpoint = &endpoint;
        leg.at = held->at();
        leg.kind = SLUICE_LEG_SINGLE;
        leg.dp_rank = SLUICE_ANY;
        leg.peer_dp_rank = SLUICE_ANY;
        sluice_reply reply{};
        reply.size = sizeof reply;
        reply.http_code = static_cast<std::uint32_t>(status);
        reply.num_headers = static_cast<std::uint32_t>(headers.size());
        reply.headers = headers.data();
        reply.body = {reinterpret_cast<const std::uint8_t*>(body.data()), body.size()};
        sluice_reply_out out{};
        out.size = sizeof out;
        const auto discard = [](void*, const void*, std::size_t) -> sluice_status {
            return SLUICE_OK;
        };
        out.handoff = {nullptr, discard};
        out.body = {nullptr, discard};
        out.set_header = [](void*, sluice_str, sluice_str) -> sluice_status {
            return SLUICE_OK;
        };
        out.prompt_ids = [](void*, const std::uint32_t*, std::size_t) {
        };
        if (engine_->on_reply(leg, reply, out, nullptr) != SLUICE_OK) {
            return route::Judgement::Relay;
        }
        switch (out.next) {
            case SLUICE_NEXT_BUSY:
                return route::Judgement::Busy;
            case SLUICE_NEXT_ELSEWHERE:
                return route::Judgement::Elsewhere;
            case SLUICE_NEXT_FAIL:
                return route::Judgement::Fail;
            default:
                return route::Judgement::Relay;
        }
    }

    void served(std::size_t pool_index, const sluice_served& what) const noexcept override {
        const plugin::AttachmentPtr attachment =
            pool_index < attachments_.size() ? attachments_[pool_index].lock() : nullptr;
        if (const auto held = attachment ? attachment->hold() : nullptr) {
            engine_->on_served(held->at(), what);
        }
    }

private:
    // A leg with all it points to.
    struct Held {
        Held(const route::LegAsk& ask, const EngineAdapter& of)
            : at(of.attached(ask.endpoint)), endpoint(plugin::to_sdk(of.infos_[ask.endpoint])) {
            leg.size = sizeof leg;
            leg.kind = ask.kind;
            leg.flags = ask.flags;
            leg.dp_rank = ask.rank;
            leg.peer_dp_rank = ask.peer_rank;
            leg.transfer_id = ask.transfer_id;
            leg.request = ask.request;
            leg.endpoint = &endpoint;
            leg.at = at ? at->at() : nullptr;
            leg.handoff = {reinterpret_cast<const std::uint8_t*>(ask.handoff.data()),
                           ask.handoff.size()};
            if (ask.peer) {
                peer_at = of.attached(*ask.peer);
                peer = plugin::to_sdk(of.infos_[*ask.peer]);
                leg.peer = &peer;
                leg.peer_at = peer_at ? peer_at->at() : nullptr;
            }
        }
        Held(const Held&) = delete;
        Held& operator=(const Held&) = delete;
        std::shared_ptr<const plugin::Attached> at, peer_at;
        sluice_endpoint endpoint, peer{};
        sluice_leg leg{};
    };
    std::shared_ptr<const plugin::Attached> attached(std::size_t i) const {
        const plugin::AttachmentPtr attachment =
            i < attachments_.size() ? attachments_[i].lock() : nullptr;
        return attachment ? attachment->hold() : nullptr;
    }

    EnginePtr engine_;
    // Only the rule in force holds them: a request that goes on after an edit must not keep the
    // subscription of an endpoint that was removed.
    std::vector<std::weak_ptr<plugin::Attachment>> attachments_;
    std::vector<plugin::EndpointInfo> infos_;  // by pool index
};

}  // namespace

std::shared_ptr<const route::Engine> make_engine(
    EnginePtr engine, const std::vector<plugin::AttachmentPtr>& attachments,
    std::vector<plugin::EndpointInfo> infos) {
    return std::make_shared<EngineAdapter>(std::move(engine), attachments, std::move(infos));
}

}  // namespace sluice::flow
