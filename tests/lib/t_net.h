/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Socket functions that the servers of the test library share.
 *
 * Ports are drawn at random from below the kernel's range for outgoing connections. A port in that
 * range could be used by some connection while its server is down for a restart.
 *
 * A child forked by a test shares all descriptors, so closing one is not enough to end a listener
 * or a connection. These functions end the socket itself.
 */
#ifndef T_NET_H
#define T_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define T_HOST "127.0.0.1"

/* A port on which nothing listens now. Another process may take it: be ready to draw another. */
uint16_t t_net_free_port(void);

/* Keep the port of a server that is down: connections to it are refused, and no other process can
   listen on it. A server that is to be started there, or t_net_listen, ends that. */
void t_net_reserve(uint16_t port);
void t_net_unreserve(uint16_t port);

/* A non-blocking listener. Returns -1 if the given port is taken; with port 0 it cannot fail. */
int t_net_listen(uint16_t port);
int t_net_listen_any(uint16_t *port);
void t_net_unlisten(int fd);

/* A non-blocking connection in progress, or -1. */
int t_net_connect_start(uint16_t port);
int t_net_connect_unix_start(const char *path);

/* A blocking connection whose reads and writes time out after 10 s. The test fails if refused. */
int t_net_connect(uint16_t port);

/* Whether something accepts connections on that port. */
bool t_net_accepts(uint16_t port);

/* Close with a reset (on a unix socket: at once). -1 is allowed. */
void t_net_reset(int fd);

/* Printable text of bytes for messages: others are escaped, and it is cut to fit. Returns
   `text`. */
char *t_net_printable(const void *bytes, size_t length, char *text, size_t size);

#endif
