// A small selector plugin with one defect, chosen at compile time by SLUICE_PROBE_<DEFECT>: what
// the loader and the checker must notice. Without a defect it is correct.
#include <fcntl.h>
#include <pthread.h>
#include <sluice/sdk/net.h>
#include <sluice/sdk/selector.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#ifndef SLUICE_PROBE_ID
#define SLUICE_PROBE_ID "org.example.probe.good"
#endif
#ifndef SLUICE_PROBE_ALIAS
#define SLUICE_PROBE_ALIAS ""
#endif
#ifndef SLUICE_PROBE_MAJOR
#define SLUICE_PROBE_MAJOR SLUICE_ABI_MAJOR
#endif
#ifndef SLUICE_PROBE_MINOR
#define SLUICE_PROBE_MINOR SLUICE_TARGET_MINOR
#endif
#ifndef SLUICE_PROBE_VERSION
#define SLUICE_PROBE_VERSION "1.0.0"
#endif
#ifndef SLUICE_PROBE_NEEDS
#define SLUICE_PROBE_NEEDS SLUICE_SVC_LOG
#endif
#ifndef SLUICE_PROBE_SCHEMA
#define SLUICE_PROBE_SCHEMA                                               \
    R"({"type":"object","additionalProperties":false,"properties":{)"     \
    R"("level":{"type":"integer","minimum":0,"maximum":10,"default":1},)" \
    R"("word":{"type":"string","enum":["a","b"]}}})"
#endif

namespace {

struct Instance {
    sluice_instance base;
    const sluice_host* host;
    pthread_t thread;
    bool has_thread;
    std::atomic<bool> stop;
};

[[maybe_unused]] void* volatile g_leaked = nullptr;

Instance& of(sluice_instance* self) {
    return *static_cast<Instance*>(self->impl);
}

const sluice_event_api* events(const sluice_host* host) {
    return static_cast<const sluice_event_api*>(host->query(host, SLUICE_SVC_EVENT));
}

sluice_status score(sluice_instance*, const sluice_choice* c, float* out) noexcept {
    for (std::uint32_t i = 0; i < c->candidates.count; ++i) {
#ifdef SLUICE_PROBE_SCORE_RANGE
        out[i] = 7.0F;
#else
        out[i] = SLUICE_AT(sluice_candidate, c->candidates, i)->inflight == 0 ? 1.0F : 0.5F;
#endif
    }
    return SLUICE_OK;
}

constexpr sluice_selector kSelector{
    sizeof(sluice_selector), 0, nullptr, nullptr, nullptr, &score, nullptr, nullptr, nullptr};

[[maybe_unused]] void start_timer(void* user) {
    const auto* host = static_cast<const sluice_host*>(user);
    sluice_timer* timer = nullptr;
    events(host)->timer_start(host, 3'600'000'000U, 0, [](void*) {}, nullptr, &timer, nullptr);
}

[[maybe_unused]] void* talk(void* arg) {
    auto* self = static_cast<Instance*>(arg);
    while (!self->stop) {
        (void)events(self->host)->now_us(self->host);
        const auto* log =
            static_cast<const sluice_log_api*>(self->host->query(self->host, SLUICE_SVC_LOG));
        (void)log->enabled(self->host, SLUICE_LOG_INFO);
        ::usleep(1000);
    }
    return nullptr;
}

sluice_status activate(sluice_instance* self, sluice_error*) noexcept {
    [[maybe_unused]] Instance& instance = of(self);
#ifdef SLUICE_PROBE_LEAVES_TIMER
    events(instance.host)
        ->post(instance.host, &start_timer, const_cast<sluice_host*>(instance.host));
#endif
#ifdef SLUICE_PROBE_WRONG_THREAD
    start_timer(const_cast<sluice_host*>(instance.host));
#endif
#ifdef SLUICE_PROBE_PRINTS
    std::puts("hello");
    std::fflush(stdout);
#endif
#ifdef SLUICE_PROBE_TALKS_ON
    instance.has_thread = ::pthread_create(&instance.thread, nullptr, &talk, &instance) == 0;
#endif
#ifdef SLUICE_PROBE_REFUSES
    return SLUICE_E_UNAVAILABLE;
#else
    return SLUICE_OK;
#endif
}

void deactivate(sluice_instance*) noexcept {}

void destroy(sluice_instance* self) noexcept {
    Instance& instance = of(self);
    instance.stop = true;
    if (instance.has_thread) {
        ::pthread_join(instance.thread, nullptr);
    }
    delete &instance;
}

const void* query(sluice_instance*, const char* id) noexcept {
#ifdef SLUICE_PROBE_ANSWERS_ALL
    (void)id;
    return &kSelector;
#elif defined(SLUICE_PROBE_ANSWERS_PREFIX)
    return std::strncmp(id, "sluice.selector/", 16) == 0 ? &kSelector : nullptr;
#else
    return std::strcmp(id, SLUICE_EXT_SELECTOR) == 0 ? &kSelector : nullptr;
#endif
}

sluice_status create(const sluice_host* host, const char* id, [[maybe_unused]] sluice_str config,
                     sluice_instance** out, sluice_error*) noexcept(false) {
#ifdef SLUICE_PROBE_ANY_ID
    (void)id;
#else
    if (std::strcmp(id, SLUICE_PROBE_ID) != 0) {
        return SLUICE_E_NOT_FOUND;
    }
#endif
#ifdef SLUICE_PROBE_THROWS
    throw std::runtime_error("out of the plugin");
#endif
#ifdef SLUICE_PROBE_LEAKS
    g_leaked = std::malloc(24);
#endif
#ifdef SLUICE_PROBE_LEAKS_FD
    (void)::open("/dev/null", O_RDONLY | O_CLOEXEC);
#endif
#ifdef SLUICE_PROBE_ASSUMES_HTTP
    const auto* http = static_cast<const sluice_http_api*>(host->query(host, SLUICE_SVC_HTTP));
    if (http->size < sizeof(std::uint32_t)) {
        return SLUICE_E_VERSION;
    }
#endif
#ifdef SLUICE_PROBE_CRASHES_AT_TEN
    if (::memmem(config.ptr, config.len, "\"level\":10", 10) != nullptr) {
        std::abort();
    }
#endif
    auto* self = new Instance{};
    self->base = {sizeof(sluice_instance), 0, self, &activate, &deactivate, &destroy, &query};
    self->host = host;
    *out = &self->base;
    return SLUICE_OK;
}

sluice_status check(const char*, const sluice_proposal*, sluice_verdict_out* out,
                    sluice_error*) noexcept {
#ifdef SLUICE_PROBE_IMPURE
    static int asked = 0;
    if (++asked % 3 == 0) {
        out->say(out->ctx, SLUICE_OK, {"mood", 4}, {"level", 5}, {"not today", 9});
    }
#else
    (void)out;
#endif
    return SLUICE_OK;
}

constexpr const char* kProvides[] = {SLUICE_EXT_SELECTOR, nullptr};
constexpr const char* kNeeds[] = {SLUICE_PROBE_NEEDS, nullptr};
#ifdef SLUICE_PROBE_DRAFT
constexpr std::uint32_t kFlags = SLUICE_DESC_DRAFT;
#else
constexpr std::uint32_t kFlags = 0;
#endif
constexpr sluice_plugin_desc kDesc{sizeof(sluice_plugin_desc),
                                   kFlags,
                                   SLUICE_PROBE_ID,
                                   SLUICE_PROBE_ALIAS,
                                   "Probe",
                                   "A selector for tests.",
                                   SLUICE_PROBE_VERSION,
                                   "Apache-2.0",
                                   "",
                                   "",
                                   SLUICE_PROBE_SCHEMA,
                                   nullptr,
                                   kProvides,
                                   kNeeds};

int g_inits = 0;

sluice_status init(sluice_error*) noexcept {
    ++g_inits;
#ifdef SLUICE_PROBE_INIT_FAILS
    return SLUICE_E_UNSUPPORTED;
#else
    return SLUICE_OK;
#endif
}

void deinit() noexcept {
    --g_inits;
#ifdef SLUICE_PROBE_COUNTS_INITS
    if (g_inits < 0) {
        std::abort();
    }
#endif
}

const sluice_plugin_desc* describe(std::uint32_t i) noexcept {
#ifdef SLUICE_PROBE_CRASHES
    std::abort();
#endif
#ifdef SLUICE_PROBE_HANGS
    for (;;) {
        ::pause();
    }
#endif
    return i == 0 ? &kDesc : nullptr;
}

constexpr sluice_plugin_entry kEntry{sizeof(sluice_plugin_entry),
                                     0,
                                     SLUICE_PROBE_MAJOR,
                                     SLUICE_PROBE_MINOR,
                                     "1.0.0",
                                     &init,
                                     &deinit,
                                     []() noexcept -> std::uint32_t { return 1; },
                                     &describe,
                                     &check,
                                     &create};

}  // namespace

#ifdef SLUICE_PROBE_TWO_EXPORTS
SLUICE_EXPORT int sluice_probe_extra(void);
int sluice_probe_extra(void) {
    return 1;
}
#endif
#ifdef SLUICE_PROBE_WANTS_GATEWAY
SLUICE_EXTERN_C int sluice_gateway_secret(void);
#endif

#ifndef SLUICE_PROBE_NO_ENTRY
SLUICE_EXPORT const sluice_plugin_entry* sluice_plugin_entry_v1(void) {
#ifdef SLUICE_PROBE_WANTS_GATEWAY
    if (g_inits == 12345) {
        g_inits = sluice_gateway_secret();
    }
#endif
#ifdef SLUICE_PROBE_NEW_ENTRY
    static sluice_plugin_entry entries[2] = {kEntry, kEntry};
    static int calls = 0;
    return &entries[++calls % 2];
#else
    return &kEntry;
#endif
}
#endif
