#include "plugins/vllm/attachment.hpp"

#include <algorithm>

namespace sluice::vllm {

Attachment::Attachment(const Host& host, const Settings& settings, const sluice_endpoint& endpoint,
                       std::uint32_t watch)
    : host_(host),
      settings_(settings),
      id_(endpoint.id),
      engine_address_(view(endpoint.address)),
      address_(settings.events_from.empty() ? std::string(view(endpoint.address))
                                            : settings.events_host()),
      name_(view(endpoint.name)),
      watch_(watch),
      declared_ranks_(endpoint.num_dp_ranks) {
    // A phase of its own, so that many endpoints are not asked in one instant.
    const std::uint64_t phase_us = (id_ * 7919U % 1000U) * 1000U;
    const Started started = timer_.start(host_, kTickUs + phase_us, kTickUs, [this] { tick(); });
    if (!started) {
        throw Failure(started.code, "cannot start a timer: " + started.what);
    }
    version_settled_ = metrics_settled_ = !asks_engine();
    ask_version();
    scrape();
    if (settings_.connector == Connector::Mooncake) {
        ask_bootstrap();
    }
    if (watches(SLUICE_WATCH_KV)) {
        report(SLUICE_KV_WAITING, SLUICE_WHY_NONE, "", "");
        if (settings_.discovery) {
            discover();
        } else {
            waiting_feeds_ = classic_feeds(address_, classic_ranks(), settings_);
            start_feeds_when_ready();
        }
    }
    ask_models();
}

std::uint32_t Attachment::classic_ranks() const noexcept {
    return settings_.ranks.value_or(std::max<std::uint32_t>(declared_ranks_, 1));
}

Started Attachment::get(HttpCall& call, std::string_view target, std::uint64_t max_bytes,
                        void (Attachment::*done)(const sluice_http_result&)) {
    HttpAsk ask;
    ask.endpoint = id_;
    ask.target = target;
    ask.timeout_us = kCallTimeoutUs;
    ask.max_body_bytes = max_bytes;
    return call.start(host_, ask, [this, done](const sluice_http_result& r) { (this->*done)(r); });
}

void Attachment::tick() {
    ++ticks_;
    const Voice heard = voice_.exchange(Voice::Nothing, std::memory_order_relaxed);
    if (heard != Voice::Nothing) {
        is_voiced_ = true;
        host_.health(id_, heard == Voice::Dead ? SLUICE_HEALTH_DOWN : SLUICE_HEALTH_SUSPECT,
                     heard == Voice::Dead ? "the engine's core is gone" : "the engine is draining");
    }
    if (watches(SLUICE_WATCH_LOAD) || !metrics_settled_ || ticks_ % kModelsEveryTicks == 0) {
        scrape();
    }
    if (known_.version.empty() && ticks_ % kModelsEveryTicks == 0) {
        ask_version();
    }
    if (ticks_ % kModelsEveryTicks == 0) {
        ask_models();
    }
    if (settings_.connector == Connector::Mooncake) {
        ask_bootstrap();
    }
    bool any_unlinked = false;
    for (const auto& [number, rank] : ranks_) {
        rank->tick();
        any_unlinked = any_unlinked || !rank->is_linked();
    }
    if (!watches(SLUICE_WATCH_KV) || !settings_.discovery) {
        return;
    }
    // A gateway learns of ranks while it runs.
    const bool again =
        (any_unlinked || is_off_ || is_read_elsewhere()) && ticks_ % kDiscoverEveryTicks == 0;
    if (again || (discover_at_tick_ != 0 && ticks_ >= discover_at_tick_)) {
        discover();
    }
}

// Facts.

void Attachment::ask_version() {
    if (asks_engine() && !version_call_.running() &&
        !get(version_call_, "/version", kMaxSmallBody, &Attachment::on_version)) {
        version_settled_ = true;
    }
}

void Attachment::on_version(const sluice_http_result& r) {
    if (r.status == SLUICE_OK && r.http_code == 200) {
        if (const auto version = parse_version(text(r.body))) {
            known_.version = "vLLM " + version->substr(0, 64);
            version_number_.store(version_number(known_.version), std::memory_order_relaxed);
        }
    }
    version_settled_ = true;
    tell_facts();
    start_feeds_when_ready();
}

void Attachment::scrape() {
    if (asks_engine() && !metrics_call_.running() &&
        !get(metrics_call_, "/metrics", kMaxMetricsBody, &Attachment::on_metrics)) {
        metrics_settled_ = true;
    }
}

void Attachment::on_metrics(const sluice_http_result& r) {
    metrics_settled_ = true;
    if (r.status == SLUICE_OK && r.http_code == 200) {
        const Metrics m = parse_metrics(text(r.body));
        if (m.epoch != 0 && known_.epoch != 0 && m.epoch != known_.epoch) {
            forget_process();
        }
        known_.epoch = m.epoch != 0 ? m.epoch : known_.epoch;
        if (!events_gave_block_size_ && m.block_size) {
            known_.block_tokens = *m.block_size;
        }
        if (!m.hash_algorithm.empty()) {
            hash_algorithm_ = m.hash_algorithm;
            for (const auto& [number, rank] : ranks_) {
                rank->hint_algorithm(hash_algorithm_);
            }
        }
        if (known_.ranks == 0 && !watches(SLUICE_WATCH_KV)) {
            known_.ranks = static_cast<std::uint32_t>(m.ranks.size());
        }
        tell_facts();
        tell_health(m);
        if (watches(SLUICE_WATCH_LOAD)) {
            tell_load(m);
        }
        if (watches(SLUICE_WATCH_KV)) {
            tell_prefix_caching(m);
        }
    }
    start_feeds_when_ready();
}

void Attachment::block_tokens_seen(std::uint32_t tokens) {
    events_gave_block_size_ = true;
    known_.block_tokens = tokens;
    tell_facts();
}

void Attachment::tell_facts() {
    if (!version_settled_ || !metrics_settled_ || told_ == known_) {
        return;
    }
    block_tokens_.store(known_.block_tokens, std::memory_order_relaxed);
    const bool another_process = told_ ? told_->epoch != known_.epoch : !ranks_.empty();
    const bool restarted = told_ && told_->epoch != 0 && told_->epoch != known_.epoch;
    told_ = known_;
    sluice_engine_facts facts{};
    facts.num_dp_ranks = known_.ranks;
    facts.endpoint = id_;
    facts.epoch = known_.epoch;
    facts.block_tokens = known_.block_tokens;
    facts.max_context_tokens = known_.max_tokens;
    facts.version = borrow(known_.version);
    host_.facts(facts);
    if (restarted) {
        ask_version();
        if (is_voiced_) {
            is_voiced_ = false;
            host_.health(id_, SLUICE_HEALTH_READY, "another engine process");
        }
    }
    if (another_process) {
        // The host has emptied the inventory with the new epoch; begin each stream again.
        for (const auto& [number, rank] : ranks_) {
            rank->engine_changed();
        }
    }
}

// Load and health.

void Attachment::tell_load(const Metrics& m) {
    const auto ranks = static_cast<std::uint64_t>(m.ranks.size());
    sluice_load whole{};
    whole.endpoint = id_;
    whole.dp_rank = SLUICE_ANY;
    whole.kv_used_ratio = -1;
    whole.total_blocks = m.total_blocks.value_or(0);
    whole.holds_expired = m.holds_expired.value_or(0);
    whole.holds_read_late = m.holds_read_late.value_or(0);
    double used = 0;
    std::uint64_t used_ranks = 0;
    for (const auto& [number, load] : m.ranks) {
        sluice_load one{};
        one.endpoint = id_;
        one.dp_rank = number;
        one.running = load.running;
        one.waiting = load.waiting;
        one.kv_used_ratio = load.kv_used ? static_cast<float>(*load.kv_used) : -1.0F;
        one.total_blocks = whole.total_blocks / ranks;
        one.progress = load.progress;
        one.hit_tokens = load.hit_tokens;
        if (ranks > 1) {
            host_.load(one);
        }
        whole.running += load.running;
        whole.waiting += load.waiting;
        whole.progress += load.progress;
        whole.hit_tokens += load.hit_tokens;
        used += load.kv_used.value_or(0);
        used_ranks += load.kv_used ? 1 : 0;
    }
    if (ranks == 0) {
        return;  // statistics are switched off: no sample is better than zeros
    }
    if (used_ranks != 0) {
        whole.kv_used_ratio = static_cast<float>(used / static_cast<double>(used_ranks));
    }
    host_.load(whole);
    counts_holds_.store(m.holds_expired && m.holds_read_late, std::memory_order_relaxed);
}

void Attachment::tell_health(const Metrics& m) {
    if (!m.asleep || m.asleep == asleep_) {
        return;
    }
    if (*m.asleep || asleep_) {
        host_.health(id_, *m.asleep ? SLUICE_HEALTH_ASLEEP : SLUICE_HEALTH_READY,
                     *m.asleep ? "the engine sleeps" : "the engine is awake");
    }
    asleep_ = m.asleep;
}

void Attachment::tell_prefix_caching(const Metrics& m) {
    if (!m.prefix_caching || m.prefix_caching == prefix_caching_) {
        return;
    }
    if (!*m.prefix_caching) {
        report(SLUICE_KV_DEAD, SLUICE_WHY_EVENTS_OFF, "prefix_cache_off",
               "the engine runs without prefix caching and stores nothing",
               "start the engine with --enable-prefix-caching");
    } else if (prefix_caching_) {
        report(SLUICE_KV_WAITING, SLUICE_WHY_NONE, "", "");
    }
    prefix_caching_ = m.prefix_caching;
}

// Models.

void Attachment::ask_models() {
    if ((watches(SLUICE_WATCH_MODELS) || (watches(SLUICE_WATCH_KV) && asks_engine())) &&
        !models_call_.running()) {
        (void)get(models_call_, "/v1/models", kMaxSmallBody,
                  &Attachment::on_models);  // asked again in time
    }
}

void Attachment::on_models(const sluice_http_result& r) {
    if (r.status != SLUICE_OK || r.http_code != 200) {
        return;
    }
    auto models = parse_models(text(r.body));
    if (!models) {
        return;
    }
    models_ = std::move(*models);
    std::vector<sluice_model_info> infos;
    for (const Model& m : models_) {
        sluice_model_info info{};
        info.size = sizeof info;
        info.kind = m.parent.empty() ? SLUICE_MODEL_BASE : SLUICE_MODEL_LORA;
        info.name = borrow(m.name);
        info.parent = borrow(m.parent);
        infos.push_back(info);
        known_.max_tokens = std::max(known_.max_tokens, m.max_tokens);
    }
    tell_facts();
    if (watches(SLUICE_WATCH_MODELS)) {
        host_.models(id_, infos);
    }
}

std::string Attachment::lora_path(const std::string& name) const {
    for (const Model& m : models_) {
        if (m.name == name && !m.parent.empty()) {
            return m.path;
        }
    }
    return {};
}

void Attachment::report(std::uint32_t state, std::uint32_t why, std::string_view reason,
                        std::string_view detail, std::string_view advice) {
    sluice_kv_report report{};
    report.dp_rank = SLUICE_ANY;
    report.endpoint = id_;
    report.state = state;
    report.why = why;
    report.count = why == SLUICE_WHY_NONE ? 0 : 1;
    report.detail = borrow(detail);
    report.reason = borrow(reason);
    report.advice = borrow(advice);
    host_.report(report);
}

}  // namespace sluice::vllm
