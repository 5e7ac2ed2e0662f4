/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The world of one run over several servers: true time, model servers, wires, and clients with
 * their callers. Everything follows from the seed. It is simpler than world/ (one name, a mutex)
 * and checks less, but over many servers:
 *
 *  1. At most one caller holds the name, by its own deadline on its own clock, except holds that
 *     are in doubt.
 *  2. Tokens grow from entry to entry. Where holds may be in doubt, a token is above all tokens
 *     that had ended before the call.
 *  3. Once faults have ended, every wait ends. Clients soon remove from every server what they do
 *     not hold.
 *
 * The kind of world decides the servers, how clients use them, and what goes wrong. quorum.c has
 * independent servers; ../failover has a primary and its replicas.
 */
#ifndef SIM_QUORUM_RING_H
#define SIM_QUORUM_RING_H

#include <setjmp.h>

#include "base/log.h"
#include "base/rand.h"
#include "core/core_internal.h"
#include "model/model.h"
#include "store/quorum/quorum.h"
#include "store/redis/protocol/session.h"
#include "world/clock.h"
#include "world/trace.h"

enum { RING_NODES = 5, RING_CLIENTS = 4, RING_CALLERS = 2, RING_WHY = 512 };

#define RING_NAME "a"
#define RING_KEY  "hf:{a}"

typedef struct ring_world ring;
typedef struct ring_client ring_client;
struct relay;

typedef struct ring_event {
    hf__timer timer; /* must be first */
    void (*fn)(void *arg);
    void *arg;
} ring_event;

/* Schedules the event, or reschedules it. HF__NEVER cancels it. */
void ring_at(ring *r, ring_event *event, hf__time at);

/* ---- Nodes and wires (wire.c) ---- */

typedef struct ring_node {
    ring *ring;
    int number;
    rm_server server;
    sim_clock clock;
    hf__time stopped_until; /* it does nothing before this */
    bool down;
    ring_event back;
    ring_event broken; /* the lock is broken on this node */
} ring_node;

typedef struct ring_chunk {
    struct ring_chunk *next;
    hf__time at;
    size_t length;
    char bytes[];
} ring_chunk;

typedef struct ring_flow {
    ring_chunk *first, *last;
    ring_event event; /* the next delivery */
} ring_flow;

struct ring_link;

/* A connection. When its client's end closes, bytes in flight to the server are lost or arrive
   late. */
typedef struct ring_wire {
    struct ring_wire *next, *prev;
    ring_node *node;
    struct ring_link *link; /* the client's end; NULL: closed */
    rm_conn *conn;          /* the server's end; NULL: not there yet, or gone */
    bool open, broken;      /* as the client's end may see it */
    ring_flow up, down;
    ring_event opens;
    hf__buffer arrived;

    /* A WAIT that is not answered yet. */
    bool waits;
    int64_t wait_for;
    uint64_t wait_offset;
    ring_event waited;
} ring_wire;

void ring_node_init(ring *r, int number);
void ring_node_stop(ring_node *n, hf__time span);
void ring_node_restart(ring_node *n, bool keep_keys, hf__time away);
void ring_node_clock(ring_node *n);
void ring_node_break_wires(ring_node *n); /* the node closes them */

ring_wire *ring_wire_open(ring_node *n, struct ring_link *link);
void ring_wire_send(ring_wire *w, const char *bytes, size_t length);
void ring_wire_close(ring_wire *w);
void ring_wire_cut(ring_wire *w);
void ring_wires_answer(ring_node *n); /* sends its answers on their way */
hf__time ring_trip(ring *r);
void ring_wires_fini(ring *r);

/* ---- A client's connection to a node, as a store (link.c) ---- */

typedef enum ring_link_state { RING_IDLE, RING_CONNECTING, RING_LOGIN, RING_UP } ring_link_state;

typedef struct ring_link {
    hf__store store; /* must be first */
    ring_client *client;
    ring_node *node;
    hf__session session;
    ring_link_state state;
    ring_wire *wire;
    hf__time attempt_until, retry_at;
    unsigned failures;
} ring_link;

hf__store *ring_link_new(ring_client *c, ring_node *n, hf__session_role role);
void ring_link_move(ring_link *l, ring_node *n, hf__time now); /* and reconnect */
void ring_link_read(hf__store *store, hf__time now);
bool ring_link_readable(const hf__store *store);

/* ---- Clients (client.c) ---- */

typedef enum ring_doing { RING_THINKS, RING_WAITS, RING_HOLDS, RING_RELEASES } ring_doing;

typedef struct ring_caller {
    ring_client *client;
    int number;
    ring_doing doing;
    hf__time at; /* on its client's clock: when it acts next */
    hf__wait wait;
    hf__call call;
    hf__handle *hold;
    bool last, served; /* last: it waits for the final time; served: it got the lock then */
    bool doubtful;     /* another caller may get, or have got, the same lock */
    uint64_t floor;    /* tokens up to this had ended when it called */
} ring_caller;

struct ring_client {
    ring *ring;
    int slot, number;
    bool gone;
    sim_clock clock;
    hf__time paused_until;
    ring_event event;
    hf__url url;
    hf__identity who;
    hf__log log;
    hf__store *links[RING_NODES]; /* of its store */
    int link_count;
    hf__store *store;
    ring_event failover_notice; /* when it learns of a failover */
    int64_t lease_ms;           /* its default lease */
    hf__core core;
    ring_caller callers[RING_CALLERS];
};

void ring_client_init(ring *r, int slot);
void ring_client_fini(ring_client *c);
void ring_client_crash(ring_client *c);
void ring_client_wake(ring_client *c);
hf__time ring_client_now(const ring_client *c);

/* After a calm period its callers start to acquire again. */
void ring_client_resume(ring_client *c);

/* Cancels all waits of the client. */
void ring_client_cancel(ring_client *c);

/* The first acquires the name once more, which must succeed; the second returns whether it did. */
void ring_client_want(ring_client *c);
bool ring_client_served(const ring_client *c);

/* Returns true if the caller holds the name by its own deadline. */
bool ring_caller_holds(const ring_caller *t);

/* ---- The run (ring.c) ---- */

struct ring_world {
    hf__rand rand;
    hf__time now;
    hf__heap events;
    long steps;
    int nodes, clients, callers;
    int64_t lease_ms, command_ms; /* lease_ms: the longest of any client */
    hf__time trip, gap, think;
    bool calm;      /* faults have ended, and callers start nothing new */
    bool lossless;  /* nodes keep their data and leases are long, so leftovers are visible */
    bool unclocked; /* clients do not know the nodes' clocks: tokens differ, and are written back */
    bool breaks;    /* locks are broken on some nodes */
    bool breaks_next;
    bool greedy;      /* some calls request leases longer than allowed */
    bool loose;       /* holds may be in doubt */
    int64_t apart_us; /* largest difference of the nodes' clocks */
    ring_node node[RING_NODES];
    ring_wire *wires;
    ring_client client[RING_CLIENTS];
    int clients_made;
    ring_event chaos;
    uint64_t last_token, ended_token;
    long entered, refused, lost, scripts, excused;
    struct relay *relay; /* failover only */
    sim_trace trace;
    jmp_buf failed;
    char why[RING_WHY];
};

static inline int64_t ring_draw(ring *r, int64_t below) {
    return below > 0 ? (int64_t)(hf__rand_next(&r->rand) % (uint64_t)below) : 0;
}

static inline bool ring_chance(ring *r, int64_t in) {
    return ring_draw(r, in) == 0;
}

#define RING_LOG(r, ...)                                                               \
    do {                                                                               \
        if ((r)->trace.on) sim_trace_add(&(r)->trace, (r)->now, SIM_ANY, __VA_ARGS__); \
    } while (0)

/* Ends the run. */
_Noreturn void ring_fail(ring *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

void ring_entered(ring *r, const ring_caller *t);
void ring_left(ring *r, const ring_caller *t);

/* Marks every present hold and wait as in doubt. */
void ring_doubt_all(ring *r);

void ring_pause_some(ring *r);
void ring_cut_some(ring *r);

/* Runs the next event. Returns false if there is none until then. */
bool ring_step(ring *r, hf__time until);

/* Runs with faults for `span`; then without them until no caller waits or holds, and pending
   releases are done. */
void ring_play(ring *r, hf__time span);

/* Fails if a live client has left a hold on the node. A dead client's hold expires by itself. */
void ring_check_left(ring *r, ring_node *n);

/* Every client acquires the name once more, and must get it. Not for worlds in which a dead
   client may hold it for long. */
void ring_serve_all(ring *r);

/* ---- A kind of world ---- */

typedef struct ring_kind {
    void (*plan)(ring *r);                           /* draws the plan; nothing exists yet */
    void (*begin)(ring *r);                          /* the nodes exist; optional */
    hf__store *(*open)(ring_client *c);              /* and its links */
    void (*ran)(ring_node *n, const rm_ran *script); /* optional */
    void (*back)(ring_node *n);                      /* the node is back; optional */
    void (*gone)(ring_client *c);                    /* the client is about to end; optional */
    /* Whether a grant to the client now is in doubt; optional. */
    bool (*doubts)(const ring_client *c);
    void (*disturb)(ring *r);
    void (*calm)(ring *r); /* faults have ended; optional */
    void (*play)(ring *r);
    void (*end)(ring *r); /* optional */
} ring_kind;

extern const ring_kind ring_this;

#endif
