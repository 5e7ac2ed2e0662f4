/*
 * The network. A wire is one connection: two flows of bytes, each in order and each with delays of its
 * own, between a client's link and a connection of the model server.
 *
 *   asked for --trip--> open --client closes, or is cut off--> the server's end alone --> gone
 *
 * What was under way to the server when the client's end closed may get lost, or come late: after
 * bytes of the connection that followed, seconds later. So may the news that it closed.
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
    hf__time stalled_until; /* nothing is delivered before */
    sim_event event;        /* the next delivery */
} sim_flow;

typedef struct sim_wire {
    sim_world *world;
    struct sim_wire *next, *prev; /* all of the world */
    int number;
    struct sim_link *link; /* the client's end; NULL: closed */
    rm_conn *conn;         /* the server's end; NULL: not there yet, or closed */
    bool open, broken;     /* what the client may see */
    sim_flow up, down;     /* to the server, to the client */
    hf__buffer arrived;    /* at the client, not read */
    sim_event turn;        /* it comes up, breaks, or its server's end closes */
    int turns;             /* which of them */
} sim_wire;

sim_wire *sim_wire_open(sim_world *world, struct sim_link *link);
void sim_wire_send(sim_wire *wire, const char *bytes, size_t length);

/* The client's end closes, by a reset. */
void sim_wire_close(sim_wire *wire);

/* A fault: how is drawn. */
void sim_wire_cut(sim_wire *wire);
void sim_wire_stall(sim_wire *wire, hf__time until);

/* Faults are over: what is held up goes on, and who was cut off learns of it. */
void sim_net_calm(sim_world *world);

/* Answers and messages of the server go on their way. */
void sim_net_answers(sim_world *world);

/* The server is gone, with all its connections. */
void sim_net_server_gone(sim_world *world);

void sim_net_fini(sim_world *world);

#endif
