/*
 * A bad network between a client and a server of this machine, controlled while it runs.
 *
 * Every control has taken effect when it returns. It concerns all connections, and those to come,
 * unless t_proxy_select chose one. Bytes that are kept back are forwarded in order once nothing
 * keeps them, also if their sender has gone by then; the end of a stream queues behind its bytes.
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

/* The controls that follow are for the n-th connection accepted (1 the first); 0 is all again. */
void t_proxy_select(t_proxy *proxy, uint64_t n);

/* Reset the connections now, on both sides. What was kept back is gone, unless it is detached. */
void t_proxy_cut(t_proxy *proxy);

/* Let nobody connect: the port is closed. The connections there are stay. */
void t_proxy_refuse(t_proxy *proxy, bool on);

/* Forward so many milliseconds late; at most so many bytes at a time (0: any); hold back until told. */
void t_proxy_delay(t_proxy *proxy, t_dir dir, int64_t ms);
void t_proxy_slice(t_proxy *proxy, t_dir dir, size_t bytes);
void t_proxy_withhold(t_proxy *proxy, t_dir dir, bool on);

/* Half-open: connections stay. Bytes of both sides are dropped, and an end is not passed on. */
void t_proxy_blackhole(t_proxy *proxy, bool on);

/* Swallow the next n answers (reads from the server), and reset the connection of the last of them:
   the server has done what its client will never hear of. 0 takes it back. */
void t_proxy_drop_answers(t_proxy *proxy, unsigned n);

/*
 * Late bytes. Detach resets the client's side of the connections but keeps the server's, with what
 * is withheld of T_TO_SERVER, and ends that withholding: a successor gets through. Deliver then
 * lets the server have those bytes, and returns when it has dealt with all. Both say how many.
 *
 *     t_proxy_withhold(p, T_TO_SERVER, true);      the client sends; t_proxy_wait_bytes
 *     t_proxy_detach(p);                           the client reconnects, and does something
 *     t_proxy_deliver(p);                          bytes of the closed connection arrive
 */
size_t t_proxy_detach(t_proxy *proxy);
size_t t_proxy_deliver(t_proxy *proxy);

/* What the server answered to late bytes so far, for a test that must know they were understood. */
const char *t_proxy_late_answers(t_proxy *proxy);

/* Counters: connections accepted, open now; bytes that came in, that went out at the other end. */
uint64_t t_proxy_connections(const t_proxy *proxy);
uint64_t t_proxy_open(const t_proxy *proxy);
uint64_t t_proxy_bytes(const t_proxy *proxy, t_dir dir);
uint64_t t_proxy_forwarded(t_proxy *proxy, t_dir dir);

void t_proxy_wait_connections(t_proxy *proxy, uint64_t at_least, int64_t deadline_ms);
void t_proxy_wait_bytes(t_proxy *proxy, t_dir dir, uint64_t at_least, int64_t deadline_ms);

#endif
