// What an Attachment learns for the legs of prefill/decode pairs.
#include "plugins/vllm/attachment.hpp"

namespace sluice::vllm {

PrefillFacts Attachment::prefill_facts() const {
    PrefillFacts out;
    out.version = version_number_.load(std::memory_order_relaxed);
    out.block_tokens = block_tokens_.load(std::memory_order_relaxed);
    out.counts_holds = counts_holds_.load(std::memory_order_relaxed);
    if (settings_.connector == Connector::Mooncake) {
        const std::lock_guard lock(bootstrap_mu_);
        out.bootstrap = bootstrap_;
    }
    return out;
}

void Attachment::forget_process() {
    version_number_.store(0, std::memory_order_relaxed);
    {
        const std::lock_guard lock(bootstrap_mu_);
        bootstrap_.reset();
    }
    ask_version();
}

std::string Attachment::bootstrap_url() const {
    const bool is_v6 = engine_address_.find(':') != std::string::npos;
    return "http://" + (is_v6 ? "[" + engine_address_ + "]" : engine_address_) + ":" +
           std::to_string(settings_.bootstrap_port);
}

void Attachment::ask_bootstrap() {
    if (bootstrap_call_.running()) {
        return;
    }
    const std::string url = bootstrap_url() + "/query";
    HttpAsk ask;
    ask.target = url;
    ask.timeout_us = kCallTimeoutUs;
    ask.max_body_bytes = kMaxSmallBody;
    // Not started: the next tick tries again.
    (void)bootstrap_call_.start(host_, ask,
                                [this](const sluice_http_result& r) { on_bootstrap(r); });
}

void Attachment::on_bootstrap(const sluice_http_result& r) {
    std::optional<Bootstrap> found;
    if (r.status == SLUICE_OK && r.http_code == 200) {
        if (auto engines = parse_bootstrap(text(r.body))) {
            found = Bootstrap{bootstrap_url(), std::move(*engines)};
        }
    }
    // A server that is slow for a moment is still where it was.
    const bool is_silent = r.status != SLUICE_OK;
    bootstrap_misses_ = is_silent ? bootstrap_misses_ + 1 : 0;
    if (is_silent && bootstrap_misses_ < kBootstrapMisses) {
        return;
    }
    const std::lock_guard lock(bootstrap_mu_);
    bootstrap_ = std::move(found);
}

}  // namespace sluice::vllm
