/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS between a protocol and the socket: plain bytes in and records out, records in and plain
 * bytes out. It does no I/O, so OpenSSL cannot block or raise SIGPIPE. OpenSSL is loaded when the
 * first URL needs it: loading takes a millisecond, which users without TLS do not pay.
 *
 * The chain and the host name are verified unless the URL explicitly says tls_verify=none. A failed
 * handshake never falls back to a plain connection.
 */
#ifndef HF_STORE_NET_TLS_H
#define HF_STORE_NET_TLS_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/url.h"

typedef struct hf__tls hf__tls;

/* HF_UNSUPPORTED if TLS is not available, with *detail on the heap. */
hf_result hf__tls_check(char **detail);

/* Creates a connection with the options of the URL and puts its first message into `out`. `alpn`
   is a list like "h2,http/1.1", borrowed: the server must select one of these application
   protocols. NULL: any server will do. On failure HF_UNSUPPORTED (no OpenSSL here), HF_INVALID (a
   file cannot be used) or HF_NOMEM, with *detail on the heap. */
hf_result hf__tls_new(const hf__url *url, const char *alpn, hf__buffer *out, hf__tls **tls,
                      char **detail);
void hf__tls_free(hf__tls *tls);

/* The handshake is complete and the server is verified. */
bool hf__tls_ready(const hf__tls *tls);

/* The application protocol that the server selected; "": none was offered. */
const char *hf__tls_protocol(const hf__tls *tls);

/* Records arrived: decrypted bytes are added to `plain`, bytes to send back to `out`. HF_REFUSED
   (not verified, or the handshake failed) or HF_UNREACHABLE (closed by the server), with
   *detail. */
hf_result hf__tls_feed(hf__tls *tls, const char *bytes, size_t length, hf__buffer *plain,
                       hf__buffer *out, char **detail);

/* Encrypts plain bytes and adds the records to `out`; its `failed` is set if they did not fit. */
void hf__tls_seal(hf__tls *tls, const char *bytes, size_t length, hf__buffer *out);

#endif
