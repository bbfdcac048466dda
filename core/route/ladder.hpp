// The tier ladder: who answers this request, and why not somebody better.
//
// Tiers are asked in order; each either decides or says why it passes. A smart tier can only
// improve a route: any doubt falls through, and the reason is counted and in the receipt.
//
// Threads: request; a Ladder is the scratch space of one loop and is used for one choice at a time.
// Errors:  none; nothing eligible is Decision::is_found false.
// Source:  routing contract, sections 4, 5.3 and 13.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/kv/match.hpp"
#include "core/route/facts.hpp"
#include "core/route/prompt.hpp"
#include "core/route/receipt.hpp"
#include "core/route/service.hpp"

namespace sluice::route {

struct Decision {
    bool is_found = false;
    std::size_t index = 0;  // in the pool
    Tier tier = Tier::None;
    std::uint32_t matched_blocks = 0;
    std::uint32_t rank = UINT32_MAX;
    std::uint32_t block_tokens = 0;  // of the chosen endpoint; 0 = the prompt is not known
};

// What the tiers see of one request.
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
};

class Ladder {
public:
    // Fills the receipt's candidates and misses. Charges nothing: the caller takes the lease.
    Decision choose(const Question& q, Receipt& receipt);

private:
    void fill_rows(const Question& q);
    void match_blocks(const Question& q);
    std::optional<std::size_t> kv_exact(const Question& q, Receipt& receipt);
    std::optional<std::size_t> select(const Question& q, Receipt& receipt);
    std::string_view kv_guard(const Question& q) const;
    bool is_free(std::size_t i) const noexcept { return rows_[i].excluded == 0; }
    std::optional<std::size_t> cold_seed(const Question& q) const;
    void record(const Question& q, Receipt& receipt) const;

    struct Reach {
        std::uint32_t blocks = 0;
        std::uint32_t doubtful = 0;
        std::uint32_t rank = UINT32_MAX;
        std::uint32_t block_tokens = 0;
    };
    std::vector<sluice_candidate> rows_;      // pool order
    std::vector<std::string_view> excluded_;  // why, per row; words of receipts
    std::vector<Reach> reach_;
    kv::MatchSet matches_;
};

}  // namespace sluice::route
