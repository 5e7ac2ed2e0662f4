/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client's end of a connection: connect, log in, read, write, time out, reconnect. It does over
 * the simulated network what src/store/net/connection.c and redis/net/link.c do over a socket,
 * state by state.
 *
 *   IDLE --retry_at--> CONNECTING --comes up--> LOGIN --answers--> UP
 *     ^----------------- fails, breaks, times out --------------+
 *
 * The protocol is a table (sim_half), so a client may have several links with different protocols.
 */
#ifndef SIM_WORLD_LINK_H
#define SIM_WORLD_LINK_H

#include "base/buffer.h"
#include "base/rand.h"
#include "holdfast.h"
#include "world/net.h"

struct sim_client;

/* The protocol's functions; `half` is their own state. */
typedef struct sim_half {
    hf_result (*begin)(void *half, hf__time now);
    void (*broke)(void *half);
    hf_result (*feed)(void *half, const char *bytes, size_t length, hf__time now, char **detail);
    bool (*ready)(const void *half);     /* logged in */
    hf__buffer *(*out)(void *half);      /* bytes to send */
    void (*sent)(void *half);            /* all of them were sent */
    bool (*must_look)(const void *half); /* nothing is in flight, so any bytes are unexpected */
    hf__time (*waits_since)(const void *half);
    void (*tick)(void *half, hf__time now);
    hf__time (*due)(const void *half);
} sim_half;

typedef enum sim_link_state {
    SIM_LINK_IDLE,
    SIM_LINK_CONNECTING,
    SIM_LINK_LOGIN,
    SIM_LINK_UP,
    SIM_LINK_SHUT
} sim_link_state;

typedef struct sim_link {
    struct sim_client *client;
    const sim_half *table;
    void *half;
    sim_link_state state;
    sim_wire *wire;
    hf__rand rand;
    hf__time attempt_until, retry_at, fed_at;
    unsigned failures;
    int64_t connect_ms, command_ms;
    hf_result down_result;
    char *down_detail;
} sim_link;

/* Times are on the client's clock. */
void sim_link_tick(sim_link *link, hf__time now);
hf__time sim_link_due(const sim_link *link);
void sim_link_read(sim_link *link, hf__time now);
bool sim_link_readable(const sim_link *link); /* bytes, or a closed connection */
void sim_link_flush(sim_link *link, hf__time now);
void sim_link_renew(sim_link *link, hf__time now); /* closes the connection and reconnects */
void sim_link_shut(sim_link *link);
void sim_link_fini(sim_link *link);

/* Wakes the client, because something arrived. */
void sim_link_wake(sim_link *link);

#endif
