#include "core/plugin/host_context.hpp"

#include <cassert>

#include "core/base/clock.hpp"
#include "core/base/log.hpp"
#include "core/plugin/control_queue.hpp"
#include "core/plugin/event_side.hpp"
#include "core/plugin/metric_book.hpp"
#include "core/plugin/runtime.hpp"
#include "core/plugin/sdk_text.hpp"
#include "core/plugin/services.hpp"

namespace sluice::plugin {
namespace {

constexpr std::uint64_t kStrikeWindowUs = 60'000'000;
constexpr std::uint32_t kFarOverBudgetSays = 3;
constexpr std::size_t kMaxWhy = 300;

thread_local Tag t_tag = Tag::None;

// Soft budgets of the SDK contract.
std::uint64_t budget_us(Tag tag, std::size_t bytes) noexcept {
    const std::uint64_t mib = bytes >> 20U;
    switch (tag) {
        case Tag::Event:
            return 1'000 + 5'000 * mib;
        case Tag::Request:
            return 200 + 1'000 * mib;
        case Tag::Control:
            return 5'000'000;
        case Tag::None:
            break;
    }
    return UINT64_MAX;
}

metrics::Counter& counter(const char* name, const char* help, const std::string& plugin,
                          const std::string& instance) {
    return metrics::registry().counter(name, help, {{"plugin", plugin}, {"instance", instance}});
}

}  // namespace

Tag current_tag() noexcept {
    return t_tag;
}

Crossing::Crossing(Tag tag) noexcept : before_(t_tag) {
    t_tag = tag;
}
Crossing::~Crossing() {
    t_tag = before_;
}

HostContext::HostContext(Runtime& runtime, PluginPtr plugin, std::string instance,
                         std::function<void(const std::string&)> on_fault)
    : runtime_(runtime),
      plugin_(std::move(plugin)),
      instance_(std::move(instance)),
      version_(runtime.options().version),
      defect_counter_(counter("sluice_plugins_defects_total",
                              "Times an instance broke the plugin contract.", plugin_->id(),
                              instance_)),
      over_budget_counter_(counter("sluice_plugins_over_budget_total",
                                   "Plugin calls that took longer than their budget.",
                                   plugin_->id(), instance_)),
      fault_counter_(counter("sluice_plugins_faults_total",
                             "Times an instance was taken out of service as broken.", plugin_->id(),
                             instance_)),
      on_fault_(std::move(on_fault)),
      event_side_(std::make_unique<EventSide>()),
      metric_book_(std::make_unique<MetricBook>()) {
    host_.size = sizeof(sluice_host);
    host_.abi_major = SLUICE_ABI_MAJOR;
    host_.abi_minor = SLUICE_TARGET_MINOR;
    host_.ctx = this;
    host_.name = "sluice";
    host_.version = version_.c_str();
    host_.query = &HostContext::query;
    host_.fail = &HostContext::fail_thunk;
}

HostContext::~HostContext() = default;

const void* HostContext::query(const sluice_host*, const char* service_id) noexcept {
    return service_id == nullptr ? nullptr : find_service(service_id);
}

void HostContext::fail_thunk(const sluice_host* host, sluice_status why, sluice_str text) noexcept {
    const std::string_view words = view(text);
    of(host).fail(words.empty() ? status_text(why) : words);
}

void HostContext::begin_activation() {
    const std::lock_guard lock(mu_);
    if (phase() == Phase::Idle) {
        phase_.store(Phase::Activating, std::memory_order_release);
    }
}

void HostContext::end_activation() {
    const std::lock_guard lock(mu_);
    if (phase() == Phase::Activating) {
        phase_.store(Phase::Active, std::memory_order_release);
        for (const auto& [fn, user] : early_posts_) {
            post_now(fn, user);
        }
    }
    early_posts_.clear();
}

bool HostContext::close() {
    Phase before{};
    {
        const std::lock_guard lock(mu_);
        before = phase_.exchange(Phase::Closed, std::memory_order_acq_rel);
        early_posts_.clear();
    }
    if (is_clean_.load(std::memory_order_acquire)) {
        return true;
    }
    // A later turn of the event thread finds the phase closed; the present one ends before this.
    const auto self = shared_from_this();
    const bool is_expected = before != Phase::Active;
    const auto cleaned = runtime_.events().run([self, is_expected] {
        const std::size_t left = self->event_side_->cancel_all();
        self->is_clean_.store(true, std::memory_order_release);
        if (left > 0 && !is_expected) {
            self->count_defect("left timers, calls or sockets behind");
            log::warn(
                "plugin instance left things open",
                {{"plugin", self->plugin_id()}, {"instance", self->instance_}, {"count", left}});
        }
    });
    if (!cleaned) {
        log::error(
            "plugin instance not cleaned up",
            {{"plugin", plugin_id()}, {"instance", instance_}, {"error", cleaned.error().what}});
    }
    return cleaned.ok();
}

void HostContext::fail(std::string_view why) {
    std::function<void(const std::string&)> tell;
    std::string text;
    {
        const std::lock_guard lock(mu_);
        const Phase now = phase();
        if (now == Phase::Faulted || now == Phase::Closed) {
            return;
        }
        phase_.store(Phase::Faulted, std::memory_order_release);
        fault_text_.assign(why.substr(0, kMaxWhy));
        text = fault_text_;
        tell = std::move(on_fault_);
        on_fault_ = nullptr;
    }
    fault_counter_.add();
    log::error("plugin instance is broken",
               {{"plugin", plugin_id()}, {"instance", instance_}, {"why", text}});
    if (tell) {
        runtime_.control().post([tell = std::move(tell), text] { tell(text); });
    }
}

std::string HostContext::fault_text() const {
    const std::lock_guard lock(mu_);
    return fault_text_;
}

void HostContext::count_internal(std::string_view text) {
    const std::uint64_t now = now_us();
    bool is_third = false;
    {
        const std::lock_guard lock(mu_);
        is_third = internal_us_[0] != 0 && now - internal_us_[0] <= kStrikeWindowUs &&
                   internal_us_[1] != 0;
        // Holds the last two before this one; [0] is the older.
        internal_us_[0] = internal_us_[1];
        internal_us_[1] = now;
    }
    if (is_third) {
        fail(text.empty() ? std::string_view("three internal errors within 60 s") : text);
    } else {
        log::warn("plugin reports an internal error",
                  {{"plugin", plugin_id()}, {"instance", instance_}, {"text", text}});
    }
}

void HostContext::count_defect(std::string_view what) {
    defects_.fetch_add(1, std::memory_order_relaxed);
    defect_counter_.add();
    log::warn("plugin breaks its contract",
              {{"plugin", plugin_id()}, {"instance", instance_}, {"what", what}});
}

void HostContext::spent(Tag tag, std::uint64_t us, std::size_t bytes) {
    const std::uint64_t budget = budget_us(tag, bytes);
    if (us <= budget) {
        return;
    }
    over_budget_counter_.add();
    if (us / 10 > budget &&
        far_over_budget_.fetch_add(1, std::memory_order_relaxed) + 1 >= kFarOverBudgetSays) {
        far_over_budget_.store(0, std::memory_order_relaxed);
        log::warn("plugin instance is slow",
                  {{"plugin", plugin_id()}, {"instance", instance_}, {"took_us", us}});
    }
}

void HostContext::post_now(void (*fn)(void*), void* user) {
    const bool is_posted = runtime_.events().post([self = shared_from_this(), fn, user] {
        self->posts_waiting_.fetch_sub(1, std::memory_order_relaxed);
        self->enter_event(0, [&] { fn(user); });
    });
    if (!is_posted) {
        posts_waiting_.fetch_sub(1, std::memory_order_relaxed);
    }
}

sluice_status HostContext::post(void (*fn)(void*), void* user) {
    if (fn == nullptr) {
        return SLUICE_E_INVALID;
    }
    if (posts_waiting_.fetch_add(1, std::memory_order_relaxed) >= runtime_.options().max_posts) {
        posts_waiting_.fetch_sub(1, std::memory_order_relaxed);
        return SLUICE_E_LIMIT;
    }
    if (phase() == Phase::Activating) {
        const std::lock_guard lock(mu_);
        if (phase() == Phase::Activating) {
            early_posts_.emplace_back(fn, user);
            return SLUICE_OK;
        }
    }
    if (!is_active()) {
        posts_waiting_.fetch_sub(1, std::memory_order_relaxed);
        return SLUICE_E_STATE;
    }
    post_now(fn, user);
    return SLUICE_OK;
}

bool HostContext::may_use_event_service(const char* what) {
    if (!runtime_.events().is_current()) {
        if (phase() != Phase::Closed) {
            count_defect(what);
        }
        return false;
    }
    return is_active();
}

void HostContext::on_event_thread(const std::function<void(HostContext&)>& fn) {
    if (runtime_.events().is_current()) {
        fn(*this);
    } else if (const auto ran =
                   runtime_.events().run([self = shared_from_this(), fn] { fn(*self); });
               !ran) {
        log::error("plugin instance not served in time",
                   {{"plugin", plugin_id()}, {"instance", instance_}, {"error", ran.error().what}});
    }
}

std::uint64_t HostContext::begin_call(Tag tag) noexcept {
    assert(tag != Tag::Event || runtime_.events().is_current());
    t_tag = tag;
    return now_us();
}

void HostContext::end_call(Tag tag, std::uint64_t begin_us, std::size_t bytes) {
    t_tag = Tag::None;
    spent(tag, now_us() - begin_us, bytes);
}

}  // namespace sluice::plugin
