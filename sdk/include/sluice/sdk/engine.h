/* Extension sluice.engine/1: teaches the gateway the dialect of one inference engine.
 *
 * Threads: the tag in front of each function says who calls it; see sdk/README.md.
 */
#ifndef SLUICE_SDK_ENGINE_H
#define SLUICE_SDK_ENGINE_H

#include "fleet.h"
#include "request.h"
#define SLUICE_EXT_ENGINE "sluice.engine/1"
enum { SLUICE_CAP_PD = 1u << 0,           /* plan() can split                 */
       SLUICE_CAP_KV_EVENTS = 1u << 1,
       SLUICE_CAP_ENGINE_KEYS = 1u << 2,  /* events lack tokens: hash_blocks() */
       SLUICE_CAP_PIN_RANK = 1u << 3,     /* a leg can name its DP rank        */
       SLUICE_CAP_EDIT_SINGLE = 1u << 4   /* build_leg() also for SINGLE legs  */ };
typedef struct sluice_engine_info {
    uint32_t size, caps;
    uint32_t block_tokens;               /* engine's default                 */
    uint32_t uncached_tail_tokens;       /* at a prompt's end, never reused  */
    const char *const *reserved_fields;  /* dropped or refused: client_handoff_fields; "a.b" = nested */
    const char *const *reserved_paths;   /* never forwarded: 404             */
} sluice_engine_info;
enum { SLUICE_WATCH_KV = 1u << 0, SLUICE_WATCH_LOAD = 1u << 1, SLUICE_WATCH_MODELS = 1u << 2 };
typedef struct sluice_attachment sluice_attachment;          /* plugin-defined */
enum { SLUICE_PLAN_WHOLE = 1, SLUICE_PLAN_SEQUENTIAL = 2, SLUICE_PLAN_CONCURRENT = 3 };
enum { SLUICE_PLAN_HANDOFF = 1u << 0,    /* decode wants prefill's reply     */
       SLUICE_PLAN_DRAIN = 1u << 1       /* discard prefill's body past 4 KiB */ };
typedef struct sluice_plan {
    uint32_t size, kind;                 /* SLUICE_PLAN_*                    */
    uint32_t flags, reserved;
} sluice_plan;
enum { SLUICE_LEG_SINGLE = 1, SLUICE_LEG_PREFILL = 2, SLUICE_LEG_DECODE = 3 };
enum { SLUICE_LEG_RELEASE = 1u << 0      /* client gone: cheapest leg that makes
                                            the peer let go of its blocks    */ };
typedef struct sluice_leg {
    uint32_t size, kind;                 /* SLUICE_LEG_*                     */
    uint32_t flags, reserved;
    uint32_t dp_rank, peer_dp_rank;      /* SLUICE_ANY = the engine's choice */
    uint64_t transfer_id;                /* both legs; new per attempt; 2^42..2^63-1,
                                            unique across gateways           */
    const sluice_request    *request;
    const sluice_endpoint   *endpoint, *peer; /* the other leg's; NULL = none */
    sluice_attachment       *at, *peer_at;
    sluice_bytes handoff;                /* from on_reply(); decode only     */
} sluice_leg;
typedef struct sluice_leg_out {
    uint32_t size, reserved;
    void    *ctx;
    /* Replace body[at, at + erase) by data (copied). Ascending, disjoint. */
    sluice_status (*edit)(void *ctx, uint64_t at, uint64_t erase, const void *data, size_t len);
    /* Replaces any header of that name; an empty value removes it. */
    sluice_status (*set_header)(void *ctx, sluice_str name, sluice_str value);
} sluice_leg_out;
enum { SLUICE_REPLY_CUT = 1u << 0        /* the body went on                 */ };
typedef struct sluice_reply {
    uint32_t size, flags;
    uint32_t http_code, num_headers;
    const sluice_pair *headers;
    sluice_bytes body;
} sluice_reply;
enum { SLUICE_NEXT_CONTINUE = 1,   /* prefill: go on with decode; else relay     */
       SLUICE_NEXT_ANSWER = 2,     /* complete: out->body is the client's reply  */
       SLUICE_NEXT_RELAY = 3,      /* the client's own fault: relay this reply   */
       SLUICE_NEXT_BUSY = 4,       /* endpoint is full; breaker untouched        */
       SLUICE_NEXT_ELSEWHERE = 5,  /* endpoint at fault; another may be tried    */
       SLUICE_NEXT_REBUILD = 6,    /* learned something: same endpoint, once     */
       SLUICE_NEXT_RESTART = 7,    /* both legs again, new transfer_id           */
       SLUICE_NEXT_FAIL = 8        /* 502 with err's text; of prefill: another
                                      pair is tried before                       */ };
enum { SLUICE_HOLD_RELEASE = 1u << 0,    /* send a RELEASE decode if the client goes */
       SLUICE_HOLD_COUNTED = 1u << 1     /* sluice_load.holds_expired and
                                            .holds_read_late count it, in case      */ };
typedef struct sluice_reply_out {
    uint32_t size;
    uint32_t next;                 /* plugin sets: SLUICE_NEXT_*                 */
    uint32_t hold;                 /* plugin sets: SLUICE_HOLD_*                 */
    uint32_t cached_tokens;        /* plugin sets: prefill's; SLUICE_ANY unknown */
    uint64_t lease_us;             /* plugin sets: blocks held so long; 0 = none */
    sluice_sink handoff;           /* for the decode leg                         */
    sluice_sink body;              /* with ANSWER                                */
    void    *ctx;
    sluice_status (*set_header)(void *ctx, sluice_str name, sluice_str value);
    /* The engine's ids for this prompt: the host checks its tokenizer by them. */
    void (*prompt_ids)(void *ctx, const uint32_t *ids, size_t num);
} sluice_reply_out;
enum { SLUICE_SERVED_REPEAT = 1u << 0    /* its first block had been served here before */ };
/* A request that this endpoint answered whole. */
typedef struct sluice_served {
    uint32_t size, flags;          /* SLUICE_SERVED_*                            */
    uint32_t dp_rank;              /* SLUICE_ANY = not known                     */
    uint32_t prompt_blocks;        /* whole blocks of it that could be reused; SLUICE_ANY unknown */
    uint32_t prompt_tokens;        /* as the engine counted; SLUICE_ANY not told */
    uint32_t cached_tokens;        /* as the engine counted; SLUICE_ANY not told */
} sluice_served;
typedef struct sluice_hash_input {
    uint32_t   size, block_tokens;
    const uint32_t *tokens;
    size_t     num_tokens;
    sluice_str lora, salt;
    sluice_str params;             /* JSON in the engine's own names: algorithm,
                                      seed, media keys, ...                      */
} sluice_hash_input;
typedef struct sluice_engine {
    uint32_t size, reserved;
    /* [any] Constant for this instance. */
    const sluice_engine_info *(*info)(sluice_instance *self);
    /* [event] Start watching one endpoint; starts with an empty inventory. ep
     * is valid until detach(). */
    sluice_status (*attach)(sluice_instance *self, const sluice_endpoint *ep, uint32_t watch,
                            sluice_attachment **out, sluice_error *err);
    /* [event] Cancels everything attach() started. No leg names it any more. */
    void (*detach)(sluice_instance *self, sluice_attachment *at);
    /* [request] How should this request run? Before endpoints are chosen.
     * SLUICE_E_UNSUPPORTED = not on a P/D pool: 400 with err's text. NULL unless
     * SLUICE_CAP_PD. */
    sluice_status (*plan)(sluice_instance *self, const sluice_request *req, sluice_plan *out,
                          sluice_error *err);
    /* [request] Edit the client's body and headers for one leg. */
    sluice_status (*build_leg)(sluice_instance *self, const sluice_leg *leg,
                               sluice_leg_out *out, sluice_error *err);
    /* [request] PREFILL: the reply is complete. SINGLE, DECODE: the head is not
     * 2xx; body is its beginning. Not called for transport faults. */
    sluice_status (*on_reply)(sluice_instance *self, const sluice_leg *leg,
                              const sluice_reply *reply, sluice_reply_out *out,
                              sluice_error *err);
    /* [request] The engine's own chain, folded to 64 bits: floor(num_tokens /
     * block_tokens) values, at most cap. May be NULL. Needs no attachment. */
    sluice_status (*hash_blocks)(sluice_instance *self, const sluice_hash_input *in,
                                 uint64_t *out, uint32_t cap, uint32_t *num, sluice_error *err);
    /* [request] What traffic shows of the endpoint's cache, so that an adapter whose events stay
     * away can say why. May be NULL. */
    void (*on_served)(sluice_instance *self, sluice_attachment *at, const sluice_served *served);
} sluice_engine;

#endif /* SLUICE_SDK_ENGINE_H */
