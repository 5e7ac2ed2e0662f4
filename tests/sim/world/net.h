/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network. A wire is one connection between a client's link and the model server. It has two
 * flows of bytes, each in order and each with its own delays.
 *
 *   requested --trip--> open --client closes, or is cut off--> the server's end alone --> gone
 *
 * When the client's end closes, bytes in flight to the server may be lost or arrive late: seconds
 * later, after bytes of the next connection. The close itself may arrive late, too.
 */
#ifndef SIM_WORLD_NET_H
#define SIM_WORLD_NET_H

#include "base/buffer.h"
#include "model/model.h"
#include "world/event.h"

typedef struct sim_chunk {
    struct sim_chunk *next;
    hf__time at;
    size_t length;
    char bytes[];
} sim_chunk;

typedef struct sim_flow {
    sim_chunk *first, *last;
    hf__time stalled_until; /* nothing is delivered before this */
    sim_event event;        /* the next delivery */
} sim_flow;

typedef struct sim_wire {
    sim_world *world;
    struct sim_wire *next, *prev; /* all wires of the world */
    int number;
    struct sim_link *link; /* the client's end; NULL: closed */
    rm_conn *conn;         /* the server's end; NULL: not there yet, or closed */
    bool open, broken;     /* as the client may see it */
    sim_flow up, down;     /* to the server, to the client */
    hf__buffer arrived;    /* arrived at the client, not read */
    sim_event turn;        /* it opens, breaks, or its server's end closes */
    int turns;             /* which of them */
} sim_wire;

sim_wire *sim_wire_open(sim_world *world, struct sim_link *link);
void sim_wire_send(sim_wire *wire, const char *bytes, size_t length);

/* Closes the client's end with a reset. */
void sim_wire_close(sim_wire *wire);

/* A fault; its details are drawn. */
void sim_wire_cut(sim_wire *wire);
void sim_wire_stall(sim_wire *wire, hf__time until);

/* Ends the faults: stalled bytes are delivered, and clients learn that they were cut off. */
void sim_net_calm(sim_world *world);

/* Sends the server's answers and messages on their way. */
void sim_net_answers(sim_world *world);

/* The server is gone, with all its connections. */
void sim_net_server_gone(sim_world *world);

void sim_net_fini(sim_world *world);

#endif
