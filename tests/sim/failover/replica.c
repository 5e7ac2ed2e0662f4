/* SPDX-License-Identifier: Apache-2.0 */
/* Replication: which node follows which, writes in flight between them, and promotions. */
#include <stdlib.h>

#include "failover/relay.h"
#include "model/answer.h"

#define SYNC_MOST   (200 * HF__MS) /* by then a replica has everything from a new primary */
#define NOTIFY_MOST (2 * HF__SEC)  /* by then a client that missed the message queries */
#define DEMOTE_MOST (3 * HF__SEC)
#define AGAIN       (100 * HF__MS)
#define STOP_MOST   HF__SEC

/* ---- Copies ---- */

static void copy_key(rm_keys *to, const rm_key *from) {
    rm_key *key = rm_keys_make(to, rm_key_name(from), from->type);
    key->expires_ms = from->expires_ms;
    for (size_t i = 0; i < from->count; i++) {
        rm_insert(key, i, from->items[i].text);
        if (from->type == RM_HASH) rm_set_value(key, i, from->items[i].value);
    }
}

static void copy_keys(rm_keys *to, const rm_keys *from) {
    for (const rm_key *key = NULL; (key = rm_keys_next(from, key));) copy_key(to, key);
}

static relay_copy *copy_of(const ring_node *n) {
    relay_copy *c = rm_alloc(sizeof *c);
    *c = (relay_copy){.offset = n->server.offset};
    rm_keys_init(&c->keys);
    copy_keys(&c->keys, &n->server.db[0]);
    return c;
}

static void unref_copy(relay_copy *c) {
    if (--c->refs > 0) return;
    rm_keys_fini(&c->keys);
    free(c);
}

/* ---- In flight ---- */

static void send_copy(relay_node *to, relay_copy *copy, hf__time at) {
    relay_batch *b = rm_alloc(sizeof *b);
    *b = (relay_batch){.at = at, .copy = copy};
    copy->refs++;
    if (to->last) {
        b->at = hf__later(b->at, to->last->at);
        to->last->next = b;
    } else {
        to->first = b;
    }
    to->last = b;
    ring_at(to->relay->ring, &to->arrives, to->first->at);
}

static relay_copy *pop_batch(relay_node *to) {
    relay_batch *b = to->first;
    relay_copy *copy = b->copy;
    to->first = b->next;
    if (!to->first) to->last = NULL;
    free(b);
    return copy;
}

static void drop_batches(relay_node *to) {
    while (to->first) unref_copy(pop_batch(to));
    ring_at(to->relay->ring, &to->arrives, HF__NEVER);
}

void relay_wrote(ring_node *n) {
    relay *y = n->ring->relay;
    relay_copy *copy = NULL;
    n->server.offset++;
    for (int i = 0; i < RELAY_NODES; i++) {
        relay_node *to = &y->at[i];
        if (to->follows != n->number) continue;
        if (!copy) copy = copy_of(n);
        send_copy(to, copy, hf__later(y->ring->now, to->lags_until) + ring_trip(y->ring));
    }
}

/* Old acknowledgements stay: a primary that is cut off does not know that it has no replicas. */
static void follow_primary(relay_node *n, int primary) {
    ring *r = n->relay->ring;
    drop_batches(n);
    n->follows = primary;
    n->synced = false;
    n->node->server.replica = true;
    n->relay->at[primary].acked[n->node->number] = 0;
    ring_at(r, &n->acks, HF__NEVER);
    send_copy(n, copy_of(&r->node[primary]), r->now + ring_trip(r) + ring_draw(r, SYNC_MOST));
}

void relay_resync(relay *y, int number) {
    for (int i = 0; i < RELAY_NODES; i++)
        if (y->at[i].follows == number) follow_primary(&y->at[i], number);
}

void relay_lose_some(relay *y, int number) {
    for (int i = 0; i < RELAY_NODES; i++)
        if (y->at[i].follows == number && ring_chance(y->ring, 2)) drop_batches(&y->at[i]);
}

/* ---- Answers to WAIT ---- */

static int64_t count_confirmed(const relay_node *n, uint64_t offset) {
    int64_t count = 0;
    for (int i = 0; i < RELAY_NODES; i++)
        count += i != n->node->number && n->acked[i] >= offset && n->acked[i];
    return count;
}

static void answer_wait(ring_wire *w, int64_t count) {
    w->waits = false;
    ring_at(w->node->ring, &w->waited, HF__NEVER);
    if (w->conn) rm_number(&w->conn->out, count);
}

static void time_is_up(void *arg) {
    ring_wire *w = arg;
    ring *r = w->node->ring;
    if (r->now < w->node->stopped_until) {
        ring_at(r, &w->waited, w->node->stopped_until);
        return;
    }
    answer_wait(w, count_confirmed(&r->relay->at[w->node->number], w->wait_offset));
    ring_wires_answer(w->node);
    /* Sometimes delays the requests that follow, such as a rollback. */
    if (!r->calm && ring_chance(r, 8)) ring_node_stop(w->node, ring_draw(r, STOP_MOST));
}

static void wait_for(void *arg, rm_conn *conn, int64_t replicas, int64_t timeout_ms) {
    ring_node *n = arg;
    ring_wire *w = conn->owner;
    w->waits = true;
    w->wait_for = replicas;
    w->wait_offset = conn->offset;
    w->waited = (ring_event){.fn = time_is_up, .arg = w};
    int64_t count = count_confirmed(&n->ring->relay->at[n->number], w->wait_offset);
    if (count >= replicas)
        answer_wait(w, count);
    else
        ring_at(n->ring, &w->waited, hf__after_ms(n->ring->now, timeout_ms));
}

static void answer_waits(relay_node *n) {
    for (ring_wire *w = n->node->ring->wires; w; w = w->next) {
        int64_t count = w->node == n->node && w->waits ? count_confirmed(n, w->wait_offset) : 0;
        if (count && count >= w->wait_for) answer_wait(w, count);
    }
    ring_wires_answer(n->node);
}

/* ---- Arrivals ---- */

static void send_ack(relay_node *n) {
    ring *r = n->relay->ring;
    if (hf__timer_armed(&n->acks.timer)) return;
    n->says = n->node->server.offset;
    ring_at(r, &n->acks, r->now + ring_trip(r));
}

static void receive_ack(void *arg) {
    relay_node *n = arg, *to = n->follows < 0 ? NULL : &n->relay->at[n->follows];
    if (!to || to->node->down) return;
    to->acked[n->node->number] = n->says;
    answer_waits(to);
    if (n->says < n->node->server.offset) send_ack(n);
}

static void receive_batch(void *arg) {
    relay_node *n = arg;
    ring *r = n->relay->ring;
    hf__time not_before = n->node->down ? r->now + AGAIN : n->node->stopped_until;
    if (r->now < not_before) {
        ring_at(r, &n->arrives, not_before);
        return;
    }
    relay_copy *copy = pop_batch(n);
    rm_keys_clear(&n->node->server.db[0]);
    copy_keys(&n->node->server.db[0], &copy->keys);
    n->node->server.offset = copy->offset;
    n->synced = true;
    unref_copy(copy);
    send_ack(n);
    if (n->first) ring_at(r, &n->arrives, hf__later(n->first->at, r->now));
}

/* ---- Promotion ---- */

/* The node learns which one is the primary, and closes its connections. */
static void demote_node(void *arg) {
    relay_node *n = arg;
    relay *y = n->relay;
    if (n->node->down || y->ring->now < n->node->stopped_until) {
        ring_at(y->ring, &n->follows_next, y->ring->now + AGAIN);
        return;
    }
    RING_LOG(y->ring, "node %d  follows node %d", n->node->number, y->primary);
    ring_node_break_wires(n->node);
    for (int i = 0; i < RELAY_NODES; i++) n->acked[i] = 0;
    follow_primary(n, y->primary);
}

static bool caught_up(const relay_node *n) {
    return n->synced && n->follows == n->relay->primary;
}

/* Chooses the replica with the most data; without replicas= any. */
static int choose_replica(relay *y) {
    int best = -1, first = (int)ring_draw(y->ring, RELAY_NODES);
    for (int k = 0; k < RELAY_NODES; k++) {
        int i = (first + k) % RELAY_NODES;
        const relay_node *n = &y->at[i];
        if (i == y->primary || n->node->down || !caught_up(n)) continue;
        bool more =
            best < 0 || (y->replicas && n->node->server.offset > y->at[best].node->server.offset);
        if (more) best = i;
    }
    return best;
}

static bool any_down(const relay *y) {
    for (int i = 0; i < RELAY_NODES; i++)
        if (i != y->primary && y->ring->node[i].down) return true;
    return false;
}

static void notify_clients(ring *r, hf__time within) {
    for (int i = 0; i < r->clients; i++)
        ring_at(r, &r->client[i].failover_notice, r->now + ring_draw(r, within));
}

static void promote_replica(void *arg) {
    relay *y = arg;
    ring *r = y->ring;
    int old = y->primary, new = y->replicas &&any_down(y) ? -1 : choose_replica(y);
    if (new < 0) {
        ring_at(r, &y->promotes, r->now + AGAIN);
        return;
    }
    relay_node *n = &y->at[new];
    drop_batches(n);
    ring_at(r, &n->acks, HF__NEVER);
    n->follows = -1;
    n->node->stopped_until = 0;
    n->node->server.replica = false;
    for (int i = 0; i < RELAY_NODES; i++) n->acked[i] = 0;
    RING_LOG(r, "node %d  is promoted, with %llu of %llu writes", new,
             (unsigned long long)n->node->server.offset,
             (unsigned long long)r->node[old].server.offset);
    y->primary = new;
    y->failing = false;
    for (int i = 0; i < RELAY_NODES; i++)
        if (i != new &&i != old) follow_primary(&y->at[i], new);
    ring_at(r, &y->at[old].follows_next, r->now + ring_draw(r, r->calm ? 1 : DEMOTE_MOST));
    if (!y->replicas) ring_doubt_all(r);
    notify_clients(r, r->calm ? 1 : NOTIFY_MOST);
}

void relay_fail_over(relay *y, hf__time in) {
    y->failing = true;
    ring_at(y->ring, &y->promotes, y->ring->now + in);
}

bool relay_sound(const relay *y) {
    for (int i = 0; i < RELAY_NODES; i++)
        if (y->ring->node[i].down || (i != y->primary && !caught_up(&y->at[i]))) return false;
    return !y->failing;
}

/* ---- Start and end ---- */

static void init_node(relay *y, int i) {
    relay_node *n = &y->at[i];
    *n = (relay_node){.relay = y,
                      .node = &y->ring->node[i],
                      .follows = i ? 0 : -1,
                      .synced = true,
                      .arrives = {.fn = receive_batch, .arg = n},
                      .acks = {.fn = receive_ack, .arg = n},
                      .follows_next = {.fn = demote_node, .arg = n}};
    n->node->server.replica = i > 0;
    n->node->server.wait = wait_for;
}

void relay_init(ring *r, int replicas) {
    relay *y = rm_alloc(sizeof *y);
    *y = (relay){.ring = r, .replicas = replicas, .promotes = {.fn = promote_replica, .arg = y}};
    r->relay = y;
    for (int i = 0; i < RELAY_NODES; i++) init_node(y, i);
}

void relay_calm(relay *y) {
    ring *r = y->ring;
    if (y->failing) ring_at(r, &y->promotes, r->now);
    for (int i = 0; i < RELAY_NODES; i++) {
        relay_node *n = &y->at[i];
        n->lags_until = 0;
        if (n->first) ring_at(r, &n->arrives, r->now);
        if (hf__timer_armed(&n->follows_next.timer)) ring_at(r, &n->follows_next, r->now);
    }
    notify_clients(r, 1);
}

void relay_free(relay *y) {
    for (int i = 0; i < RELAY_NODES; i++) drop_batches(&y->at[i]);
    free(y);
}
