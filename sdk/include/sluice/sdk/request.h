/* What a plugin sees of a client's request.
 *
 * Threads: the tag in front of each function says who calls it; see sdk/README.md.
 */
#ifndef SLUICE_SDK_REQUEST_H
#define SLUICE_SDK_REQUEST_H

#include "plugin.h"
enum { SLUICE_JSON_NULL = 1, SLUICE_JSON_BOOL = 2, SLUICE_JSON_NUMBER = 3,
       SLUICE_JSON_STRING = 4, SLUICE_JSON_ARRAY = 5, SLUICE_JSON_OBJECT = 6 };
typedef struct sluice_field {        /* one member of the body's outermost object */
    uint32_t   size, type;           /* SLUICE_JSON_*                        */
    sluice_str name;                 /* escapes resolved                     */
    uint64_t   at;                   /* offset of the name's opening quote   */
    uint64_t   value_at, value_bytes;
} sluice_field;
enum { SLUICE_REQ_STREAM = 1u << 0, SLUICE_REQ_DRY_RUN = 1u << 1,   /* change nothing */
       SLUICE_REQ_PREFIX = 1u << 2                    /* prefix_hash is valid */ };
typedef struct sluice_request {
    uint32_t   size, flags;          /* SLUICE_REQ_*                         */
    uint64_t   id;                   /* unique in this process               */
    uint64_t   deadline_us;          /* monotonic; 0 = none                  */
    uint64_t   prefix_hash;          /* of the text the rule hashes by       */
    sluice_str request_id;           /* X-Request-Id, as the client knows it */
    sluice_str path;                 /* "/v1/chat/completions"               */
    sluice_str model, lora;          /* lora empty = base model              */
    sluice_str session;              /* affinity value per rule, or empty    */
    sluice_str tenant, client;       /* client: address without port         */
    const uint64_t *keys;            /* block keys, NULL = not tokenized     */
    uint32_t   num_keys;
    uint32_t   prompt_tokens, max_new_tokens;         /* 0 = unknown         */
    uint32_t   num_prompts, num_choices;              /* in this body; "n"   */
    uint32_t   attempt;              /* 0 first, 1.. retries                 */
    sluice_bytes body;               /* as the client sent it; for selectors empty */
    sluice_array fields;             /* of sluice_field, in body order       */
} sluice_request;

#endif /* SLUICE_SDK_REQUEST_H */
