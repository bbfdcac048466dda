#include "plugins/vllm/attest.hpp"

#include <array>

namespace sluice::vllm {

Attestor::Attestor(const Settings& settings)
    : algorithm_(settings.algorithm), seed_(settings.seed) {
    std::vector<std::optional<std::string>> seeds;
    if (seed_) {
        seeds.emplace_back(seed_);
    }
    seeds.emplace_back(std::nullopt);
    if (seed_ != "0") {
        seeds.emplace_back("0");
    }
    const std::array rules{
        HashRule{Algorithm::Sha256, false}, HashRule{Algorithm::Sha256Cbor, false},
        HashRule{Algorithm::XxhashCbor, false}, HashRule{Algorithm::Xxhash, false},
        HashRule{Algorithm::Sha256Cbor64, true}};
    for (const HashRule& rule : rules) {
        for (const auto& seed : seeds) {
            if (auto none = none_hash(rule, seed)) {
                candidates_.push_back({rule, seed, std::move(*none)});
            }
        }
    }
}

bool Attestor::fits(const Candidate& c, const Root& root, KeyForm form) const {
    if (form == KeyForm::Tagged && !root.who.lora.empty() && root.who.lora_path.empty()) {
        return false;
    }
    const auto keys = text_keys(form, root.who, 1);
    const auto chain =
        hash_chain(c.rule, c.none, root.tokens.first(root.block_tokens), root.block_tokens, keys);
    return !chain.empty() && chain[0].folded() == root.hashes[0];
}

bool Attestor::try_candidates(const Root& root) {
    const bool has_keys = !root.who.lora.empty() || !root.who.salt.empty();
    const auto try_one = [&](std::size_t i) {
        for (KeyForm form : {KeyForm::Tagged, KeyForm::Bare}) {
            if (fits(candidates_[i], root, form)) {
                found_ = i;
                if (has_keys) {
                    form_ = form;
                }
                return true;
            }
            if (!has_keys) {
                return false;  // both forms are one
            }
        }
        return false;
    };
    if (found_) {
        return try_one(*found_);
    }
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
        if (try_one(i)) {
            return true;
        }
    }
    return false;
}

std::optional<Verdicted> Attestor::see(const Root& root) {
    if (root.block_tokens == 0 || root.hashes.empty() || root.tokens.size() < root.block_tokens) {
        return std::nullopt;
    }
    const bool has_keys = !root.who.lora.empty() || !root.who.salt.empty();
    const bool wanted = !found_ ? tries_ < kMaxTries : has_keys && !form_ && tries_ < kMaxTries;
    if (!wanted) {
        return std::nullopt;
    }
    ++tries_;
    return conclude(root, try_candidates(root));
}

std::optional<Verdicted> Attestor::conclude(const Root& root, bool fitted) {
    if (fitted) {
        const Candidate& c = candidates_[*found_];
        const std::string algorithm(name_of(c.rule.algorithm));
        if (algorithm_ && c.rule.algorithm != *algorithm_) {
            return say(Attestation::OtherAlgorithm, "the engine hashes with " + algorithm +
                                                        ", the rule says " +
                                                        std::string(name_of(*algorithm_)));
        }
        if (seed_ && c.seed != seed_) {
            return say(Attestation::OtherSeed, c.seed ? "the engine's PYTHONHASHSEED is " + *c.seed
                                                      : "the engine runs without PYTHONHASHSEED");
        }
        std::string detail = algorithm;
        if (form_) {
            detail += ", key_form " + std::string(key_form());
        }
        return say(Attestation::Attested, std::move(detail));
    }
    const bool path_missing = !root.who.lora.empty() && root.who.lora_path.empty();
    if (found_ || path_missing || (!root.shows_keys && tries_ < kHiddenTries)) {
        return std::nullopt;  // this one proves nothing
    }
    if (algorithm_ && !hint_.empty() && hint_ != name_of(*algorithm_)) {
        return say(Attestation::OtherAlgorithm, "the engine hashes with " + hint_ +
                                                    ", the rule says " +
                                                    std::string(name_of(*algorithm_)));
    }
    if (algorithm_ && seed_) {
        return hint_.empty() ? say(Attestation::OtherAlgorithm,
                                   "no known algorithm with the declared seed fits")
                             : say(Attestation::OtherSeed,
                                   "the declared seed does not give the engine's hashes");
    }
    if (algorithm_ || seed_) {
        return say(Attestation::Unproven, "the engine's hash seed is not known");
    }
    return std::nullopt;
}

std::optional<Verdicted> Attestor::say(Attestation result, std::string detail) {
    const bool form_is_news = form_.has_value() && !said_form_;
    if (said_ == result && !form_is_news) {
        return std::nullopt;
    }
    said_ = result;
    said_form_ = form_.has_value();
    return Verdicted{result, std::move(detail)};
}

std::size_t Attestor::plain_blocks(const Root& root) const {
    if (!found_ || root.block_tokens == 0) {
        return root.hashes.size();
    }
    const Candidate& c = candidates_[*found_];
    const auto keys = text_keys(KeyForm::Bare, root.who, root.hashes.size());
    const auto chain = hash_chain(c.rule, c.none, root.tokens, root.block_tokens, keys);
    std::size_t same = 0;
    while (same < chain.size() && same < root.hashes.size() &&
           chain[same].folded() == root.hashes[same]) {
        ++same;
    }
    return same;
}

std::string_view Attestor::key_form() const noexcept {
    return !form_ ? "" : *form_ == KeyForm::Tagged ? "tagged" : "bare";
}

void Attestor::forget() {
    found_.reset();
    form_.reset();
    tries_ = 0;
    said_.reset();
    said_form_ = false;
}

}  // namespace sluice::vllm
