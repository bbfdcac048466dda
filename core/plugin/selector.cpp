#include "core/plugin/selector.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <tuple>

#include "core/plugin/control_queue.hpp"
#include "core/plugin/host_context.hpp"
#include "core/plugin/request_call.hpp"
#include "core/plugin/runtime.hpp"
#include "core/plugin/sdk_text.hpp"

namespace sluice::plugin {
namespace {

constexpr std::size_t kTableSize =
    offsetof(sluice_selector, explain) + sizeof(sluice_selector::explain);
constexpr std::size_t kMaxExplanation = 512;

// Grows to the largest pool this thread has met and stays.
struct Scratch {
    std::vector<std::uint8_t> keep;
    std::vector<float> sums, scores;
};

Scratch& scratch(std::size_t rows) {
    static thread_local Scratch s;
    if (s.keep.size() < rows) {
        s.keep.resize(rows);
        s.sums.resize(rows);
        s.scores.resize(rows);
    }
    return s;
}

sluice_array to_array(std::span<const sluice_candidate> rows) noexcept {
    return {rows.data(), static_cast<std::uint32_t>(rows.size()), sizeof(sluice_candidate)};
}

bool is_free(const sluice_candidate& row) noexcept {
    return row.excluded == 0;
}

sluice_status append(void* ctx, const void* data, std::size_t len) noexcept {
    auto& text = *static_cast<std::string*>(ctx);
    if (text.size() + len > kMaxExplanation) {
        return SLUICE_E_LIMIT;
    }
    text.append(static_cast<const char*>(data), len);
    return SLUICE_OK;
}

}  // namespace

Result<std::shared_ptr<SelectorInstance>> SelectorInstance::create(Runtime& runtime,
                                                                   PluginPtr plugin,
                                                                   InstanceSpec spec) {
    std::shared_ptr<SelectorInstance> out(
        new SelectorInstance(runtime, std::move(plugin), std::move(spec)),
        InstanceDeleter{&runtime});
    if (auto created = out->Instance::create(SLUICE_EXT_SELECTOR, kTableSize); !created) {
        return std::move(created).error();
    }
    const sluice_selector& table = out->selector();
    if ((table.prepare == nullptr) != (table.release == nullptr) ||
        (table.filter == nullptr && table.score == nullptr && table.pick == nullptr)) {
        out->count_defect("its selector table is not complete");
        return Error{Code::Internal, out->plugin_->id() + ": its selector table is not complete"};
    }
    return out;
}

Result<sluice_view*> SelectorInstance::prepare(std::span<const sluice_candidate> rows) const {
    if (!is_active()) {
        return Error{Code::Unavailable, name() + " is not active"};
    }
    sluice_view* view = nullptr;
    if (selector().prepare == nullptr) {
        return view;
    }
    auto err = empty_error();
    sluice_status status = SLUICE_OK;
    {
        const std::lock_guard lock(plugin_->file_mutex());
        const Crossing crossing(Tag::Control);
        status = judge(selector().prepare(self_, to_array(rows), &view, &err), &err);
    }
    if (status != SLUICE_OK) {
        return to_error(status, err).at(name());
    }
    return view;
}

void SelectorInstance::release(sluice_view* view) const noexcept {
    // Of a faulted instance everything but deactivate and destroy is left alone.
    if (view != nullptr && is_active()) {
        const std::lock_guard lock(plugin_->file_mutex());
        const Crossing crossing(Tag::Control);
        selector().release(self_, view);
    }
}

sluice_status SelectorInstance::filter(const sluice_choice& choice,
                                       std::uint8_t* keep) const noexcept {
    return request_call(0, nullptr,
                        [&](sluice_error*) { return selector().filter(self_, &choice, keep); });
}

sluice_status SelectorInstance::score(const sluice_choice& choice, float* score) const noexcept {
    return request_call(0, nullptr,
                        [&](sluice_error*) { return selector().score(self_, &choice, score); });
}

sluice_status SelectorInstance::pick(const sluice_choice& choice,
                                     std::uint32_t& index) const noexcept {
    return request_call(0, nullptr,
                        [&](sluice_error*) { return selector().pick(self_, &choice, &index); });
}

sluice_status SelectorInstance::explain(const sluice_choice& choice, std::uint32_t index,
                                        std::string& out) const {
    if (selector().explain == nullptr) {
        return SLUICE_PASS;
    }
    sluice_sink sink{&out, &append};
    return request_call(0, nullptr, [&](sluice_error*) {
        return selector().explain(self_, &choice, index, &sink);
    });
}

void SelectorInstance::observe(const sluice_outcome& outcome) const noexcept {
    if (selector().observe != nullptr && is_active()) {
        const Crossing crossing(Tag::Request);
        selector().observe(self_, &outcome);
    }
}

void SelectorInstance::count_defect(const char* what) const noexcept {
    host_->count_defect(what);
}

SelectorView::SelectorView(std::vector<SelectorPart> parts, std::size_t num_rows)
    : parts_(std::move(parts)), views_(parts_.size(), nullptr), num_rows_(num_rows) {}

Result<std::shared_ptr<const SelectorView>> SelectorView::prepare(
    std::vector<SelectorPart> parts, std::span<const sluice_candidate> rows) {
    std::shared_ptr<SelectorView> out(new SelectorView(std::move(parts), rows.size()));
    for (std::size_t i = 0; i < out->parts_.size(); ++i) {
        auto view = out->parts_[i].selector->prepare(rows);
        if (!view) {
            return std::move(view).error();
        }
        out->views_[i] = *view;
    }
    return std::shared_ptr<const SelectorView>(std::move(out));
}

SelectorView::~SelectorView() {
    if (parts_.empty()) {
        return;
    }
    Runtime& runtime = parts_.front().selector->runtime();
    runtime.control().post([parts = std::move(parts_), views = std::move(views_)] {
        for (std::size_t i = 0; i < parts.size(); ++i) {
            parts[i].selector->release(views[i]);
        }
    });
}

// What filters and scores made of the rows.
struct SelectorView::Weighed {
    const float* sums = nullptr;  // null = nothing scored
    bool is_all_filtered = false;
    bool is_degraded = false;
};

SelectorView::Weighed SelectorView::weigh(sluice_choice& choice,
                                          std::span<sluice_candidate> rows) const noexcept {
    Weighed out;
    Scratch& s = scratch(rows.size());
    const bool was_any_free = std::any_of(rows.begin(), rows.end(), is_free);
    for (std::size_t p = 0; p < parts_.size(); ++p) {
        const SelectorInstance& selector = *parts_[p].selector;
        if (!selector.is_active()) {
            out.is_degraded = true;
            continue;
        }
        if (!selector.has_filter()) {
            continue;
        }
        std::fill_n(s.keep.begin(), rows.size(), std::uint8_t{1});
        choice.view = views_[p];
        if (selector.filter(choice, s.keep.data()) == SLUICE_OK) {
            for (std::size_t i = 0; i < rows.size(); ++i) {
                rows[i].excluded |= s.keep[i] == 0 ? std::uint32_t{SLUICE_EX_FILTERED} : 0U;
            }
        }
    }
    out.is_all_filtered = was_any_free && std::none_of(rows.begin(), rows.end(), is_free);
    if (out.is_all_filtered) {
        return out;
    }

    std::fill_n(s.sums.begin(), rows.size(), 0.0F);
    for (std::size_t p = 0; p < parts_.size(); ++p) {
        const SelectorInstance& selector = *parts_[p].selector;
        if (!selector.is_active() || !selector.has_score()) {
            continue;
        }
        std::fill_n(s.scores.begin(), rows.size(), 0.0F);
        choice.view = views_[p];
        if (selector.score(choice, s.scores.data()) != SLUICE_OK) {
            continue;
        }
        const auto end = s.scores.begin() + static_cast<std::ptrdiff_t>(rows.size());
        if (std::any_of(s.scores.begin(), end, [](float f) { return std::isnan(f); })) {
            selector.count_defect("a score is not a number");
            continue;
        }
        bool is_clamped = false;
        for (std::size_t i = 0; i < rows.size(); ++i) {
            const float clamped = std::clamp(s.scores[i], 0.0F, 1.0F);
            is_clamped = is_clamped || clamped != s.scores[i];
            s.sums[i] += parts_[p].weight * clamped;
        }
        if (is_clamped) {
            selector.count_defect("a score is outside 0..1");
        }
        out.sums = s.sums.data();
    }
    return out;
}

SelectorChoice SelectorView::choose(const sluice_request& request, std::uint32_t leg,
                                    std::uint64_t peer,
                                    std::span<sluice_candidate> rows) const noexcept {
    assert(rows.size() == num_rows_);
    SelectorChoice out;
    if (rows.size() != num_rows_) {
        return out;
    }
    sluice_choice choice{};
    choice.size = sizeof choice;
    choice.leg = leg;
    choice.request = &request;
    choice.candidates = to_array(rows);
    choice.peer = peer;

    const Weighed weighed = weigh(choice, rows);
    out.is_all_filtered = weighed.is_all_filtered;
    out.is_degraded = weighed.is_degraded;
    choice.scores = weighed.sums;
    if (std::none_of(rows.begin(), rows.end(), is_free)) {
        return out;
    }
    const auto score_of = [&](std::size_t i) {
        return weighed.sums == nullptr ? 0.0F : weighed.sums[i];
    };

    for (std::size_t p = 0; p < parts_.size(); ++p) {
        const SelectorInstance& selector = *parts_[p].selector;
        if (!selector.is_active() || !selector.has_pick()) {
            continue;
        }
        choice.view = views_[p];
        std::uint32_t index = UINT32_MAX;
        if (selector.pick(choice, index) != SLUICE_OK) {
            continue;
        }
        if (index < rows.size() && is_free(rows[index])) {
            out.by = SelectorChoice::By::Pick;
            out.index = index;
            out.score = score_of(index);
            return out;
        }
        selector.count_defect("picked a row that may not be chosen");
        break;
    }

    std::size_t best = rows.size();
    for (std::size_t i = 0; i < rows.size(); ++i) {
        if (!is_free(rows[i])) {
            continue;
        }
        const auto order = [&](std::size_t r) {
            return std::tuple(-score_of(r), rows[r].inflight, rows[r].endpoint, rows[r].dp_rank);
        };
        if (best == rows.size() || order(i) < order(best)) {
            best = i;
        }
    }
    out.by = SelectorChoice::By::Score;
    out.index = static_cast<std::uint32_t>(best);
    out.score = score_of(best);
    return out;
}

void SelectorView::observe(const sluice_outcome& outcome) const noexcept {
    for (const SelectorPart& part : parts_) {
        part.selector->observe(outcome);
    }
}

std::string SelectorView::explain(const sluice_request& request, std::uint32_t leg,
                                  std::uint64_t peer, std::span<sluice_candidate> rows,
                                  std::uint32_t index) const {
    std::string out;
    if (rows.size() != num_rows_ || index >= rows.size()) {
        return out;
    }
    sluice_choice choice{};
    choice.size = sizeof choice;
    choice.leg = leg;
    choice.request = &request;
    choice.candidates = to_array(rows);
    choice.peer = peer;
    choice.scores = weigh(choice, rows).sums;
    for (std::size_t p = 0; p < parts_.size(); ++p) {
        std::string line;
        choice.view = views_[p];
        if (parts_[p].selector->explain(choice, index, line) == SLUICE_OK && !line.empty()) {
            out += out.empty() ? "" : "; ";
            out += line;
        }
    }
    return out;
}

}  // namespace sluice::plugin
