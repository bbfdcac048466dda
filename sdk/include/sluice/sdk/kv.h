/* Service kv: normalised KV-cache events in, reports about the signal itself.
 *
 * Threads: the tag in front of each function says who calls it; see sdk/README.md.
 */
#ifndef SLUICE_SDK_KV_H
#define SLUICE_SDK_KV_H

#include "host.h"
enum { SLUICE_KV_STORED = 1, SLUICE_KV_REMOVED = 2, SLUICE_KV_CLEARED = 3 };
enum { SLUICE_TIER_GPU = 1, SLUICE_TIER_HOST = 2, SLUICE_TIER_DISK = 3, SLUICE_TIER_REMOTE = 4 };
enum { SLUICE_KV_HAS_PARENT = 1u << 0,  /* else STORED begins at the root           */
       SLUICE_KV_COPIES = 1u << 1       /* one STORED and one REMOVED per copy      */ };
typedef struct sluice_kv_event {
    uint32_t        size, type;    /* SLUICE_KV_STORED ..                        */
    uint32_t        flags;
    uint32_t        tier;          /* SLUICE_TIER_*; CLEARED may say SLUICE_ANY  */
    uint32_t        group;         /* cache group; CLEARED may say SLUICE_ANY    */
    uint32_t        block_tokens;  /* of these blocks; 0 = not said              */
    uint32_t        num_hashes;
    uint32_t        num_tokens;    /* of all blocks together; 0 = not said       */
    const uint64_t *hashes;        /* the engine's, folded to 64 bits, in order  */
    const uint32_t *tokens;
    const uint8_t  *opaque;        /* NULL, or per hash: 1 = depends on input no
                                      request shows (image, embedding, extra id) */
    uint64_t        parent;        /* with SLUICE_KV_HAS_PARENT                  */
    sluice_str      lora;          /* adapter's name; empty = base model         */
    sluice_str      salt;          /* secret: never logged, never shown          */
} sluice_kv_event;
typedef struct sluice_kv_batch {
    uint32_t size, dp_rank;
    uint64_t endpoint;
    uint64_t seq, engine_time_us;  /* the engine's last number, its clock: display */
    sluice_array events;           /* of sluice_kv_event, in the engine's order  */
} sluice_kv_batch;
enum { SLUICE_KV_SAME = 1,         /* state unchanged, only count                */
       SLUICE_KV_WAITING = 2, SLUICE_KV_LIVE = 3, SLUICE_KV_UNPROVEN = 4,
       SLUICE_KV_REFUSED = 5, SLUICE_KV_DEAD = 6 };
enum { SLUICE_WHY_NONE = 1, SLUICE_WHY_BLOCK_SIZE = 2, SLUICE_WHY_ALGORITHM = 3,
       SLUICE_WHY_SEED = 4, SLUICE_WHY_GAP = 5, SLUICE_WHY_RESTART = 6,
       SLUICE_WHY_LATE_JOIN = 7, SLUICE_WHY_COMPETITOR = 8, SLUICE_WHY_EVENTS_OFF = 9,
       SLUICE_WHY_UNREACHABLE = 10, SLUICE_WHY_MALFORMED = 11, SLUICE_WHY_UNKNOWN = 12,
       SLUICE_WHY_NOT_LOOKUP = 13, SLUICE_WHY_PARTIAL = 14, SLUICE_WHY_LEGACY = 15 };
typedef struct sluice_kv_report {
    uint32_t   size, dp_rank;      /* SLUICE_ANY = the whole endpoint            */
    uint64_t   endpoint;
    uint32_t   state, why;         /* SLUICE_KV_SAME .. SLUICE_KV_DEAD           */
    uint64_t   count;              /* added to that reason's counter             */
    sluice_str detail;             /* "tokens_per_block 64, the rule says 32"    */
    sluice_str reason;             /* stable snake_case, contract/sluice.md 5    */
    sluice_str advice;             /* the engine setting to change, or empty     */
} sluice_kv_report;

#define SLUICE_SVC_KV "sluice.kv/1"
typedef struct sluice_kv_api {
    uint32_t size, reserved;
    /* [event] Atomic. *unplaced (may be NULL) gets the hashes that found no
     * place: unknown parent or block. SLUICE_E_NOT_FOUND = not attached. */
    sluice_status (*apply)(const sluice_host *host, const sluice_kv_batch *batch,
                           uint32_t *unplaced, sluice_error *err);
    /* [event] Forget a rank, or all of them. */
    void (*reset)(const sluice_host *host, uint64_t endpoint, uint32_t dp_rank);
    /* [event] What the adapter knows about the signal itself. */
    void (*report)(const sluice_host *host, const sluice_kv_report *report);
} sluice_kv_api;

#endif /* SLUICE_SDK_KV_H */
