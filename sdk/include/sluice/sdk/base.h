/* Status codes, borrowed strings, arrays, sinks and errors: the types every other header is made of.
 *
 * Threads: the tag in front of each function says who calls it; see sdk/README.md.
 */
#ifndef SLUICE_SDK_BASE_H
#define SLUICE_SDK_BASE_H

#include <stddef.h>
#include <stdint.h>

#define SLUICE_ABI_MAJOR 1
#ifndef SLUICE_TARGET_MINOR        /* what the plugin promises to need at run time */
#define SLUICE_TARGET_MINOR 0      /* the newest minor this header knows           */
#endif

#ifdef __cplusplus
#define SLUICE_EXTERN_C extern "C"
#else
#define SLUICE_EXTERN_C
#endif
#define SLUICE_EXPORT SLUICE_EXTERN_C __attribute__((visibility("default")))

/* True when the writer of *p was compiled with `field` present. */
#define SLUICE_HAS(type, p, field) \
    ((p)->size >= offsetof(type, field) + sizeof((p)->field))
#define SLUICE_ANY UINT32_MAX      /* rank, tier, group: all of them, or unknown   */

/* 0 success; > 0 a normal outcome; < 0 a failure. Numbers are never reused.
 * A reader treats an unknown negative as SLUICE_E_INTERNAL and an unknown
 * positive as SLUICE_E_INTERNAL too: a status nobody understands is not success. */
typedef int32_t sluice_status;
enum {
    SLUICE_OK = 0,
    SLUICE_AGAIN = 1,            /* not ready; nothing was consumed              */
    SLUICE_PASS = 2,             /* no opinion; the host goes on without         */

    SLUICE_E_INTERNAL = -1,
    SLUICE_E_INVALID = -2,       /* caller broke the contract                    */
    SLUICE_E_CONFIG = -3,        /* configuration rejected                       */
    SLUICE_E_VERSION = -4,       /* ABI or service revision not available        */
    SLUICE_E_UNSUPPORTED = -5,   /* valid request, this plugin cannot do it      */
    SLUICE_E_NOT_FOUND = -6,
    SLUICE_E_STATE = -7,         /* wrong lifecycle state or thread class        */
    SLUICE_E_LIMIT = -8,         /* a size, count or rate bound was hit          */
    SLUICE_E_TIMEOUT = -9,
    SLUICE_E_CANCELLED = -10,
    SLUICE_E_UNAVAILABLE = -11,  /* peer refused, overloaded, unreachable        */
    SLUICE_E_PROTOCOL = -12,     /* peer spoke something we could not parse      */
    SLUICE_E_NO_MEMORY = -13,
    SLUICE_E_IMMUTABLE = -14     /* a live rule may not change this              */
};

/* Borrowed UTF-8, not NUL-terminated. len == 0 allows ptr == NULL. */
typedef struct sluice_str   { const char    *ptr; size_t len; } sluice_str;
typedef struct sluice_bytes { const uint8_t *ptr; size_t len; } sluice_bytes;
typedef struct sluice_pair  { sluice_str key; sluice_str value; } sluice_pair;

/* An array of size-prefixed structs. Walk it by `stride`, never by sizeof:
 * the host may have been built with longer elements. */
typedef struct sluice_array { const void *base; uint32_t count; uint32_t stride; } sluice_array;
#define SLUICE_AT(type, a, i) \
    ((const type *)(const void *)((const char *)(a).base + (size_t)(i) * (a).stride))

/* Output of unknown length goes to a sink the caller owns. */
typedef struct sluice_sink {
    void *ctx;
    sluice_status (*write)(void *ctx, const void *data, size_t len);
} sluice_sink;

#ifdef __cplusplus
#define SLUICE_FROZEN(T, n) static_assert(sizeof(T) == (n), #T " is frozen")
#else
#define SLUICE_FROZEN(T, n) _Static_assert(sizeof(T) == (n), #T " is frozen")
#endif
SLUICE_FROZEN(sluice_str, 16);       /* passed or embedded by value: these five     */
SLUICE_FROZEN(sluice_bytes, 16);     /* never change, in any release, for any reason */
SLUICE_FROZEN(sluice_pair, 32);
SLUICE_FROZEN(sluice_array, 16);
SLUICE_FROZEN(sluice_sink, 16);

/* Caller-allocated, so no ownership crosses the boundary. msg need not be
 * NUL-terminated; len <= sizeof msg; truncate on a UTF-8 boundary. */
typedef struct sluice_error {
    uint32_t      size;
    sluice_status code;
    uint32_t      len;
    char          msg[244];
} sluice_error;

#endif /* SLUICE_SDK_BASE_H */
