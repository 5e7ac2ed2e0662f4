/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The world of one run: true time, a server, a network, clients with their callers, faults, and the
 * checks that run after every event. Everything follows from the seed.
 */
#ifndef SIM_WORLD_WORLD_H
#define SIM_WORLD_WORLD_H

#include <setjmp.h>

#include "base/rand.h"
#include "model/model.h"
#include "world/check.h"
#include "world/clock.h"
#include "world/net.h"
#include "world/sizes.h"
#include "world/trace.h"

#define SIM_WHY 512 /* bytes of a failure text */

/* Faults, as bits of a plan. */
enum {
    SIM_CUTS = 1,
    SIM_STALLS = 2,
    SIM_PAUSES = 4,
    SIM_CRASHES = 8,
    SIM_CLOSINGS = 16,
    SIM_RESTARTS = 32,
    SIM_DATA_LOSS = 64, /* flushes, restarts without data, DEL by hand */
    SIM_SCRIPT_FLUSHES = 128,
    SIM_SERVER_STALLS = 256,
    SIM_FULL_MEMORY = 512,
    SIM_CLOCK_STEPS = 1024,
    SIM_BREAKS = 2048,
    SIM_SLOW_NET = 4096,
    SIM_DRIFT = 8192,
    SIM_ECHOES = 16384,      /* repeated messages */
    SIM_MONITOR = 32768,     /* a client subscribes to all messages */
    SIM_NO_MESSAGES = 65536, /* the right to publish is withdrawn for a while */
    SIM_OLD_SERVER = 131072, /* an earlier server also knows the waiters, and hands over */
    SIM_SPOILT = 262144,     /* something else overwrites a fence */
    SIM_ALL_FAULTS = 524287,
    /* Do not affect the order of waiters. */
    SIM_HARMLESS = SIM_SCRIPT_FLUSHES | SIM_DRIFT | SIM_MONITOR
};

enum { SIM_RECENT = 8, SIM_MESSAGE = 256 };

typedef struct sim_message {
    char channel[SIM_MESSAGE], text[SIM_MESSAGE];
} sim_message;

/* The kind of lock a name is used for. */
typedef enum sim_sort { SIM_MUTEXES, SIM_SHARES, SIM_PERMITS } sim_sort;

/* What a seed decides before the run. */
typedef struct sim_plan {
    int clients, callers, names;
    sim_sort sorts[SIM_NAMES];
    uint32_t capacity; /* permits only */
    unsigned faults;
    bool multi_acquire; /* callers acquire several names at once */
    bool hasty;         /* waiters often give up */
    bool fair;          /* nothing disturbs the waiters */
    hf__time gap;       /* average time between faults */
    hf__time trip;      /* longest time of one way, without faults */
    hf__time lasts;
    hf__time think; /* average pause of a caller between calls */
    int64_t leases[SIM_LEASES];
    int64_t longest_ms; /* longest lease or extension */
    int64_t command_ms, connect_ms, outage_ms;
} sim_plan;

struct sim_world {
    uint64_t seed;
    hf__rand rand;
    hf__time now;
    hf__heap events;
    long steps;
    sim_plan plan;
    hf__time calm_at;
    bool calm;   /* faults have ended, and callers start nothing new */
    bool ending; /* clients are being closed, without faults */

    rm_server server;
    sim_clock server_clock;
    int64_t stepped_us; /* sum of its clock's steps so far */
    hf__time server_stalled_until, server_back_at;
    bool server_down;

    sim_wire *wires;
    int wires_made;
    struct sim_client *clients[SIM_SLOTS];
    int clients_made, groups;
    sim_checks checks;
    sim_event chaos, server_event, memory_event, message_event;
    sim_message recent[SIM_RECENT]; /* recent messages */
    unsigned recent_count;

    sim_trace trace;
    jmp_buf failed;
    char why[SIM_WHY];
    int why_name;
};

extern const char *const sim_names[SIM_NAMES];

/* ---- Chance ---- */

static inline int64_t sim_draw(sim_world *w, int64_t below) {
    return below > 0 ? (int64_t)(hf__rand_next(&w->rand) % (uint64_t)below) : 0;
}

static inline bool sim_chance(sim_world *w, int64_t in) {
    return sim_draw(w, in) == 0;
}

/* Draws a clock's drift in millionths; often the largest allowed. */
static inline int64_t sim_drift(sim_world *w) {
    int64_t ppm = sim_draw(w, 9801) - 4900;
    return sim_chance(w, 3) ? (ppm < 0 ? -4900 : 4900) : ppm;
}

/* Draws how long a message takes, one way. */
hf__time sim_trip(sim_world *w);

/* ---- Tracing ---- */

#define SIM_LOG(w, name, ...)                                                       \
    do {                                                                            \
        if ((w)->trace.on) sim_trace_add(&(w)->trace, (w)->now, name, __VA_ARGS__); \
    } while (0)

/* Ends the run. */
_Noreturn void sim_fail(sim_world *w, int name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define SIM_CHECK(w, name, condition)                                                      \
    do {                                                                                   \
        if (!(condition))                                                                  \
            sim_fail(w, name, "%s:%d: does not hold: %s", __FILE__, __LINE__, #condition); \
    } while (0)

/* ---- A run ---- */

typedef struct sim_result {
    bool good;
    char why[SIM_WHY];
    uint64_t hash; /* of the trace, if there is one */
    long steps;
    sim_counts counts;
} sim_result;

/* How much of the trace is kept and printed when a run fails, or always. */
typedef enum sim_trace_mode {
    SIM_SILENT,
    SIM_TRACE_END,
    SIM_TRACE_ALL,
    SIM_TRACE_HASH
} sim_trace_mode;
void sim_run(uint64_t seed, sim_trace_mode mode, sim_result *result);

#endif
