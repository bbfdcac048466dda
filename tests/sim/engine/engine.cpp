#include "tests/sim/engine/engine.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "core/base/clock.hpp"
#include "tests/sim/engine/fault.hpp"
#include "tests/sim/engine/sequence.hpp"

namespace sluice::sim {
namespace {

// How long a dying engine gives the server to answer what it could not.
constexpr std::chrono::milliseconds kLastWords{500};
// How long an engine with nothing to expire waits for work at most.
constexpr std::uint64_t kIdleUs = 1'000'000;

double seconds(std::uint64_t from_us, std::uint64_t to_us) {
    return static_cast<double>(to_us - from_us) / 1e6;
}

}  // namespace

std::vector<Step> Generation::take() {
    const std::lock_guard lock(mu_);
    return std::exchange(steps_, {});
}

std::uint32_t Generation::cached_tokens() const {
    const std::lock_guard lock(mu_);
    return cached_tokens_;
}

std::shared_ptr<const HandoffOffer> Generation::offer() const {
    const std::lock_guard lock(mu_);
    return offer_;
}

bool Generation::was_fetched() const {
    const std::lock_guard lock(mu_);
    return was_fetched_;
}

Engine::Engine(const EngineOptions& options, const TextModel& model,
               std::unique_ptr<PrefixCache> cache)
    : options_(options), model_(model), cache_(std::move(cache)) {
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
    pthread_setname_np(thread_.native_handle(), "engine");
}

Engine::~Engine() {
    thread_.request_stop();
    work_.notify_all();
}

std::shared_ptr<Generation> Engine::submit(GenerateRequest request, std::function<void()> notify) {
    auto generation = std::make_shared<Generation>();
    generation->notify_ = std::move(notify);
    Generator generator(model_, request.sampling, request.prompt, options_.seed,
                        options_.eos_after);
    generation->sequence_ =
        std::make_shared<Sequence>(std::move(request), std::move(generator), generation, now_us());
    {
        const std::lock_guard lock(mu_);
        if (desk_ != nullptr) {
            desk_->queued(*generation->sequence_);
        }
        waiting_.push_back(generation->sequence_);
        stats_.waiting = waiting_.size() + parked_.size();
    }
    work_.notify_one();
    return generation;
}

void Engine::abort(Generation& generation) {
    {
        const std::lock_guard lock(generation.mu_);
        generation.notify_ = nullptr;
    }
    const std::lock_guard lock(mu_);
    Sequence& s = *generation.sequence_;
    if (!s.is_done) {
        s.is_done = true;
        remove(s);
    }
}

// Takes a request out of wherever it is and gives its blocks back.
void Engine::remove(Sequence& s) {
    const auto is_it = [&s](const auto& other) {
        return other.get() == &s;
    };
    waiting_.erase(std::remove_if(waiting_.begin(), waiting_.end(), is_it), waiting_.end());
    running_.erase(std::remove_if(running_.begin(), running_.end(), is_it), running_.end());
    parked_.erase(std::remove_if(parked_.begin(), parked_.end(), is_it), parked_.end());
    if (desk_ != nullptr) {
        desk_->left(s);
    }
    cache_->release(s);
    tell_usage();
}

std::uint64_t Engine::expire() {
    return desk_ == nullptr ? kIdleUs : std::min(kIdleUs, desk_->expire());
}

bool Engine::reset_prefix_cache(bool preempts_running) {
    const std::lock_guard lock(mu_);
    while (preempts_running && !running_.empty()) {
        preempt_last();
    }
    return cache_->reset();
}

void Engine::set_paused(bool paused) {
    {
        const std::lock_guard lock(mu_);
        is_paused_ = paused;
    }
    work_.notify_one();
}

bool Engine::is_paused() const {
    const std::lock_guard lock(mu_);
    return is_paused_;
}

EngineStats Engine::stats() const {
    const std::lock_guard lock(mu_);
    return stats_;
}

std::uint64_t Engine::load_score() const {
    const std::lock_guard lock(mu_);
    return 4 * waiting_.size() + running_.size();
}

void Engine::run(const std::stop_token& stop) {
    std::unique_lock lock(mu_);
    while (!stop.stop_requested()) {
        const auto has_work = [this] {
            return is_dying_ || (!is_paused_ && (!waiting_.empty() || !running_.empty()));
        };
        // What is kept for others ends by itself, work or none.
        work_.wait_for(lock, stop, std::chrono::microseconds(expire()), has_work);
        if (stop.stop_requested()) {
            return;
        }
        if (is_dying_) {
            lock.unlock();
            std::this_thread::sleep_for(kLastWords);
            std::_Exit(kForeignTransferExit);
        }
        if (!has_work()) {
            continue;
        }
        const std::uint64_t started = now_us();
        const auto step = schedule();
        if (step.empty()) {  // every block is held; nothing moves before somebody ends
            work_.wait_for(lock, stop, std::chrono::milliseconds(1), [] { return false; });
            continue;
        }
        const std::uint64_t ends = started + duration_us(step);
        lock.unlock();
        if (const std::uint64_t now = now_us(); now < ends) {
            std::this_thread::sleep_for(std::chrono::microseconds(ends - now));
        }
        lock.lock();
        tell_computed(step);
        // Before the outputs, so that whoever has a reply can rely on its events being on their
        // way.
        cache_->publish();
        finish_step(step);
    }
}

std::uint64_t Engine::duration_us(const std::vector<Work>& step) const {
    std::uint64_t prefill_tokens = 0;
    bool decodes = false;
    for (const Work& w : step) {
        const bool is_decode =
            w.tokens == 1 && w.sequence->size() > w.sequence->request.prompt.size();
        decodes = decodes || is_decode;
        prefill_tokens += is_decode ? 0 : w.tokens;
    }
    return prefill_tokens * options_.prefill_us_per_token +
           (decodes ? options_.decode_us_per_token : 0);
}

void Engine::tell_computed(const std::vector<Work>& step) {
    for (const Work& w : step) {
        Sequence& s = *w.sequence;
        if (!s.is_done && s.is_running) {
            cache_->computed(s, s.computed + w.tokens);
        }
    }
}

void Engine::finish_step(const std::vector<Work>& step) {
    std::uint64_t tokens = 0;
    for (const Work& w : step) {
        Sequence& s = *w.sequence;
        tokens += w.tokens;
        if (s.is_done || !s.is_running) {
            continue;  // aborted or preempted meanwhile
        }
        s.computed += w.tokens;
        if (s.computed < s.size()) {
            continue;
        }
        Step made = s.generator.next();
        s.tokens.push_back(made.token);
        deliver(s, std::move(made));
    }
    stats_.iteration_tokens.add(static_cast<double>(tokens));
}

void Engine::deliver(Sequence& s, Step made) {
    const std::uint64_t now = now_us();
    ++stats_.generation_tokens;
    if (s.first_us == 0) {
        s.first_us = now;
        stats_.prompt_tokens += s.request.prompt.size();
        stats_.first_token_s.add(seconds(s.arrived_us, now));
    } else {
        stats_.inter_token_s.add(seconds(s.last_us, now));
    }
    s.last_us = now;
    if (made.finish) {
        s.is_done = true;
        ++(made.finish->reason == FinishReason::Length ? stats_.cut : stats_.stopped);
        if (desk_ != nullptr) {
            desk_->finished(s, made.finish->reason);
        }
        stats_.request_prompt_tokens.add(static_cast<double>(s.request.prompt.size()));
        stats_.request_generation_tokens.add(static_cast<double>(s.generator.made()));
        stats_.e2e_s.add(seconds(s.arrived_us, now));
        stats_.queue_s.add(seconds(s.arrived_us, s.scheduled_us));
        stats_.prefill_s.add(seconds(s.scheduled_us, s.first_us));
        stats_.decode_s.add(seconds(s.first_us, now));
        remove(s);
    }
    const auto generation = s.mailbox.lock();
    if (!generation) {
        return;
    }
    const std::lock_guard lock(generation->mu_);
    generation->steps_.push_back(std::move(made));
    if (generation->notify_) {
        generation->notify_();
    }
}

void Engine::fail(Sequence& s, bool is_fatal) {
    s.is_done = true;
    is_dying_ = is_dying_ || is_fatal;
    ++stats_.failed;
    remove(s);
    Step step;
    step.finish = Finish{FinishReason::Error, std::monostate{}};
    step.is_fatal = is_fatal;
    if (const auto generation = s.mailbox.lock()) {
        const std::lock_guard lock(generation->mu_);
        generation->steps_.push_back(std::move(step));
        if (generation->notify_) {
            generation->notify_();
        }
    }
}

void Engine::offer(Sequence& s, std::shared_ptr<const HandoffOffer> what) {
    if (const auto generation = s.mailbox.lock()) {
        const std::lock_guard lock(generation->mu_);
        generation->offer_ = std::move(what);
    }
}

std::uint32_t Engine::cached_tokens(const Sequence& s) {
    const auto generation = s.mailbox.lock();
    return generation == nullptr ? 0 : generation->cached_tokens();
}

}  // namespace sluice::sim
