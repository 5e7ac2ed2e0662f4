/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bad network between a client and a server of this machine, which a test controls while it runs.
 *
 * Every control has taken effect when it returns. It applies to all present and future connections,
 * unless t_proxy_select chose one. Withheld bytes are forwarded in order when withholding ends,
 * even if their sender has closed by then. The end of a stream is queued behind its bytes.
 */
#ifndef T_PROXY_H
#define T_PROXY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct t_proxy t_proxy;
typedef enum t_dir { T_TO_SERVER = 0, T_TO_CLIENT = 1 } t_dir;

t_proxy *t_proxy_start(uint16_t target_port);
t_proxy *t_proxy_start_unix(const char *target_path);
void t_proxy_free(t_proxy *proxy); /* resets everything; NULL is allowed */
uint16_t t_proxy_port(const t_proxy *proxy);
const char *t_proxy_url(const t_proxy *proxy); /* "redis://127.0.0.1:PORT" */

/* The next controls apply to the n-th accepted connection (the first is 1); 0: to all again. */
void t_proxy_select(t_proxy *proxy, uint64_t n);

/* Reset the connections now, on both sides. Withheld bytes are dropped, unless they are
   detached. */
void t_proxy_cut(t_proxy *proxy);

/* Refuse connections: the port is closed. Existing connections stay. */
void t_proxy_refuse(t_proxy *proxy, bool on);

/* Delay by this many milliseconds; at most this many bytes at a time (0: any); withhold bytes. */
void t_proxy_delay(t_proxy *proxy, t_dir dir, int64_t ms);
void t_proxy_slice(t_proxy *proxy, t_dir dir, size_t bytes);
void t_proxy_withhold(t_proxy *proxy, t_dir dir, bool on);

/* Half-open: connections stay, bytes of both sides are dropped, and an end is not passed on. */
void t_proxy_blackhole(t_proxy *proxy, bool on);

/* Drop the next n answers (reads from the server), and reset the connection of the last one. The
   server has then executed commands whose answers never arrive. 0 stops this. */
void t_proxy_drop_answers(t_proxy *proxy, unsigned n);

/*
 * Late bytes. Detach resets the client's side of the connections. It keeps the server's side and
 * the bytes withheld in direction T_TO_SERVER, and stops withholding, so a new connection works.
 * Deliver then sends those bytes to the server, and returns when it has processed all. Both return
 * the number of bytes.
 *
 *     t_proxy_withhold(p, T_TO_SERVER, true);      the client sends; t_proxy_wait_bytes
 *     t_proxy_detach(p);                           the client reconnects, and does something
 *     t_proxy_deliver(p);                          bytes of the closed connection arrive
 */
size_t t_proxy_detach(t_proxy *proxy);
size_t t_proxy_deliver(t_proxy *proxy);

/* The server's answers to late bytes so far, so that a test can check that it understood them. */
const char *t_proxy_late_answers(t_proxy *proxy);

/* Counters: connections accepted and open now; bytes received, and bytes sent to the other side. */
uint64_t t_proxy_connections(const t_proxy *proxy);
uint64_t t_proxy_open(const t_proxy *proxy);
uint64_t t_proxy_bytes(const t_proxy *proxy, t_dir dir);
uint64_t t_proxy_forwarded(t_proxy *proxy, t_dir dir);

void t_proxy_wait_connections(t_proxy *proxy, uint64_t at_least, int64_t deadline_ms);
void t_proxy_wait_bytes(t_proxy *proxy, t_dir dir, uint64_t at_least, int64_t deadline_ms);

#endif
