/* Descriptor, instance, rule check and the one exported symbol of a plugin file.
 *
 * Threads: the tag in front of each function says who calls it; see sdk/README.md.
 */
#ifndef SLUICE_SDK_PLUGIN_H
#define SLUICE_SDK_PLUGIN_H

#include "host.h"

typedef struct sluice_plugin_desc {
    uint32_t    size, flags;         /* SLUICE_DESC_*                        */
    const char *id;                  /* "org.example.engine.foo"; unique     */
    const char *alias;               /* what rules call it: "vllm"; or ""    */
    const char *name, *summary;      /* one line each, shown in the TUI      */
    const char *version, *license;   /* semver, SPDX                         */
    const char *vendor, *url;
    const char *config_schema;       /* rule fields it takes; see section 9  */
    const char *endpoint_schema;     /* endpoint fields it takes, or NULL    */
    const char *const *provides;     /* NULL-terminated extension ids        */
    const char *const *needs;        /* NULL-terminated service ids          */
} sluice_plugin_desc;
enum { SLUICE_DESC_DRAFT = 1u << 0,      /* uses ids from sluice/sdk/draft   */
       SLUICE_DESC_OWN_THREADS = 1u << 1 };

typedef struct sluice_instance sluice_instance;
struct sluice_instance {
    uint32_t size, reserved;
    void    *impl;                   /* plugin's; the host never touches it  */

    /* [control & inactive] Acquire: declare metrics, open files, warm up. */
    sluice_status (*activate)(sluice_instance *self, sluice_error *err);
    /* [control & active] Stop timers, sockets and own threads. On return no
     * plugin code of this instance runs anywhere. */
    void (*deactivate)(sluice_instance *self);
    /* [control & inactive] Frees self. */
    void (*destroy)(sluice_instance *self);
    /* [any] Extension table by id, NULL if not provided. Same pointer for
     * the life of the instance. */
    const void *(*query)(sluice_instance *self, const char *extension_id);
};

/* A rule as an operator wrote it, before anything is made of it (section 9). */
typedef struct sluice_proposal {
    uint32_t   size, reserved;
    sluice_str config;               /* this plugin's fields, schema-checked */
    sluice_str rule;                 /* the whole rule, JSON, secrets masked */
    sluice_str previous;             /* the rule it replaces; empty = new    */
} sluice_proposal;
typedef struct sluice_verdict_out {
    uint32_t size, reserved;
    void    *ctx;
    /* kind SLUICE_OK: a warning. SLUICE_E_CONFIG: refused, 400.
     * SLUICE_E_IMMUTABLE: refused, 409. Any refusal refuses the rule. code is
     * stable snake_case, field as the operator spells it, text for people. */
    void (*say)(void *ctx, sluice_status kind, sluice_str code, sluice_str field, sluice_str text);
    /* The value in force when the operator gave none, JSON; shown on read-back. */
    void (*effective)(void *ctx, sluice_str field, sluice_str json);
} sluice_verdict_out;
typedef struct sluice_plugin_entry {
    uint32_t    size, reserved;
    uint32_t    abi_major, abi_minor; /* SLUICE_ABI_MAJOR, SLUICE_TARGET_MINOR */
    const char *sdk_version;         /* informational                        */

    /* [control] Calls are counted; only the first does work. Must not start
     * threads, touch the network, or take longer than 50 ms. */
    sluice_status (*init)(sluice_error *err);
    void      (*deinit)(void);
    /* [control] Static data, valid before init() and forever after. */
    uint32_t  (*count)(void);
    const sluice_plugin_desc *(*describe)(uint32_t index);
    /* [control] What a schema cannot say. Pure: no I/O, no instance, the same
     * answer for the same input. NULL = nothing to add. */
    sluice_status (*check)(const char *plugin_id, const sluice_proposal *in,
                           sluice_verdict_out *out, sluice_error *err);
    /* [control] config is JSON, checked, defaults and effective values filled in.
     * host is valid until destroy() returns. On failure *out is untouched. */
    sluice_status (*create)(const sluice_host *host, const char *plugin_id, sluice_str config,
                            sluice_instance **out, sluice_error *err);
} sluice_plugin_entry;

/* The one exported symbol. The suffix is the ABI major. */
SLUICE_EXPORT const sluice_plugin_entry *sluice_plugin_entry_v1(void);
typedef const sluice_plugin_entry *(*sluice_plugin_entry_v1_fn)(void);

#endif /* SLUICE_SDK_PLUGIN_H */
