// What the tiers of the ladder see: one request and the rows it can go to.
//
// Threads: request; scratch space of one loop.
#pragma once
#include <sluice/sdk/selector.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/route/facts.hpp"
#include "core/route/prefixes.hpp"
#include "core/route/prompt.hpp"
#include "core/route/receipt.hpp"
#include "core/route/service.hpp"

namespace sluice::route {

// Every endpoint, whatever its role: a single pool.
inline constexpr std::uint32_t kAnyRole = UINT32_MAX;

struct Question {
    const Service& service;
    const Facts& facts;
    std::string_view served_model;       // after aliases; empty = none named
    const Prompt* prompt = nullptr;      // null: not tokenized because no tier asked for it
    std::span<const std::size_t> tried;  // pool indexes that failed in this request already
    std::string_view request_id;
    std::string_view client;
    bool is_dry_run = false;
    std::uint64_t now_us = 0;
    // Of a P/D rule.
    std::uint32_t role = kAnyRole;  // the leg that is looked for: ep_role
    std::uint64_t session = 0;      // session_of(); 0 = none
    const Chain* chain = nullptr;   // null: the rule does not go by prefixes
};

// How far the blocks of one endpoint reach into the prompt.
struct Reach {
    std::uint32_t blocks = 0;
    std::uint32_t doubtful = 0;
    std::uint32_t rank = UINT32_MAX;
    std::uint32_t block_tokens = 0;  // 0 = not looked up
};

// One row an endpoint, in pool order.
class Rows {
public:
    void fill(const Question& q);

    std::size_t size() const noexcept { return candidates_.size(); }
    bool is_free(std::size_t i) const noexcept { return candidates_[i].excluded == 0; }
    sluice_candidate& candidate(std::size_t i) noexcept { return candidates_[i]; }
    const sluice_candidate& candidate(std::size_t i) const noexcept { return candidates_[i]; }
    std::span<sluice_candidate> candidates() noexcept { return candidates_; }
    Reach& reach(std::size_t i) noexcept { return reach_[i]; }
    const Reach& reach(std::size_t i) const noexcept { return reach_[i]; }
    std::uint32_t inflight(std::size_t i) const noexcept { return candidates_[i].inflight; }
    // The word of receipts for why a row was passed over; empty = eligible.
    std::string_view excluded(std::size_t i) const noexcept { return excluded_[i]; }
    void exclude(std::size_t i, std::string_view why) noexcept { excluded_[i] = why; }
    // Of another role than the one that is looked for.
    bool is_aside(std::size_t i) const noexcept { return excluded_[i] == kOtherRole; }
    // Nothing speaks against the row but that it has as many requests as it may.
    bool is_only_full(std::size_t i) const noexcept;
    // The row of an endpoint, if it may be chosen now.
    std::optional<std::size_t> free_row_of(std::uint64_t endpoint) const noexcept;
    void record(const Question& q, Receipt& receipt) const;

private:
    static constexpr std::string_view kOtherRole = "role";
    void admit_unknown_models();
    void hold_back_standbys(const Question& q);
    void pass_over_marked(const Question& q);
    void close_full(const Question& q);

    std::vector<sluice_candidate> candidates_;
    std::vector<std::string_view> excluded_;
    std::vector<Reach> reach_;
};

}  // namespace sluice::route
