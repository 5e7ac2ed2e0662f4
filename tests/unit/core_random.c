/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several clients' cores over one small lock table, in virtual time and with a random schedule.
 * Requests arrive late, but in order within a connection. Those of a broken connection may arrive
 * later still, or never. Answers get lost, and the server's clock drifts.
 *
 * A run is repeated from its seed, with a trace:  unit_core_random SEED
 */
#include "t.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lease.h"
#include "core_kit.h"

#define MS HF__MS

enum {
    SEEDS = 400,
    STEPS = 1500,
    CLIENTS = 3,
    NAMES = 3,
    OWNERS = 3,
    WAITS = 24,
    HOLDS = 48,
    WIRE = 64,
    LATE = 64,
    BROKEN = 16,
    COMMAND_MS = 400,
    OUTAGE_MS = 900
};

static const char *const names[NAMES] = {"a", "b", "c"};

/* ---- The world ---- */

/* A lock in the server's data. Tombstones are explained in release.lua. */
struct lock {
    int client; /* -1: nobody */
    uint64_t acquire_id, token, last_token;
    hf__time expires;
    /* stray: held by a late request that its client cannot know of. The request is a renewal of
       an acquire that the client thinks is over, or an acquire older than one that an operator
       broke. */
    bool stray, exposed;
    uint64_t broken[BROKEN]; /* tokens that an operator broke: their holders do not know yet */
    size_t broken_count;
    uint64_t entered; /* the token of the last ownership that was entered */
    struct {
        uint64_t acquire_id;
        hf__time until;
    } tombstone[CLIENTS];
};

/* A request in flight: its content, and the operation that gets the answer. */
struct message {
    hf__op said;
    int client, name;
    hf__op *op;          /* NULL: its connection broke, so nobody waits for the answer */
    hf__time arrives_at; /* at the server */
    hf__time answered_at;
    bool executed;
};

struct client {
    hf__store store; /* must be first: the store's functions get this */
    int index;
    struct world *world;
    hf__core core;
    struct message wire[WIRE];
    size_t on_wire;
    hf__op *done[WIRE];
    size_t done_count;
    hf__time up_at; /* while down */
    uint64_t last_asked[NAMES];
    kit_call close;
};

struct held_slot {
    hf__handle *hold; /* NULL: free slot */
    int client, name;
    kit_call extend;
    bool extending;
};

struct world {
    uint64_t seed;
    hf__rand rand;
    hf__time now;
    int drift; /* of the server's clock, per mille */
    bool calm; /* faults have ended */
    struct lock locks[NAMES];
    struct client clients[CLIENTS];
    struct message late[LATE];
    size_t late_count;
    kit_wait waits[WAITS];
    int wait_client[WAITS], wait_name[WAITS];
    bool wait_used[WAITS];
    struct held_slot holds[HOLDS];
    kit_call releases[HOLDS];
    bool release_used[HOLDS];
    long entered, lost;
};

#define CHECK(w, condition)                                                                   \
    do {                                                                                      \
        if (!(condition))                                                                     \
            t_fail_at(__FILE__, __LINE__, "seed %llu at %lld us: does not hold: %s",          \
                      (unsigned long long)(w)->seed, (long long)(w)->now / 1000, #condition); \
    } while (0)

static uint64_t only_seed;

__attribute__((format(printf, 2, 3))) static void tell(const struct world *w, const char *format,
                                                       ...) {
    if (!only_seed) return;
    va_list args;
    va_start(args, format);
    printf("%9lld us  ", (long long)w->now / 1000);
    vprintf(format, args);
    putchar('\n');
    va_end(args);
}

static void trace_op(const struct world *w, const char *what, int client, const hf__op *op) {
    static const char *const verbs[] = {"ASK", "RENEW", "RELEASE"};
    tell(w, "client %d  %s %s %s id %llu lease %lld: %s", client, what, verbs[op->verb], op->name,
         (unsigned long long)op->acquire_id, (long long)op->lease_ms, hf_result_name(op->result));
}

static int64_t draw_below(struct world *w, int64_t below) {
    return (int64_t)(hf__rand_next(&w->rand) % (uint64_t)below);
}

static bool draw_chance(struct world *w, int64_t in) {
    return draw_below(w, in) == 0;
}

static int name_of(const hf__op *op) {
    return op->name[0] - 'a';
}

/* ---- The server: a minimal store.h ---- */

static hf__time lease_end(const struct world *w, int64_t lease_ms) {
    return w->now + lease_ms * MS + lease_ms * MS * w->drift / 1000;
}

static bool is_held(const struct world *w, const struct lock *l) {
    return l->client >= 0 && w->now < l->expires;
}

static bool is_held_by(const struct world *w, const struct lock *l, int client,
                       uint64_t acquire_id) {
    return is_held(w, l) && l->client == client && l->acquire_id == acquire_id;
}

/* Returns true for a request of an earlier connection. */
static bool is_late(const struct world *w, int client, const hf__op *op) {
    const hf__store *store = &w->clients[client].store;
    return !store->up || op->link != store->link;
}

static hf_result serve_acquire(struct world *w, struct lock *l, int client, hf__op *op) {
    if (w->now > op->not_after) return HF_TIMEOUT;
    if (is_held_by(w, l, client, op->acquire_id)) {
        l->expires = hf__later(l->expires, lease_end(w, op->lease_ms));
        op->token = l->token;
        return HF_OK;
    }
    if (is_held(w, l) && l->client != client) {
        op->retry_ms = 10 + draw_below(w, 30);
        return HF_BUSY;
    }
    if (is_held(w, l) && l->acquire_id > op->acquire_id) return HF_TIMEOUT;
    if (op->acquire_id <= l->tombstone[client].acquire_id && w->now <= l->tombstone[client].until)
        return HF_TIMEOUT;
    l->last_token = (l->last_token > op->token ? l->last_token : op->token) + 1;
    l->client = client;
    l->stray = l->exposed && is_late(w, client, op);
    l->exposed = false;
    l->acquire_id = op->acquire_id;
    l->token = op->token = l->last_token;
    l->expires = lease_end(w, op->lease_ms);
    return HF_OK;
}

static hf_result serve_renew(struct world *w, struct lock *l, int client, const hf__op *op) {
    if (!is_held_by(w, l, client, op->acquire_id)) return HF_LOST;
    if (is_late(w, client, op)) l->stray = true;
    if (op->lease_ms) l->expires = hf__later(l->expires, lease_end(w, op->lease_ms));
    return HF_OK;
}

static hf_result serve_release(struct world *w, struct lock *l, int client, const hf__op *op) {
    bool ours = is_held(w, l) && l->client == client && l->acquire_id <= op->acquire_id;
    if (ours) l->client = -1;
    if (op->tombstone_until) {
        if (op->acquire_id > l->tombstone[client].acquire_id)
            l->tombstone[client].acquire_id = op->acquire_id;
        l->tombstone[client].until = hf__later(l->tombstone[client].until, op->tombstone_until);
    }
    return ours ? HF_OK : HF_LOST;
}

static void serve_request(struct world *w, struct message *m) {
    struct lock *l = &w->locks[m->name];
    m->executed = true;
    m->said.name = names[m->name]; /* the entry's name may be gone when this arrives late */
    switch (m->said.verb) {
    case HF__ACQUIRE: m->said.result = serve_acquire(w, l, m->client, &m->said); break;
    case HF__RENEW: m->said.result = serve_renew(w, l, m->client, &m->said); break;
    default: m->said.result = serve_release(w, l, m->client, &m->said); break;
    }
    trace_op(w, m->op ? "server" : "server, late", m->client, &m->said);
}

/* ---- A client's store ---- */

/* Mostly quick, sometimes longer than a lease. */
static hf__time draw_trip(struct world *w) {
    if (w->calm) return draw_below(w, 3 * MS);
    if (draw_chance(w, 30)) return draw_below(w, 600 * MS);
    return draw_below(w, 10 * MS);
}

static void check_acquire(struct client *c, const hf__op *op) {
    struct world *w = c->world;
    for (size_t i = 0; i < c->on_wire; i++) /* invariant 1 */
        CHECK(w, c->wire[i].name != name_of(op));
    if (op->verb != HF__ACQUIRE) return;
    CHECK(w, op->acquire_id >= c->last_asked[name_of(op)]); /* invariant 2 */
    c->last_asked[name_of(op)] = op->acquire_id;
}

static void client_submit(hf__store *store, hf__op *op, hf__time now) {
    struct client *c = (struct client *)store;
    struct world *w = c->world;
    CHECK(w, now == w->now);
    check_acquire(c, op);
    op->sent_at = now;
    op->link = store->link;
    if (!store->up) {
        op->result = HF_UNREACHABLE;
        op->outcome_unknown = false;
        c->done[c->done_count++] = op;
        return;
    }
    CHECK(w, c->on_wire < WIRE);
    trace_op(w, "send", c->index, op);
    hf__time arrived = 0, answered = 0;
    if (c->on_wire) {
        arrived = c->wire[c->on_wire - 1].arrives_at;
        answered = c->wire[c->on_wire - 1].answered_at;
    }
    arrived = hf__later(arrived, now + draw_trip(w));
    answered = hf__later(answered, arrived + draw_trip(w));
    c->wire[c->on_wire++] = (struct message){.said = *op,
                                             .client = c->index,
                                             .name = name_of(op),
                                             .op = op,
                                             .arrives_at = arrived,
                                             .answered_at = answered};
}

static const hf__store_table table = {.submit = client_submit};

/* Bytes of a broken connection are lost or arrive late. */
static void keep_late(struct world *w, struct message m) {
    if (m.executed || w->late_count == LATE || draw_chance(w, 2)) return;
    m.op = NULL;
    m.arrives_at = w->now + draw_below(w, 1500 * MS);
    w->late[w->late_count++] = m;
}

static void link_down(struct client *c) {
    struct world *w = c->world;
    tell(w, "client %d  link down", c->index);
    c->store.up = false;
    c->up_at = w->now + draw_below(w, draw_chance(w, 4) ? 2000 * MS : 50 * MS);
    hf__core_link_changed(&c->core, w->now);
    size_t count = c->on_wire;
    c->on_wire = 0;
    for (size_t i = 0; i < count; i++) {
        keep_late(w, c->wire[i]);
        c->wire[i].op->result = HF_UNREACHABLE;
        c->wire[i].op->outcome_unknown = true;
        c->done[c->done_count++] = c->wire[i].op;
    }
}

static void link_up(struct client *c) {
    tell(c->world, "client %d  link up", c->index);
    c->store.up = true;
    c->store.link++;
    hf__core_link_changed(&c->core, c->world->now);
}

static void take_answer(struct client *c) {
    struct message m = c->wire[0];
    memmove(c->wire, c->wire + 1, --c->on_wire * sizeof *c->wire);
    hf__op *op = m.op;
    op->result = m.said.result;
    op->token = m.said.token;
    op->retry_ms = m.said.retry_ms;
    op->outcome_unknown = false;
    c->done[c->done_count++] = op;
    trace_op(c->world, "answer", c->index, op);
}

/* ---- Invariants at every moment ---- */

/* Returns true if the client knows that this acquire may be held. */
static bool client_knows(const struct client *c, const char *name, uint64_t acquire_id) {
    const hf__entry *e = kit_entry(&c->core, name);
    if (!e) return false;
    if (e->ownership && e->ownership->acquire_id == acquire_id) return true;
    if (e->pending_release >= acquire_id || (e->busy && e->op.acquire_id >= acquire_id))
        return true;
    for (const hf__wait *it = e->waits.first; it; it = it->link.next)
        if (it->acquire_id == acquire_id) return true;
    return false;
}

static bool was_broken(const struct lock *l, uint64_t token) {
    for (size_t i = 0; i < BROKEN; i++)
        if (l->broken[i] == token) return true;
    return false;
}

static void check_hold(struct world *w, const struct held_slot *h) {
    if (!h->hold || !hf__ownership_valid(h->hold->ownership, w->now)) return;
    const struct lock *l = &w->locks[h->name];
    if (was_broken(l, h->hold->ownership->token)) return;
    CHECK(w, is_held_by(w, l, h->client, h->hold->ownership->acquire_id));
    CHECK(w, l->token == h->hold->ownership->token);
}

/* A hold that is valid by its own deadline is also valid in the server, so no two are. And (5) a
   client knows every hold that the server has it down for. */
static void check_world(struct world *w) {
    for (size_t i = 0; i < HOLDS; i++) check_hold(w, &w->holds[i]);
    for (int n = 0; n < NAMES; n++) {
        const struct lock *l = &w->locks[n];
        if (!is_held(w, l) || l->stray ||
            client_knows(&w->clients[l->client], names[n], l->acquire_id))
            continue;
        t_fail("seed %llu at %lld us: the server has %s for client %d, acquire id %llu, "
               "but the client does not know",
               (unsigned long long)w->seed, (long long)w->now / 1000, names[n], l->client,
               (unsigned long long)l->acquire_id);
    }
}

/* ---- Scheduler ---- */

static void enter_hold(struct world *w, size_t i) {
    kit_wait *wait = &w->waits[i];
    struct lock *l = &w->locks[w->wait_name[i]];
    uint64_t token = wait->wait.handle->ownership->token;
    size_t slot = 0;
    while (slot < HOLDS && w->holds[slot].hold) slot++;
    CHECK(w, slot < HOLDS);
    w->holds[slot] = (struct held_slot){
        .hold = wait->wait.handle, .client = w->wait_client[i], .name = w->wait_name[i]};
    CHECK(w, token >= l->entered || was_broken(l, token)); /* equal: re-entered */
    if (token > l->entered) l->entered = token;
    w->entered++;
}

static void free_finished_waits(struct world *w) {
    for (size_t i = 0; i < WAITS; i++) {
        if (!w->wait_used[i] || !w->waits[i].outcome.times) continue;
        w->wait_used[i] = false;
        tell(w, "client %d  wait for %s: %s", w->wait_client[i], names[w->wait_name[i]],
             hf_result_name(w->waits[i].outcome.result));
        if (w->waits[i].outcome.result == HF_OK) enter_hold(w, i);
        kit_wait_fini(&w->waits[i]);
    }
}

static void run_core(struct client *c) {
    struct world *w = c->world;
    hf__core_tick(&c->core, w->now);
    for (size_t i = 0; i < c->done_count; i++) hf__core_complete(&c->core, c->done[i], w->now);
    c->done_count = 0;
    kit_collect(&c->core, w->now);
    w->lost += kit_take_lost(&c->core);
}

static void process_clients(struct world *w) {
    for (int i = 0; i < CLIENTS; i++) run_core(&w->clients[i]);
    free_finished_waits(w);
    check_world(w);
}

/* ---- Time ---- */

static hf__time client_due(const struct client *c) {
    hf__time due = hf__core_due(&c->core);
    if (!c->store.up) return hf__sooner(due, c->up_at);
    for (size_t i = 0; i < c->on_wire; i++) {
        const struct message *m = &c->wire[i];
        due = hf__sooner(due, m->executed ? m->answered_at : m->arrives_at);
    }
    if (c->on_wire) due = hf__sooner(due, hf__after_ms(c->wire[0].op->sent_at, COMMAND_MS));
    return due;
}

static hf__time next_due(const struct world *w) {
    hf__time due = HF__NEVER;
    for (int i = 0; i < CLIENTS; i++) due = hf__sooner(due, client_due(&w->clients[i]));
    for (size_t i = 0; i < w->late_count; i++) due = hf__sooner(due, w->late[i].arrives_at);
    for (size_t i = 0; i < WAITS; i++)
        if (w->wait_used[i])
            due = hf__sooner(
                due, hf__wait_until(&w->clients[w->wait_client[i]].core, &w->waits[i].wait));
    return due;
}

static void deliver_due(struct client *c) {
    struct world *w = c->world;
    if (!c->store.up) {
        if (w->now >= c->up_at) link_up(c);
        return;
    }
    for (size_t i = 0; i < c->on_wire; i++)
        if (!c->wire[i].executed && w->now >= c->wire[i].arrives_at) serve_request(w, &c->wire[i]);
    while (c->on_wire && c->wire[0].executed && w->now >= c->wire[0].answered_at) take_answer(c);
    if (c->on_wire && w->now >= hf__after_ms(c->wire[0].op->sent_at, COMMAND_MS)) link_down(c);
}

static void late_arrivals(struct world *w) {
    for (size_t i = 0; i < w->late_count;) {
        if (w->now < w->late[i].arrives_at) {
            i++;
            continue;
        }
        serve_request(w, &w->late[i]);
        w->late[i] = w->late[--w->late_count];
    }
}

static void give_up_due(struct world *w) {
    for (size_t i = 0; i < WAITS; i++) {
        hf__core *core = &w->clients[w->wait_client[i]].core;
        if (!w->wait_used[i] || w->waits[i].outcome.times) continue;
        if (w->now < hf__wait_until(core, &w->waits[i].wait)) continue;
        hf__core_give_up(&w->waits[i].wait, HF_TIMEOUT, w->now);
        kit_collect(core, w->now);
    }
}

static void advance_time(struct world *w, hf__time to) {
    w->now = hf__later(w->now, to);
    late_arrivals(w);
    for (int i = 0; i < CLIENTS; i++) deliver_due(&w->clients[i]);
    process_clients(w);
    give_up_due(w);
    process_clients(w);
}

/* ---- Actions of callers ---- */

static void begin_acquire(struct world *w) {
    size_t i = 0;
    while (i < WAITS && w->wait_used[i]) i++;
    if (i == WAITS) return;
    static const int64_t leases[] = {60, 200, 1000};
    kit_wait *wait = &w->waits[i];
    int64_t wait_ms = draw_chance(w, 3)   ? 0
                      : draw_chance(w, 3) ? HF_FOREVER
                                          : 1 + draw_below(w, 800);
    kit_wait_init(wait, 1 + (uint64_t)draw_below(w, OWNERS), wait_ms, leases[draw_below(w, 3)],
                  w->now);
    if (draw_chance(w, 6)) wait->wait.flags |= HF_NO_RENEW;
    if (draw_chance(w, 6)) wait->wait.flags |= HF_NOT_REENTRANT;
    if (draw_chance(w, 6)) wait->wait.max_hold_ms = 1 + draw_below(w, 1500);
    w->wait_client[i] = (int)draw_below(w, CLIENTS);
    w->wait_name[i] = (int)draw_below(w, NAMES);
    w->wait_used[i] = true;
    hf__core *core = &w->clients[w->wait_client[i]].core;
    hf__core_acquire(core, &wait->wait, names[w->wait_name[i]], 1, w->now);
}

static void collect_releases(struct world *w) {
    for (size_t i = 0; i < HOLDS; i++)
        if (w->release_used[i] && w->releases[i].outcome.times) w->release_used[i] = false;
}

static void release_slot(struct world *w, struct held_slot *h) {
    hf__core *core = &w->clients[h->client].core;
    collect_releases(w);
    size_t i = 0;
    while (i < HOLDS && w->release_used[i]) i++;
    hf__call *call = NULL;
    if (i < HOLDS) {
        w->release_used[i] = true;
        call = &kit_call_init(&w->releases[i])->call;
    }
    tell(w, "client %d  release of %s", h->client, names[h->name]);
    hf__core_release(core, h->hold, call, w->now);
    kit_hold_free(h->hold);
    h->hold = NULL;
}

/* Returns a held slot, or NULL. A slot with an extend in progress is not released. */
static struct held_slot *some_hold(struct world *w) {
    struct held_slot *h = &w->holds[draw_below(w, HOLDS)];
    if (!h->hold) return NULL;
    if (h->extending && h->extend.outcome.times) h->extending = false;
    return h->extending ? NULL : h;
}

static void begin_release(struct world *w) {
    struct held_slot *h = some_hold(w);
    if (h) release_slot(w, h);
}

static void begin_extend(struct world *w) {
    struct held_slot *h = some_hold(w);
    if (!h) return;
    h->extending = true;
    hf__core_extend(&w->clients[h->client].core, h->hold, 50 + draw_below(w, 2000),
                    &kit_call_init(&h->extend)->call, w->now);
}

static void cancel_wait(struct world *w) {
    size_t i = (size_t)draw_below(w, WAITS);
    if (w->wait_used[i] && !w->waits[i].outcome.times)
        hf__core_give_up(&w->waits[i].wait, HF_CANCELLED, w->now);
}

/* The holder learns of it with its next renewal. Until then it may believe that it holds. */
static void operator_breaks(struct world *w) {
    struct lock *l = &w->locks[draw_below(w, NAMES)];
    if (!is_held(w, l)) return;
    tell(w, "broken  %s", names[l - w->locks]);
    l->broken[l->broken_count++ % BROKEN] = l->token;
    l->exposed = true;
    l->client = -1;
}

static void act_randomly(struct world *w) {
    int64_t what = draw_below(w, 100);
    struct client *c = &w->clients[draw_below(w, CLIENTS)];
    if (what < 25)
        begin_acquire(w);
    else if (what < 50)
        begin_release(w);
    else if (what < 60)
        begin_extend(w);
    else if (what < 65)
        cancel_wait(w);
    else if (what < 67)
        operator_breaks(w);
    else if (what < 70 && c->store.up)
        link_down(c);
    process_clients(w);
    if (what >= 30) {
        hf__time due = next_due(w), step = w->now + draw_below(w, 20 * MS);
        advance_time(w, draw_chance(w, 3) ? step : hf__sooner(due, w->now + 100 * MS));
    }
}

/* ---- A run ---- */

static void begin_world(struct world *w, uint64_t seed) {
    static const hf__core_config config = {
        .lease_ms = 1000, .command_timeout_ms = COMMAND_MS, .outage_ms = OUTAGE_MS};
    memset(w, 0, sizeof *w);
    w->seed = seed;
    w->rand.state = seed;
    w->now = HF__SEC + draw_below(w, 1000 * MS);
    w->drift = (int)draw_below(w, 19) - 9;
    for (int n = 0; n < NAMES; n++) w->locks[n].client = -1;
    for (int i = 0; i < CLIENTS; i++) {
        struct client *c = &w->clients[i];
        c->index = i;
        c->world = w;
        c->store = (hf__store){.table = &table, .link = 1, .up = true, .expires = true};
        hf__core_init(&c->core, &c->store, &config, seed + (uint64_t)i);
    }
}

static bool is_drained(const struct world *w) {
    for (int i = 0; i < CLIENTS; i++)
        if (w->clients[i].core.entries.count || w->clients[i].on_wire) return false;
    return w->late_count == 0;
}

static void run_dry(struct world *w) {
    for (int events = 0; !is_drained(w); events++) {
        CHECK(w, events < 100000);
        hf__time due = next_due(w);
        CHECK(w, due != HF__NEVER);
        advance_time(w, due);
    }
}

/* In some runs callers release everything, in others the client is closed while they hold. */
static void end_politely(struct world *w) {
    for (size_t i = 0; i < WAITS; i++)
        if (w->wait_used[i] && !w->waits[i].outcome.times)
            hf__core_give_up(&w->waits[i].wait, HF_CANCELLED, w->now);
    process_clients(w);
    for (size_t i = 0; i < HOLDS; i++)
        if (w->holds[i].hold) release_slot(w, &w->holds[i]);
    process_clients(w);
}

static void end_by_closing(struct world *w) {
    for (int i = 0; i < CLIENTS; i++) {
        struct client *c = &w->clients[i];
        hf__core_close(&c->core, &kit_call_init(&c->close)->call, w->now);
    }
    process_clients(w);
}

static void check_end(struct world *w, bool closed) {
    for (int i = 0; i < CLIENTS; i++) {
        struct client *c = &w->clients[i];
        CHECK(w, !closed || c->close.outcome.times == 1);
        CHECK(w, c->core.stats.held == 0);
        CHECK(w, c->core.stats.waiting == 0);
        CHECK(w, c->core.timers.root == NULL);
        CHECK(w, !c->core.lost.last && !c->core.finished_calls.last);
        hf__core_fini(&c->core);
    }
    for (size_t i = 0; i < WAITS; i++) CHECK(w, !w->wait_used[i]);
    collect_releases(w);
    for (size_t i = 0; i < HOLDS; i++) {
        CHECK(w, !w->release_used[i]);
        CHECK(w, !w->holds[i].extending || w->holds[i].extend.outcome.times == 1);
        if (w->holds[i].hold) kit_hold_free(w->holds[i].hold);
    }
    for (int n = 0; n < NAMES; n++) CHECK(w, w->locks[n].stray || !is_held(w, &w->locks[n]));
}

static void run_seed(struct world *w, uint64_t seed) {
    begin_world(w, seed);
    for (int i = 0; i < STEPS; i++) act_randomly(w);
    w->calm = true;
    bool close = draw_chance(w, 2);
    if (close)
        end_by_closing(w);
    else
        end_politely(w);
    run_dry(w);
    check_end(w, close);
}

static void test_random_schedules(void **state) {
    (void)state;
    static struct world w;
    long entered = 0, lost = 0;
    uint64_t first = only_seed ? only_seed : 1, last = only_seed ? only_seed : SEEDS;
    for (uint64_t seed = first; seed <= last; seed++) {
        run_seed(&w, seed);
        entered += w.entered;
        lost += w.lost;
    }
    print_message("%ld entered, %ld lost\n", entered, lost);
    assert_true(entered > 0);
}

int main(int argc, char **argv) {
    if (argc > 1) only_seed = strtoull(argv[1], NULL, 10);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_schedules)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
