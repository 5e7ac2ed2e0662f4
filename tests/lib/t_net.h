/*
 * The few things about sockets that the servers of the test library share.
 *
 * Ports are drawn at random from below the range the kernel gives to outgoing connections. A port
 * out of that range could become some connection's own while its server is down for a restart.
 *
 * A child forked by a test shares all descriptors, so closing one is not enough to end a listener
 * or a connection: these functions end the thing itself.
 */
#ifndef T_NET_H
#define T_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define T_HOST "127.0.0.1"

/* A port nobody listens on now. It may be taken until it is used: be ready to draw another. */
uint16_t t_net_free_port(void);

/* A non-blocking listener. On a given port -1 if that is taken; on any, it cannot fail. */
int t_net_listen(uint16_t port);
int t_net_listen_any(uint16_t *port);
void t_net_unlisten(int fd);

/* A non-blocking connection under way, or -1. */
int t_net_connect_start(uint16_t port);
int t_net_connect_unix_start(const char *path);

/* A blocking connection whose reads and writes give up after 10 s; the test fails if refused. */
int t_net_connect(uint16_t port);

/* Whether something accepts connections on that port. */
bool t_net_accepts(uint16_t port);

/* Close with a reset (on a unix socket: at once). -1 is allowed. */
void t_net_reset(int fd);

/* Printable text of bytes, the rest escaped, cut to fit; for messages. Returns `text`. */
char *t_net_printable(const void *bytes, size_t length, char *text, size_t size);

#endif
