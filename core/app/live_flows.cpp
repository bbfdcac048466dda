// Receipts, as the management interface asks for them.
#include "core/app/live.hpp"
#include "core/flow/explain.hpp"

namespace sluice::app {
namespace {

// A part of a stream is about so long.
constexpr std::size_t kPartBytes = 16U << 10U;

class FlowStream final : public admin::StreamSource {
public:
    FlowStream(const flow::FlowRing& ring, admin::FlowFilter filter, std::uint64_t every)
        : ring_(ring), filter_(std::move(filter)), cursor_(ring.cursor(every)) {}

    bool next(std::string& out) override {
        const std::size_t begun = out.size();
        while (out.size() - begun < kPartBytes) {
            found_.clear();
            const flow::FlowRing::Read read =
                ring_.read(cursor_, {filter_.rule, filter_.model, filter_.outcome, 0}, found_);
            for (const route::Receipt& receipt : found_) {
                out += "data: " + receipt.to_json() + "\n\n";
            }
            if (read != flow::FlowRing::Read::More) {
                return read == flow::FlowRing::Read::Done;
            }
        }
        return true;
    }

private:
    const flow::FlowRing& ring_;
    const admin::FlowFilter filter_;
    flow::FlowCursor cursor_;
    std::vector<route::Receipt> found_;
};

}  // namespace

std::string Live::rule_id_of(const std::string& wanted) const {
    const auto table = book_.table();
    for (const rules::RulePtr& known : table->rules()) {
        if (!wanted.empty() && known->name == wanted) {
            return known->id;
        }
    }
    return wanted;
}

std::string Live::flows_json(const admin::FlowFilter& filter) {
    return shared_.ring.to_json(
        {rule_id_of(filter.rule), filter.model, filter.outcome, filter.limit});
}

std::shared_ptr<admin::StreamSource> Live::flow_stream(const admin::FlowFilter& filter,
                                                       std::uint64_t every) {
    admin::FlowFilter resolved = filter;
    resolved.rule = rule_id_of(filter.rule);
    return std::make_shared<FlowStream>(shared_.ring, std::move(resolved), every);
}

Result<std::string> Live::explain(std::string_view json) {
    return flow::explain(shared_, json);
}

}  // namespace sluice::app
