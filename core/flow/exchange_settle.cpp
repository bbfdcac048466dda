// The end of an exchange: what was held is given up, and receipt, metrics, index and adapter learn
// what became of it.
#include "core/flow/exchange.hpp"
#include "core/flow/pd_exchange.hpp"

namespace sluice::flow {

void Exchange::count(const Usage& usage) {
    in_flight_.carried(client_.bytes_received(), client_.bytes_sent());
    in_flight_.end();
    if (!leg_.has_run()) {
        return;
    }
    const std::size_t answered = leg_.index();
    if (status_ != 0 && answered < service_->totals.endpoints.size()) {
        service_->totals.endpoints[answered]->bytes.fetch_add(
            client_.bytes_received() + client_.bytes_sent(), std::memory_order_relaxed);
    }
    if (service_->is_kv_watched(held_by()) && status_ >= 200 && status_ < 300) {
        count_echo();
        if (service_->traits.hears_served && receipt_.outcome == route::Outcome::Ok) {
            tell_served(usage);
        }
    }
}

// Whether the engine had cached what was predicted.
void Exchange::count_echo() {
    if (receipt_.predicted_cached <= 0) {
        return;
    }
    const route::KvCounters& counters = service_->kv_counters;
    const bool is_denied =
        receipt_.reported_cached >= 0 && receipt_.reported_cached < receipt_.predicted_cached;
    (receipt_.reported_cached < 0 ? counters.echo_silent
     : is_denied                  ? counters.echo_differ
                                  : counters.echo_agree)
        ->add();
    if (!is_denied && status_ == 200 && is_text_prompt_) {
        service_->kv_members[held_by()]->note_tokens_agree();
    }
}

void Exchange::tell_served(const Usage& usage) {
    const auto told = [](const std::optional<std::uint64_t>& tokens) {
        return tokens && *tokens < SLUICE_ANY ? static_cast<std::uint32_t>(*tokens)
                                              : std::uint32_t{SLUICE_ANY};
    };
    const std::uint32_t block = service_->block_tokens(held_by());
    const std::vector<std::uint32_t>& tokens = scratch_->prompt.tokens;
    const bool is_known = has_prompt_ && scratch_->prompt.miss.empty() && !tokens.empty();
    sluice_served served{};
    served.size = sizeof served;
    served.dp_rank = SLUICE_ANY;
    served.prompt_tokens = told(usage.prompt_tokens);
    served.cached_tokens =
        !predicted_by_ ? told(usage.cached_tokens) : cached_tokens_.value_or(SLUICE_ANY);
    const std::size_t length = is_known                             ? tokens.size()
                               : served.prompt_tokens != SLUICE_ANY ? served.prompt_tokens
                                                                    : 0;
    const std::size_t tail = service_->traits.uncached_tail_tokens;
    served.prompt_blocks = length == 0      ? std::uint32_t{SLUICE_ANY}
                           : length <= tail ? 0
                                            : static_cast<std::uint32_t>((length - tail) / block);
    if (is_known && tokens.size() >= block) {
        const kv::Key first =
            kv::next_key(kv::root_key(served_model_, facts_.salt), std::span(tokens).first(block));
        if (service_->kv_members[held_by()]->note_first_block(first)) {
            served.flags |= SLUICE_SERVED_REPEAT;
        }
    }
    service_->engine->served(held_by(), served);
}

void Exchange::settle() {
    receipt_.reported_cached = route::Receipt::kUnknown;
    const Usage usage = observer_.usage();
    if (usage.cached_tokens) {
        receipt_.reported_cached = static_cast<std::int64_t>(*usage.cached_tokens);
    }
    if (pd_) {
        if (cached_tokens_) {
            receipt_.reported_cached = *cached_tokens_;
        }
        pd_->settle();
    }
    if (is_stream_counted_) {
        worker_.metrics.stream_ended(receipt_.model);
    }
    if (leg_.has_run()) {
        leg_.record().done_us = since_start_us();
        leg_.record().bytes = client_.bytes_sent();
    }
    leg_.close();
    place_.release();
    count(usage);
    const double ttfb = first_byte_us_ == 0 ? -1.0 : static_cast<double>(first_byte_us_) * 1e-6;
    worker_.metrics.settle(receipt_, status_, static_cast<double>(since_start_us()) * 1e-6, ttfb,
                           client_.bytes_sent(), client_.bytes_received());
    worker_.shared.ring.push(receipt_);
}

}  // namespace sluice::flow
