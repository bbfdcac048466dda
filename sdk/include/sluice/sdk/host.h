/* What the gateway offers a plugin: service look-up, and the services log, metrics and event.
 *
 * Threads: the tag in front of each function says who calls it; see sdk/README.md.
 */
#ifndef SLUICE_SDK_HOST_H
#define SLUICE_SDK_HOST_H

#include "base.h"

typedef struct sluice_host sluice_host;
struct sluice_host {
    uint32_t    size, reserved;
    uint32_t    abi_major, abi_minor;
    void       *ctx;          /* host's; plugins never touch it              */
    const char *name, *version;         /* "sluice", "0.7.2": informational  */

    /* [any] Service table by id, or NULL. Valid until destroy() returns. */
    const void *(*query)(const sluice_host *host, const char *service_id);
    /* [any] The instance declares itself broken. The host stops sending it
     * traffic and applies the rule's fallback. */
    void (*fail)(const sluice_host *host, sluice_status why, sluice_str msg);
};

#define SLUICE_SVC_LOG "sluice.log/1"
enum { SLUICE_LOG_ERROR = 3, SLUICE_LOG_WARN = 4, SLUICE_LOG_INFO = 6, SLUICE_LOG_DEBUG = 7 };
typedef struct sluice_log_api {
    uint32_t size, reserved;
    /* [any] Cheap; lets the plugin skip formatting. */
    int  (*enabled)(const sluice_host *host, uint32_t level);
    /* [any] Copies everything before returning. */
    void (*write)(const sluice_host *host, uint32_t level, sluice_str msg,
                  const sluice_pair *fields, uint32_t num_fields);
} sluice_log_api;

#define SLUICE_SVC_METRICS "sluice.metrics/1"
typedef struct sluice_metric sluice_metric;
enum { SLUICE_METRIC_COUNTER = 1, SLUICE_METRIC_GAUGE = 2, SLUICE_METRIC_HISTOGRAM = 3 };
typedef struct sluice_metric_spec {
    uint32_t      size, kind;
    sluice_str    name;       /* bare; host adds prefix and {plugin,instance} */
    sluice_str    unit;       /* "seconds", "bytes", "tokens", "ratio", ""    */
    sluice_str    help;
    const double *buckets;    /* histogram upper bounds, ascending           */
    uint32_t      num_buckets, num_labels;
    const sluice_str *label_names;
} sluice_metric_spec;
typedef struct sluice_metrics_api {
    uint32_t size, reserved;
    /* [control] Only between create() and the end of activate(). */
    sluice_status (*declare)(const sluice_host *host, const sluice_metric_spec *spec,
                             sluice_metric **out, sluice_error *err);
    /* [any] Counter: add value >= 0. Gauge: set. Histogram: observe. The host
     * caps the children of a metric and folds the rest into "other". */
    void (*record)(const sluice_host *host, sluice_metric *metric, double value,
                   const sluice_str *label_values, uint32_t num_labels);
} sluice_metrics_api;

#define SLUICE_SVC_EVENT "sluice.event/1"
typedef struct sluice_timer sluice_timer;
typedef void (*sluice_event_fn)(void *user);
typedef struct sluice_event_api {
    uint32_t size, reserved;
    /* [any] True on this instance's event thread. */
    int (*on_event_thread)(const sluice_host *host);
    /* [any] Run fn(user) on the event thread. FIFO per posting thread. */
    sluice_status (*post)(const sluice_host *host, sluice_event_fn fn, void *user);
    /* [event] period_us 0 = one shot. Monotonic clock; late ticks coalesce. */
    sluice_status (*timer_start)(const sluice_host *host, uint64_t delay_us,
                                 uint64_t period_us, sluice_event_fn fn, void *user,
                                 sluice_timer **out, sluice_error *err);
    /* [event] After it returns, fn will not run again. NULL is a no-op. */
    void (*timer_cancel)(const sluice_host *host, sluice_timer *timer);
    /* [any] Monotonic microseconds, the clock every *_us field refers to. */
    uint64_t (*now_us)(const sluice_host *host);
} sluice_event_api;

#endif /* SLUICE_SDK_HOST_H */
