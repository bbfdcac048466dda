// LMCache: prefill pushes its blocks to the decode engine's cache or to a store both share; the
// legs say nothing to each other. Prefill answers, its reply is thrown away, decode gets the
// client's own body. A decode engine that finds nothing computes.
#include "plugins/vllm/pd.hpp"

namespace sluice::vllm {

namespace {

class Lmcache final : public Dialect {
public:
    std::uint32_t plan_kind() const noexcept override { return SLUICE_PLAN_SEQUENTIAL; }
    bool reads_blocks(const sluice_leg&) const noexcept override { return false; }

    std::string prefill(Edits& body, const sluice_leg& leg, const PrefillFacts&,
                        const sluice_leg_out&) const override {
        body.erase("kv_transfer_params");
        return receipt_id(leg);
    }
    std::string decode(Edits& body, const sluice_leg& leg, const PrefillFacts&) const override {
        body.erase("kv_transfer_params");
        return receipt_id(leg);
    }
    std::string_view prefilled(const sluice_leg&, const PrefillReply&, const PrefillFacts&,
                               sluice_reply_out&) const override {
        return {};  // nothing is held: the blocks are copies
    }
};

}  // namespace

const Dialect& lmcache() noexcept {
    static const Lmcache instance;
    return instance;
}

}  // namespace sluice::vllm
