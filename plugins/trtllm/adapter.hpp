// The engine adapter itself: one configured instance and its attachments.
//
// Threads: attach, detach: event; plan, build_leg, on_reply, hash_blocks, on_served: request,
//          several at once; info: any.
// Errors:  as the SDK's functions say.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "plugins/trtllm/attachment.hpp"
#include "plugins/trtllm/settings.hpp"
#include "sluice/sdk.hpp"

namespace sluice::trtllm {

class Adapter final : public Engine<Adapter> {
public:
    using Attachment = trtllm::Attachment;

    Adapter(Host host, std::string_view config);
    ~Adapter();

    const sluice_engine_info& info() const noexcept;
    std::unique_ptr<Attachment> attach(const sluice_endpoint& endpoint, std::uint32_t watch);
    void detach(std::unique_ptr<Attachment> at) noexcept;
    sluice_status plan(const sluice_request& request, sluice_plan& out);
    sluice_status build_leg(const sluice_leg& leg, sluice_leg_out& out);
    sluice_status on_reply(const sluice_leg& leg, const sluice_reply& reply, sluice_reply_out& out,
                           sluice_error* err);
    // `params`: see block_hashes.hpp.
    sluice_status hash_blocks(const sluice_hash_input& in, std::span<std::uint64_t> out,
                              std::uint32_t& num);
    void on_served(Attachment& at, const sluice_served& served) noexcept { at.served(served); }

private:
    std::uint32_t refused(const sluice_leg& leg, const sluice_reply& reply,
                          sluice_error* err) const;
    std::uint32_t prefilled(const sluice_leg& leg, const sluice_reply& reply, sluice_reply_out& out,
                            sluice_error* err) const;
    std::uint32_t unsigned_leg(const sluice_leg& leg, sluice_error* err) const;
    void accepts_changed() noexcept;

    Host host_;
    Attachment::Shared shared_;
    std::vector<Attachment*> attached_;         // a faulted instance is destroyed without detach()
    std::atomic<std::uint32_t> all_accept_{0};  // what every endpoint does
};

}  // namespace sluice::trtllm
