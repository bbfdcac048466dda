#include "sdk/check/scripted_host.hpp"

#include <cstring>

#include "sdk/check/scripted_services.hpp"

namespace sluice::check {
namespace {

constexpr std::size_t kMaxProblems = 16;

const void* query(const sluice_host* host, const char* id) noexcept {
    ScriptedHost& self = ScriptedHost::of(host);
    if (id == nullptr) {
        self.blame("asks for a service without a name");
        return nullptr;
    }
    return self.is_withheld(id) ? nullptr : scripted_service(id);
}

void fail(const sluice_host* host, sluice_status, sluice_str) noexcept {
    ScriptedHost::of(host).note_failure();
}

}  // namespace

ScriptedHost::ScriptedHost() {
    host_.size = sizeof host_;
    host_.abi_major = SLUICE_ABI_MAJOR;
    host_.abi_minor = SLUICE_TARGET_MINOR;
    host_.ctx = this;
    host_.name = "sluice-plugin-check";
    host_.version = "1.0.0";
    host_.query = &query;
    host_.fail = &fail;
}

ScriptedHost::~ScriptedHost() = default;

const std::vector<std::string>& ScriptedHost::service_ids() {
    static const std::vector<std::string> ids{SLUICE_SVC_LOG,  SLUICE_SVC_METRICS, SLUICE_SVC_EVENT,
                                              SLUICE_SVC_HTTP, SLUICE_SVC_ZMQ,     SLUICE_SVC_FLEET,
                                              SLUICE_SVC_KV};
    return ids;
}

void ScriptedHost::pump(int turns, std::uint64_t step_us) {
    for (int turn = 0; turn < turns && phase_ == Phase::Active; ++turn) {
        const EventTurn event_turn(*this);
        std::vector<std::pair<sluice_event_fn, void*>> posts;
        {
            const std::lock_guard lock(mu_);
            posts.swap(posts_);
        }
        for (const auto& [fn, user] : posts) {
            fn(user);
        }
        const auto ended = calls;
        for (const auto& [id, call] : ended) {
            // Another completion may have cancelled this one.
            if (calls.erase(id) == 0) {
                continue;
            }
            sluice_http_result result{};
            result.size = sizeof result;
            result.status = SLUICE_E_UNAVAILABLE;
            call.done(call.user, &result);
        }
        clock_us_ += step_us;
        const auto all = timers;
        for (const auto& [id, timer] : all) {
            const auto it = timers.find(id);
            if (it == timers.end() || it->second.due_us > clock_us_) {
                continue;
            }
            if (timer.period_us == 0) {
                timers.erase(it);
            } else {
                it->second.due_us = clock_us_ + timer.period_us;
            }
            timer.fn(timer.user);
        }
    }
}

std::size_t ScriptedHost::open_things() const {
    return timers.size() + calls.size() + sockets.size();
}

std::string ScriptedHost::problems() const {
    const std::lock_guard lock(mu_);
    std::string out;
    for (const std::string& problem : problems_) {
        out += out.empty() ? "" : "; ";
        out += problem;
    }
    return out;
}

void ScriptedHost::blame(std::string what) {
    const std::lock_guard lock(mu_);
    if (problems_.size() < kMaxProblems) {
        problems_.push_back(std::move(what));
    }
}

bool ScriptedHost::may_use_event_service(const char* what) {
    if (phase_ == Phase::Closed) {
        return false;
    }
    if (std::this_thread::get_id() != event_thread_ || !is_pumping_) {
        blame(std::string(what) + " off the event thread");
        return false;
    }
    if (phase_ != Phase::Active) {
        blame(std::string(what) + " while the instance is not active");
        return false;
    }
    return true;
}

sluice_status ScriptedHost::post(sluice_event_fn fn, void* user) {
    if (fn == nullptr) {
        blame("posts no function");
        return SLUICE_E_INVALID;
    }
    if (phase_ == Phase::Idle) {
        blame("posts while the instance is not active");
    }
    if (phase_ != Phase::Active) {
        return SLUICE_E_STATE;
    }
    const std::lock_guard lock(mu_);
    posts_.emplace_back(fn, user);
    return SLUICE_OK;
}

bool ScriptedHost::is_on_event_thread() const {
    return std::this_thread::get_id() == event_thread_ && is_pumping_;
}

}  // namespace sluice::check
