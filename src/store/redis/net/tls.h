/*
 * TLS between the session and the socket: plain bytes in and records out, records in and plain bytes
 * out. It does no I/O, so that no library can raise a SIGPIPE or block, and OpenSSL is loaded when the
 * first URL asks for it: its start costs a millisecond that plain users do not pay.
 *
 * The chain and the host's name are verified unless the URL says tls_verify=none in so many words.
 * There is no way back from a failed handshake to a plain connection.
 */
#ifndef HF_STORE_REDIS_NET_TLS_H
#define HF_STORE_REDIS_NET_TLS_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/url.h"

typedef struct hf__tls hf__tls;

/* HF_UNSUPPORTED if there is no TLS to be had, with *detail on the heap. */
hf_result hf__tls_check(char **detail);

/* A connection as the URL asks for it, with its first message in `out`. HF_UNSUPPORTED (no OpenSSL
   here), HF_INVALID (a file that cannot be used) or HF_NOMEM, with *detail on the heap. */
hf_result hf__tls_new(const hf__url *url, hf__buffer *out, hf__tls **tls, char **detail);
void hf__tls_free(hf__tls *tls);

/* The handshake is over and the server is who it should be. */
bool hf__tls_ready(const hf__tls *tls);

/* Records came: what they hold is added to `plain`, what is to be answered to `out`. HF_REFUSED (not
   verified, or no handshake possible) or HF_UNREACHABLE (closed by the server), with *detail. */
hf_result hf__tls_feed(hf__tls *tls, const char *bytes, size_t length, hf__buffer *plain,
                       hf__buffer *out, char **detail);

/* Plain bytes to be sent: their records are added to `out`; its `failed` says if they did not fit. */
void hf__tls_seal(hf__tls *tls, const char *bytes, size_t length, hf__buffer *out);

#endif
