#include "core/flow/pd_faults.hpp"

namespace sluice::flow {
namespace {

// While what may be repeated?
enum class While : std::uint8_t {
    Never,
    OthersLast,     // retry.connect is not used up, and another endpoint is there
    Once,           // nothing was begun anew yet
    OnceIfAllowed,  // the same, and the rule lets what may have begun be sent again
};

struct Row {
    PdFault fault;
    PdCure first;
    While when;
    PdCure then;
    PdRefusal refusal;
};

constexpr std::string_view kPool = "pd_pool_unavailable";

constexpr Row kRows[] = {
    {PdFault::NoPrefill,
     PdCure::Spare,
     While::Never,
     PdCure::Spare,
     {503, kPool, "no healthy prefill or decode endpoint"}},
    {PdFault::PrefillUnreached,
     PdCure::Pair,
     While::OthersLast,
     PdCure::Spare,
     {503, kPool, "all prefill endpoints unreachable"}},
    {PdFault::PrefillUnready, PdCure::Pair, While::OthersLast, PdCure::Plain, {}},
    {PdFault::PrefillDied,
     PdCure::Pair,
     While::Once,
     PdCure::Refuse,
     {503, kPool, "prefill backend connection dropped"}},
    {PdFault::PrefillLate,
     PdCure::Refuse,
     While::Never,
     PdCure::Refuse,
     {504, "pd_prefill_timeout", "the prefill endpoint did not answer in time"}},
    {PdFault::PrefillBusy, PdCure::Pair, While::OthersLast, PdCure::Relay, {}},
    {PdFault::PrefillBroken, PdCure::Pair, While::OthersLast, PdCure::Plain, {}},
    {PdFault::PrefillBrokenBeside,
     PdCure::Pair,
     While::OthersLast,
     PdCure::Spare,
     {502, "pd_prefill_failed", "the prefill endpoint failed while decode waited for it"}},
    {PdFault::PrefillUnusable,
     PdCure::Pair,
     While::OthersLast,
     PdCure::Refuse,
     {502, "pd_prefill_failed", "the prefill endpoint's answer cannot be used"}},
    {PdFault::PrefillRestart, PdCure::Pair, While::Once, PdCure::Relay, {}},
    {PdFault::NoDecode,
     PdCure::Spare,
     While::Never,
     PdCure::Spare,
     {503, kPool, "no healthy prefill or decode endpoint"}},
    {PdFault::DecodeUnreached,
     PdCure::Decode,
     While::OthersLast,
     PdCure::Spare,
     {503, kPool, "decode endpoint unreachable"}},
    {PdFault::DecodeStale,
     PdCure::Pair,
     While::Once,
     PdCure::Refuse,
     {502, "pd_decode_backend_died", "the decode endpoint ended before its answer began"}},
    {PdFault::DecodeDied,
     PdCure::Pair,
     While::OnceIfAllowed,
     PdCure::Refuse,
     {502, "pd_decode_backend_died", "the decode endpoint ended before its answer began"}},
    {PdFault::DecodeLate,
     PdCure::Refuse,
     While::Never,
     PdCure::Refuse,
     {504, "pd_decode_timeout", "the decode endpoint's answer did not begin in time"}},
    {PdFault::DecodeBusy, PdCure::Pair, While::OthersLast, PdCure::Relay, {}},
    {PdFault::DecodeElsewhere, PdCure::Pair, While::OthersLast, PdCure::Relay, {}},
    {PdFault::DecodeRestart, PdCure::Pair, While::Once, PdCure::Relay, {}},
    {PdFault::DecodeTooLate,
     PdCure::Refuse,
     While::Never,
     PdCure::Refuse,
     {502, "pd_decode_failed", kReadLate}},
};

bool lasts(While when, const PdSpent& spent) noexcept {
    switch (when) {
        case While::Never:
            return false;
        case While::OthersLast:
            return spent.legs < spent.max_legs && spent.has_other;
        case While::Once:
            return spent.restarts == 0;
        case While::OnceIfAllowed:
            return spent.restarts == 0 && spent.may_repeat;
    }
    return false;
}

}  // namespace

PdAdvice advice_for(PdFault fault, const PdSpent& spent) noexcept {
    for (const Row& row : kRows) {
        if (row.fault == fault) {
            return {lasts(row.when, spent) ? row.first : row.then, row.refusal};
        }
    }
    return {PdCure::Refuse, {503, kPool, "no healthy prefill or decode endpoint"}};
}

}  // namespace sluice::flow
