// Selector plugins: a rule's ordered list of weighted instances, and one choice by them.
//
// A choice: filters run first and intersect; scores are clamped to 0..1, weighted and summed; the
// first pick that does not pass wins; otherwise the best score, ties broken by (inflight, endpoint,
// dp_rank, row). A pick of an excluded row is a defect of that plugin: counted, and the best score
// is used. A score call that yields NaN is ignored as a whole.
//
// Threads: each function has the SDK's tag in front. choose() takes no lock and allocates only
//          when a pool larger than any before it comes to a thread.
// Owns:    a view keeps its instances alive; the last reference to it, dropped on any thread, has
//          the plugins' release() run on the control queue.
#pragma once
#include <sluice/sdk/selector.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/plugin/instance.hpp"

namespace sluice::plugin {

class SelectorInstance final : public Instance,
                               public std::enable_shared_from_this<SelectorInstance> {
public:
    // [control]
    static Result<std::shared_ptr<SelectorInstance>> create(Runtime& runtime, PluginPtr plugin,
                                                            InstanceSpec spec);

    // [control] A view of these rows; null where the plugin needs none.
    Result<sluice_view*> prepare(std::span<const sluice_candidate> rows) const;
    void release(sluice_view* view) const noexcept;

    // [request] The table's functions, guarded: E_STATE when not active, PASS when absent.
    sluice_status filter(const sluice_choice& choice, std::uint8_t* keep) const noexcept;
    sluice_status score(const sluice_choice& choice, float* score) const noexcept;
    sluice_status pick(const sluice_choice& choice, std::uint32_t& index) const noexcept;
    sluice_status explain(const sluice_choice& choice, std::uint32_t index, std::string& out) const;
    // [any]
    void observe(const sluice_outcome& outcome) const noexcept;

    bool has_filter() const noexcept { return selector().filter != nullptr; }
    bool has_score() const noexcept { return selector().score != nullptr; }
    bool has_pick() const noexcept { return selector().pick != nullptr; }
    // [any] One more breach of the contract.
    void count_defect(const char* what) const noexcept;

private:
    using Instance::Instance;
    const sluice_selector& selector() const noexcept {
        return *static_cast<const sluice_selector*>(table_);
    }
};

struct SelectorPart {
    std::shared_ptr<SelectorInstance> selector;
    float weight = 1.0F;
};

struct SelectorChoice {
    enum class By { Nothing, Pick, Score };  // Nothing: no row may be chosen
    By by = By::Nothing;
    std::uint32_t index = 0;
    float score = 0;               // weighted sum of the row; 0 when nothing scores
    bool is_all_filtered = false;  // rows were free to choose, filters left none: rule's fallback
    bool is_degraded = false;      // a faulted instance had no say
};

// The selectors of a rule over one set of rows. Immutable; a new one is made when members or
// weights change.
class SelectorView {
public:
    // [control] Rows as choose() will get them, load fields not filled.
    static Result<std::shared_ptr<const SelectorView>> prepare(
        std::vector<SelectorPart> parts, std::span<const sluice_candidate> rows);
    ~SelectorView();
    SelectorView(const SelectorView&) = delete;
    SelectorView& operator=(const SelectorView&) = delete;

    // [request] `rows`: the whole pool in prepare()'s order. Rows that filters drop get
    // SLUICE_EX_FILTERED. `leg` is SLUICE_LEG_*, `peer` the prefill endpoint of a decode leg.
    SelectorChoice choose(const sluice_request& request, std::uint32_t leg, std::uint64_t peer,
                          std::span<sluice_candidate> rows) const noexcept;
    // [any] To every instance.
    void observe(const sluice_outcome& outcome) const noexcept;
    // [request] Why this row: one line for people, empty when no plugin says anything.
    std::string explain(const sluice_request& request, std::uint32_t leg, std::uint64_t peer,
                        std::span<sluice_candidate> rows, std::uint32_t index) const;

    std::size_t size() const noexcept { return num_rows_; }
    const std::vector<SelectorPart>& parts() const noexcept { return parts_; }

private:
    explicit SelectorView(std::vector<SelectorPart> parts, std::size_t num_rows);
    struct Weighed;
    Weighed weigh(sluice_choice& choice, std::span<sluice_candidate> rows) const noexcept;

    std::vector<SelectorPart> parts_;
    std::vector<sluice_view*> views_;
    std::size_t num_rows_;
};

}  // namespace sluice::plugin
