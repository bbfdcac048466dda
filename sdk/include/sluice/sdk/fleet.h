/* Endpoints as a plugin sees them, and the service fleet: load, health, facts, models.
 *
 * Threads: the tag in front of each function says who calls it; see sdk/README.md.
 */
#ifndef SLUICE_SDK_FLEET_H
#define SLUICE_SDK_FLEET_H

#include "host.h"
enum { SLUICE_ROLE_PREFILL = 1u << 0, SLUICE_ROLE_DECODE = 1u << 1, SLUICE_ROLE_WHOLE = 1u << 2 };
typedef struct sluice_endpoint {
    uint32_t   size, roles;      /* SLUICE_ROLE_* allowed by the rule            */
    uint64_t   id;               /* never reused while the gateway runs          */
    sluice_str base_url;         /* "http://10.0.0.7:8000"                       */
    sluice_str address;          /* "10.0.0.7" or "[fd00::7]", for derived ports */
    sluice_str name;             /* "10.0.0.7:8000"                              */
    sluice_str fields;           /* JSON: the endpoint fields the plugin takes   */
    uint32_t   num_dp_ranks, weight;
} sluice_endpoint;
typedef struct sluice_load {
    uint32_t size, dp_rank;      /* SLUICE_ANY = the endpoint as a whole         */
    uint64_t endpoint;
    uint32_t running, waiting;   /* requests                                     */
    uint32_t max_running;        /* requests; 0 = unknown                        */
    float    kv_used_ratio;      /* 0..1; negative = unknown                     */
    uint64_t total_blocks;       /* 0 = unknown                                  */
    uint64_t progress;           /* any count that grows while work is done; 0 = unknown */
    uint64_t hit_tokens;         /* prompt tokens served from cache, a counter   */
    uint64_t holds_expired;      /* hand-offs whose blocks were let go since nobody
                                    had read them in time, a counter              */
    uint64_t holds_read_late;    /* of those, read nevertheless, as the engine hears
                                    of it: whoever read them has wrong blocks     */
} sluice_load;
enum { SLUICE_HEALTH_READY = 1, SLUICE_HEALTH_BUSY = 2,  /* full, not broken     */
       SLUICE_HEALTH_ASLEEP = 3, SLUICE_HEALTH_SUSPECT = 4, SLUICE_HEALTH_DOWN = 5 };
typedef struct sluice_engine_facts {
    uint32_t   size, num_dp_ranks;                       /* 0 = unknown          */
    uint64_t   endpoint;
    uint64_t   epoch;            /* another value = another engine process       */
    uint32_t   block_tokens, max_context_tokens;         /* 0 = unknown          */
    sluice_str version;          /* "vLLM 0.25.1"                                */
} sluice_engine_facts;
enum { SLUICE_MODEL_BASE = 1, SLUICE_MODEL_LORA = 2 };
typedef struct sluice_model_info {
    uint32_t   size, kind;
    sluice_str name;             /* as a request's "model" may say               */
    sluice_str parent;           /* LORA: its base model                         */
} sluice_model_info;

#define SLUICE_SVC_FLEET "sluice.fleet/1"
typedef struct sluice_fleet_api {
    uint32_t size, reserved;
    /* [event] A sample; its age counts from this call. */
    void (*load)(const sluice_host *host, const sluice_load *load);
    /* [event] One voice beside probes and traffic; the host decides. */
    void (*health)(const sluice_host *host, uint64_t endpoint, uint32_t state, sluice_str why);
    /* [event] A changed epoch ends leases and hand-offs, empties the inventory. */
    void (*facts)(const sluice_host *host, const sluice_engine_facts *facts);
    /* [event] All models served now. Decides which names are LoRA adapters. */
    void (*models)(const sluice_host *host, uint64_t endpoint, sluice_array models);
} sluice_fleet_api;

#endif /* SLUICE_SDK_FLEET_H */
