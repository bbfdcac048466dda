#include "plugins/trtllm/attachment.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace sluice::trtllm {

namespace {

// The connection was refused, or broke before a reply. A time-out proves nothing.
bool is_refused(const sluice_http_result& r) noexcept {
    return r.status == SLUICE_E_UNAVAILABLE && r.http_code == 0;
}

}  // namespace

Attachment::Attachment(const Host& host, Shared& shared, const sluice_endpoint& endpoint,
                       std::uint32_t watch)
    : host_(host),
      shared_(shared),
      settings_(shared.settings),
      id_(endpoint.id),
      watch_(watch),
      signal_(host_, id_),
      feed_(*this, host_, signal_, id_, std::string(view(endpoint.base_url))) {
    // A phase of its own, so that many endpoints are not asked in one instant.
    const std::uint64_t phase_us = (id_ * 7919U % 1000U) * 1000U;
    const Started started = timer_.start(host_, kTickUs + phase_us, kTickUs, [this] { tick(); });
    if (!started) {
        throw Failure(started.code, "cannot start a timer: " + started.what);
    }
    tell_facts();  // they empty the inventory: before the first event
    look_at_key();
    get(version_call_, "/version", kMaxSmallBody, &Attachment::on_version);
    ask_schema();
    if (watches(SLUICE_WATCH_KV)) {
        signal_.say();
        ask_admission();
    }
    if (watches(SLUICE_WATCH_MODELS)) {
        get(models_call_, "/v1/models", kMaxSmallBody, &Attachment::on_models);
    }
}

void Attachment::get(HttpCall& call, std::string_view target, std::uint64_t max_bytes, Handler done,
                     std::uint64_t timeout_us) {
    if (call.running()) {
        return;
    }
    HttpAsk ask;
    ask.endpoint = id_;
    ask.target = target;
    ask.timeout_us = timeout_us;
    ask.max_body_bytes = max_bytes;
    // One that cannot begin is asked again at another tick.
    (void)call.start(host_, ask, [this, done](const sluice_http_result& r) {
        heard(r);
        (this->*done)(r);
    });
}

void Attachment::tick() {
    ++ticks_;
    look_at_key();
    if (!has_schema_ && ticks_ >= schema_at_tick_) {
        ask_schema();
    }
    get(version_call_, "/version", kMaxSmallBody, &Attachment::on_version);
    if (watches(SLUICE_WATCH_MODELS) && (!has_models_ || ticks_ % kModelsEveryTicks == 0)) {
        get(models_call_, "/v1/models", kMaxSmallBody, &Attachment::on_models);
    }
    if (watches(SLUICE_WATCH_LOAD) && (has_metrics_ || ticks_ % kRecheckTicks == 0)) {
        get(metrics_call_, "/prometheus/metrics", kMaxMetricsBody, &Attachment::on_metrics);
    }
    if (!watches(SLUICE_WATCH_KV)) {
        return;
    }
    if (admission_at_tick_ != 0 && ticks_ >= admission_at_tick_) {
        ask_admission();
    }
    judge_silence();
    feed_.look();
    signal_.say();
}

// Admission.

void Attachment::ask_admission() {
    admission_at_tick_ = 0;
    get(admission_call_, "/server_info", kMaxSmallBody, &Attachment::on_server_info,
        kAdmissionTimeoutUs);
    if (!admission_call_.running()) {
        admission_at_tick_ = ticks_ + kRetryTicks;
    }
}

void Attachment::on_server_info(const sluice_http_result& r) {
    if (!watches(SLUICE_WATCH_KV)) {
        return;
    }
    const bool is_refusal =
        signal_.now.door == Condition::Door::Judged && !signal_.now.is_admitted();
    const bool has_route = !(r.status == SLUICE_OK && r.http_code == 404);
    auto info = r.status == SLUICE_OK && r.http_code == 200 ? parse_server_info(text(r.body))
                                                            : std::nullopt;
    if (info || !has_route) {
        if (is_refusal) {
            // A while has passed: what its events showed may be another process's.
            shown_block_tokens_.reset();
            shown_algo_.clear();
        }
        has_route_ = has_route;
        info_ = std::move(info);
        settle();
        return;
    }
    admission_at_tick_ = ticks_ + (is_refusal ? kRecheckTicks : kRetryTicks);
    if (signal_.now.door != Condition::Door::Judged) {
        signal_.now.door = Condition::Door::Unreachable;
        signal_.now.door_code = r.http_code;
        signal_.say();
    }
}

void Attachment::settle() {
    ServerInfo believed = info_.value_or(ServerInfo{});
    max_running_ = believed.max_batch_size.value_or(0);
    if (!shown_algo_.empty()) {
        believed.hash_algo = shown_algo_;
    }
    Admission verdict = judge(believed, settings_, shown_block_tokens_);
    if (verdict.kind == Admission::Kind::Legacy && !has_route_) {
        verdict.detail = "the engine has no /server_info; " + verdict.detail;
    }
    if (!shown_algo_.empty() && verdict.kind == Admission::Kind::Refused) {
        verdict.detail =
            "the engine's events are tagged " + shown_algo_ + ", this gateway reads v1_block_key";
    }
    signal_.now.door = Condition::Door::Judged;
    signal_.now.admission = std::move(verdict);
    if (signal_.now.is_admitted()) {
        const std::uint32_t size = signal_.now.admission.block_tokens;
        block_tokens_.store(size, std::memory_order_relaxed);
        tell_facts();
        feed_.start(size);
    } else {
        const bool was_followed = feed_.is_running();
        feed_.stop();
        if (was_followed) {
            host_.reset(id_, SLUICE_ANY);
        }
        tell_facts();
        admission_at_tick_ = ticks_ + kRecheckTicks;
    }
    signal_.say();
}

bool Attachment::block_tokens_shown(std::uint32_t tokens) {
    host_.info("kv blocks of another size", {{"endpoint", id_}, {"tokens", tokens}});
    shown_block_tokens_ = tokens;
    settle();
    if (signal_.now.is_admitted()) {
        ask_admission_soon();
    }
    return signal_.now.is_admitted();
}

void Attachment::algo_shown(const std::string& name) {
    shown_algo_ = name;
    settle();
}

void Attachment::ranks_seen(std::uint32_t count) {
    ranks_ = std::max(ranks_, count);
    tell_facts();
}

// Another process.

void Attachment::restarted() {
    served_.forget();
    forget_accepts();
    ask_admission_soon();
}

void Attachment::call_ended(const sluice_http_result& result) {
    heard(result);
    if (is_refused(result)) {
        // A drain whose connection broke, or an engine that is gone: a second call tells.
        get(version_call_, "/version", kMaxSmallBody, &Attachment::on_version);
    }
}

void Attachment::heard(const sluice_http_result& result) {
    if (result.http_code != 0 && std::exchange(is_down_, false)) {
        engine_changed("it was down");
    }
}

void Attachment::engine_changed(std::string_view why) {
    host_.info("engine is another process", {{"endpoint", id_}, {"why", why}});
    ++epoch_;
    feed_.engine_changed();
    served_.forget();
    forget_accepts();
    if (!signal_.now.is_admitted()) {
        shown_block_tokens_.reset();  // what it was refused for may be gone
        shown_algo_.clear();
    }
    const Condition before = std::move(signal_.now);
    signal_.now = Condition{};
    signal_.now.door = before.door;
    signal_.now.admission = before.admission;
    signal_.now.door_code = before.door_code;
    tell_facts();
    if (watches(SLUICE_WATCH_KV)) {
        ask_admission_soon();
    }
}

void Attachment::on_version(const sluice_http_result& r) {
    is_down_ = is_down_ || is_refused(r);
    if (r.status != SLUICE_OK || r.http_code != 200) {
        return;
    }
    auto version = parse_version(text(r.body));
    if (!version) {
        return;
    }
    *version = "TensorRT-LLM " + version->substr(0, 64);
    if (*version == version_) {
        return;
    }
    const bool is_another = !version_.empty();
    version_ = std::move(*version);
    if (!has_schema_) {
        set_accepts(accepted_by_release(version_));
    }
    if (is_another) {
        engine_changed("its version changed");
    } else {
        tell_facts();
    }
}

void Attachment::tell_facts() {
    sluice_engine_facts facts{};
    facts.num_dp_ranks = ranks_;
    facts.endpoint = id_;
    // Where events come another way, whoever follows them says when their engine is another one.
    facts.epoch = watches(SLUICE_WATCH_KV) ? epoch_ : 0;
    const bool is_judged = signal_.now.door == Condition::Door::Judged;
    if (is_judged) {
        const auto known =
            shown_block_tokens_ || !info_ ? shown_block_tokens_ : info_->tokens_per_block;
        facts.block_tokens = known.value_or(signal_.now.admission.block_tokens);
    }
    facts.version = borrow(version_);
    host_.facts(facts);
}

// Models, load, and what served requests show.

void Attachment::on_models(const sluice_http_result& r) {
    const auto names =
        r.status == SLUICE_OK && r.http_code == 200 ? parse_models(text(r.body)) : std::nullopt;
    if (!names) {
        return;
    }
    has_models_ = true;
    std::vector<sluice_model_info> infos;
    for (const std::string& name : *names) {
        sluice_model_info info{};
        info.size = sizeof info;
        info.kind = SLUICE_MODEL_BASE;
        info.name = borrow(name);
        infos.push_back(info);
    }
    host_.models(id_, infos);
}

void Attachment::on_metrics(const sluice_http_result& r) {
    if (r.http_code == 0) {
        return;
    }
    has_metrics_ = r.http_code == 200;
    if (r.status != SLUICE_OK || !has_metrics_) {
        return;
    }
    const Load load = parse_load(text(r.body));
    if (!load.running) {
        return;  // no sample is better than zeros
    }
    sluice_load out{};
    out.dp_rank = SLUICE_ANY;
    out.endpoint = id_;
    out.running = *load.running;
    out.waiting = load.waiting;
    out.max_running = max_running_;
    out.kv_used_ratio = load.kv_used ? static_cast<float>(*load.kv_used) : -1.0F;
    out.total_blocks = load.total_blocks;
    out.progress = load.progress;
    out.hit_tokens = load.hit_tokens;
    host_.load(out);
}

void Attachment::judge_silence() {
    const bool may_be_silent = feed_.is_running() && !feed_.has_events() && served_.any();
    if (!may_be_silent) {
        silent_ticks_ = 0;
        if (feed_.has_events()) {
            signal_.now.silence = Silence::None;
            served_.forget();
        }
        return;
    }
    if (silent_ticks_++ == 0) {
        silent_since_drain_ = feed_.answered();
    }
    // Events of a request come with the next drain at the latest, if they come at all.
    if (silent_ticks_ > kSilentTicks && feed_.answered() >= silent_since_drain_ + 2) {
        signal_.now.silence = served_.judge();
    }
}

}  // namespace sluice::trtllm
