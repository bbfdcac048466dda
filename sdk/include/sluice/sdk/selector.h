/* Extension sluice.selector/1: chooses one endpoint among the rows of a pool.
 *
 * Threads: the tag in front of each function says who calls it; see sdk/README.md.
 */
#ifndef SLUICE_SDK_SELECTOR_H
#define SLUICE_SDK_SELECTOR_H

#include "request.h"
#define SLUICE_EXT_SELECTOR "sluice.selector/1"
enum { SLUICE_EX_DOWN = 1u << 0, SLUICE_EX_BREAKER = 1u << 1, SLUICE_EX_DRAIN = 1u << 2,
       SLUICE_EX_STANDBY = 1u << 3, SLUICE_EX_FULL = 1u << 4, SLUICE_EX_FILTERED = 1u << 5,
       SLUICE_EX_MODEL = 1u << 6 /* does not serve the model */ };
typedef struct sluice_candidate {
    uint32_t   size, excluded;   /* SLUICE_EX_*; 0 = may be chosen           */
    uint64_t   endpoint;
    uint32_t   dp_rank;          /* SLUICE_ANY = not pinned                  */
    uint32_t   roles, weight;
    uint32_t   inflight;         /* sent by this gateway, unfinished         */
    uint32_t   running, waiting; /* as the engine last reported              */
    uint32_t   max_running;      /* 0 = unknown                              */
    float      kv_used_ratio;    /* negative = unknown                       */
    uint32_t   prefix_blocks;    /* contiguous, of this request, held here   */
    uint32_t   gpu_blocks;       /* of those, on GPU                         */
    uint64_t   total_blocks;     /* capacity; 0 = unknown                    */
    uint64_t   load_age_us;      /* UINT64_MAX = never reported              */
    sluice_str name;             /* "10.0.0.7:8000"                          */
} sluice_candidate;
typedef struct sluice_view sluice_view;      /* plugin-defined, immutable    */
typedef struct sluice_choice {
    uint32_t size, leg;          /* SLUICE_LEG_*                             */
    const sluice_request *request;
    const sluice_view *view;     /* prepare()'s, for exactly these rows      */
    const float *scores;         /* pick, explain: weighted sum or NULL      */
    sluice_array candidates;     /* the whole pool, in prepare()'s order     */
    uint64_t peer;               /* prefill endpoint when leg is DECODE      */
} sluice_choice;
enum { SLUICE_PHASE_HEAD = 1, SLUICE_PHASE_END = 2 };
typedef struct sluice_outcome {
    uint32_t      size, phase;   /* SLUICE_PHASE_*                           */
    sluice_status status;
    uint32_t      http_code;
    uint64_t      request_id, endpoint;
    sluice_str    session;       /* HEAD: value in the response, else empty  */
    uint64_t      ttft_us, total_us;                /* 0 = not that far      */
    uint32_t      prompt_tokens, cached_tokens, output_tokens, dp_rank;
} sluice_outcome;
typedef struct sluice_selector {
    uint32_t size, reserved;
    /* [control] Members or weights changed: build what is slow to build (a
     * ring). Load fields are not filled. May be NULL. */
    sluice_status (*prepare)(sluice_instance *self, sluice_array candidates,
                             sluice_view **out, sluice_error *err);
    /* [control] The last request that used it is over. */
    void (*release)(sluice_instance *self, sluice_view *view);
    /* [request] keep[i] starts as 1; clear it to drop candidate i. */
    sluice_status (*filter)(sluice_instance *self, const sluice_choice *c, uint8_t *keep);
    /* [request] score[i] in 0..1, higher is better. Out of range is clamped
     * and counted; NaN makes the host ignore the whole call. */
    sluice_status (*score)(sluice_instance *self, const sluice_choice *c, float *score);
    /* [request] Choose a row that is not excluded. SLUICE_PASS = the best score. */
    sluice_status (*pick)(sluice_instance *self, const sluice_choice *c, uint32_t *index);
    /* [any] At the response head and at the end of each leg. */
    void (*observe)(sluice_instance *self, const sluice_outcome *outcome);
    /* [request] Why this row: one line for people. May be NULL. */
    sluice_status (*explain)(sluice_instance *self, const sluice_choice *c, uint32_t index,
                             sluice_sink *out);
} sluice_selector;

#endif /* SLUICE_SDK_SELECTOR_H */
