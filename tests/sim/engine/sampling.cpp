#include "tests/sim/engine/sampling.hpp"

#include <algorithm>
#include <limits>

#include "tests/sim/support/utf8.hpp"

namespace sluice::sim {
namespace {

// splitmix64's finisher.
std::uint64_t mix(std::uint64_t x) noexcept {
    x ^= x >> 30U;
    x *= 0xBF58476D1CE4E5B9ULL;
    x ^= x >> 27U;
    x *= 0x94D049BB133111EBULL;
    return x ^ x >> 31U;
}

std::uint64_t after(std::uint64_t state, TokenId token) noexcept {
    return mix(state + 0x9E3779B97F4A7C15ULL * (token + 1ULL));
}

constexpr std::uint32_t kShortest = 24;
constexpr std::uint32_t kSpread = 200;

}  // namespace

std::string_view to_string(FinishReason r) noexcept {
    switch (r) {
        case FinishReason::Stop:
            return "stop";
        case FinishReason::Length:
            return "length";
        case FinishReason::Abort:
            return "abort";
        case FinishReason::Error:
            break;
    }
    return "error";
}

std::uint64_t start_state(std::uint64_t seed) noexcept {
    return mix(seed);
}

std::uint64_t next_state(std::uint64_t state, TokenId token) noexcept {
    return after(state, token);
}

// What the next token follows from: each of several answers to a prompt reads it in its own way.
std::uint64_t Generator::view() const noexcept {
    return sampling_.variant == 0 ? state_ : mix(state_ ^ sampling_.variant);
}

Generator::Generator(const TextModel& model, Sampling sampling, const std::vector<TokenId>& prompt,
                     std::uint64_t seed, std::uint32_t eos_after)
    : model_(&model), sampling_(std::move(sampling)), detokenizer_(model), state_(mix(seed)) {
    for (const TokenId t : prompt) {
        state_ = after(state_, t);
    }
    eos_at_ =
        eos_after > 0 ? eos_after : kShortest + static_cast<std::uint32_t>(mix(~view()) % kSpread);
    for (const std::string& s : sampling_.stop) {
        const std::size_t n = utf8::count(s);
        held_back_ = std::max(held_back_, n == 0 || sampling_.includes_stop ? 0 : n - 1);
    }
}

TokenId Generator::choose() {
    if (made_ < sampling_.given.size()) {
        return sampling_.given[made_];
    }
    const auto eos = model_->eos();
    const bool may_end = eos && made_ >= sampling_.min_tokens && !sampling_.ignores_eos;
    if (sampling_.forced && (sampling_.forced != eos || may_end)) {
        return *sampling_.forced;
    }
    if (made_ < sampling_.script.size()) {
        return sampling_.script[made_];
    }
    if (may_end && (!sampling_.script.empty() || made_ >= eos_at_)) {
        return *eos;
    }
    const auto& words = model_->words();
    return words.empty() ? 0 : words[mix(view()) % words.size()];
}

bool Generator::ends_with(TokenId token, Step& step) {
    if (made_ <= sampling_.min_tokens) {  // the token itself is counted already
        return false;
    }
    if (token == model_->eos() && !sampling_.ignores_eos) {
        step.finish = Finish{FinishReason::Stop, std::monostate{}};
        return true;
    }
    if (std::find(sampling_.stop_ids.begin(), sampling_.stop_ids.end(), token) !=
        sampling_.stop_ids.end()) {
        step.finish = Finish{FinishReason::Stop, token};
        return true;
    }
    return false;
}

std::optional<std::string> Generator::find_stop(std::size_t from) {
    std::size_t best = std::string::npos;
    std::optional<std::string> found;
    for (const std::string& s : sampling_.stop) {
        const std::size_t start = from > s.size() ? from - s.size() : 0;
        const std::size_t at = s.empty() ? std::string::npos : text_.find(s, start);
        if (at < best) {
            best = at;
            found = s;
        }
    }
    if (found) {
        text_.resize(sampling_.includes_stop ? best + found->size() : best);
    }
    return found;
}

std::string Generator::release(bool is_last) {
    std::size_t end = text_.size();
    for (std::size_t n = is_last ? 0 : held_back_; n > 0 && end > 0; --n) {
        end = utf8::whole_prefix(std::string_view(text_).substr(0, end - 1));
    }
    if (end <= shown_) {
        return {};
    }
    std::string out = text_.substr(shown_, end - shown_);
    shown_ = end;
    return out;
}

Step Generator::next() {
    Step step;
    step.token = choose();
    state_ = after(state_, step.token);
    ++made_;
    const bool stopped = ends_with(step.token, step);
    if (!stopped || sampling_.includes_stop) {
        const std::size_t before = text_.size();
        text_ += detokenizer_.push(step.token);
        if (made_ > sampling_.min_tokens && !stopped) {
            if (auto s = find_stop(before)) {
                step.finish = Finish{FinishReason::Stop, std::move(*s)};
            }
        }
    }
    if (!step.finish && made_ >= sampling_.max_tokens) {
        step.finish = Finish{FinishReason::Length, std::monostate{}};
    }
    step.text = release(step.finish.has_value());
    return step;
}

}  // namespace sluice::sim
