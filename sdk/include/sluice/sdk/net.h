/* Services http and zmq: the gateway owns every socket a plugin talks through.
 *
 * Threads: the tag in front of each function says who calls it; see sdk/README.md.
 */
#ifndef SLUICE_SDK_NET_H
#define SLUICE_SDK_NET_H

#include "host.h"

#define SLUICE_SVC_HTTP "sluice.http/1"
typedef struct sluice_http_call sluice_http_call;
typedef struct sluice_http_request {
    uint32_t   size, num_headers;
    uint64_t   endpoint;         /* its origin, TLS, credentials; 0 = absolute URL */
    sluice_str method;
    sluice_str target;           /* "/server_info", or the absolute URL          */
    const sluice_pair *headers;
    sluice_bytes body;           /* copied before start() returns                */
    uint64_t   timeout_us;       /* whole exchange; 0 = instance default         */
    uint64_t   max_body_bytes;   /* beyond it: SLUICE_E_LIMIT                    */
} sluice_http_request;
typedef struct sluice_http_result {
    uint32_t      size;
    sluice_status status;        /* transport outcome, not the HTTP code         */
    uint32_t      http_code;     /* 0: no complete head. Set with status < 0: the
                                    body broke off, body holds what came         */
    uint32_t      num_headers;
    const sluice_pair *headers;  /* borrowed until the callback returns          */
    sluice_bytes  body;          /* borrowed until the callback returns          */
    uint64_t      elapsed_us;
} sluice_http_result;
typedef void (*sluice_http_fn)(void *user, const sluice_http_result *result);
typedef struct sluice_http_api {
    uint32_t size, reserved;
    /* [event] done runs exactly once unless cancelled, never inside start().
     * No redirects, no retries: some GETs of engines are destructive. */
    sluice_status (*start)(const sluice_host *host, const sluice_http_request *req,
                           sluice_http_fn done, void *user, sluice_http_call **out,
                           sluice_error *err);
    /* [event] After it returns, done will not run. */
    void (*cancel)(const sluice_host *host, sluice_http_call *call);
} sluice_http_api;

#define SLUICE_SVC_ZMQ "sluice.zmq/1"
enum { SLUICE_ZMQ_SUB = 1, SLUICE_ZMQ_DEALER = 2 };
typedef struct sluice_zmq_socket sluice_zmq_socket;
typedef struct sluice_zmq_options {
    uint32_t   size, kind;
    uint64_t   endpoint;         /* for metrics and the inventory view           */
    uint32_t   dp_rank;
    uint32_t   hwm;              /* messages; 0 = 100000 (libzmq's 1000 loses)   */
    sluice_str address;          /* "tcp://10.0.0.7:5557"; connects, never binds */
    sluice_str topic;            /* SUB: prefix filter; empty = everything       */
    uint64_t   max_message_bytes; /* over all frames                             */
} sluice_zmq_options;
typedef struct sluice_zmq_handler {
    uint32_t size, reserved;
    void    *user;
    /* [event] One message, any number of frames, borrowed until return. */
    void (*on_message)(void *user, const sluice_bytes *frames, uint32_t count);
    /* [event] connected = 0/1 from the socket monitor. May be NULL. */
    void (*on_link)(void *user, int connected);
} sluice_zmq_handler;
typedef struct sluice_zmq_api {
    uint32_t size, reserved;
    sluice_status (*open)(const sluice_host *host, const sluice_zmq_options *opts,
                          const sluice_zmq_handler *handler, sluice_zmq_socket **out,
                          sluice_error *err);                                /* [event] */
    /* [event] DEALER only. Frames go out as given: an empty delimiter is the
     * caller's. SLUICE_AGAIN = queue full, nothing was sent. */
    sluice_status (*send)(const sluice_host *host, sluice_zmq_socket *sock,
                          const sluice_bytes *frames, uint32_t count);
    void (*close)(const sluice_host *host, sluice_zmq_socket *sock);         /* [event] */
} sluice_zmq_api;

#endif /* SLUICE_SDK_NET_H */
