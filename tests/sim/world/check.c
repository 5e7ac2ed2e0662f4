/* SPDX-License-Identifier: Apache-2.0 */
#include "world/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lease.h"
#include "world/client.h"
#include "world/kinds.h"
#include "world/many.h"
#include "world/order.h"
#include "world/probe.h"
#include "world/queue.h"
#include "world/server.h"

/* The sum of steps that every margin absorbs, besides drift and the rounding of milliseconds. */
#define STEPS_IN_MARGIN_US 500

void sim_checks_init(sim_world *w) {
    w->checks = (sim_checks){0};
}

static void free_claim(sim_claim *claim) {
    hf__ownership_unref(claim->own);
    free(claim);
}

void sim_checks_fini(sim_world *w) {
    while (w->checks.claims) {
        sim_claim *claim = w->checks.claims;
        w->checks.claims = claim->next;
        free_claim(claim);
    }
}

/* ---- Excuses ---- */

void sim_checks_data_lost(sim_world *w, int name) {
    w->checks.data_lost = w->checks.stale = true;
    for (int i = 0; i < w->plan.names; i++) {
        if (name != SIM_ANY && name != i) continue;
        w->checks.names[i].lost_at = w->now;
        w->checks.names[i].exposed = true;
        sim_queue_lost(w, i);
    }
    for (sim_claim *claim = w->checks.claims; claim; claim = claim->next)
        if (name == SIM_ANY || name == claim->name) claim->empty = true;
}

void sim_checks_stepped(sim_world *w, int64_t by_us) {
    w->checks.stepped = w->checks.stale = true;
    if (by_us < 0) w->checks.set_back = true;
    if (by_us > 0) w->checks.small_steps += by_us;
    if (w->checks.small_steps <= STEPS_IN_MARGIN_US) return;
    w->checks.step_at = w->now;
    w->checks.small_steps = 0;
}

void sim_checks_note_broken(sim_world *w, int name, uint64_t token) {
    sim_name *n = &w->checks.names[name];
    n->broken[n->broken_count++ % SIM_BROKEN] = token;
}

static void note_broken(sim_world *w, int name, uint64_t token) {
    sim_name *n = &w->checks.names[name];
    sim_checks_note_broken(w, name, token);
    n->exposed = true;
    if (sim_kinds_name(w, name)) sim_kinds_broken(w, name);
    for (sim_claim *claim = w->checks.claims; claim; claim = claim->next)
        if (claim->name == name && claim->own->token == token) claim->empty = true;
}

static bool was_broken(const sim_name *n, uint64_t token) {
    for (size_t i = 0; i < SIM_BROKEN; i++)
        if (n->broken[i] == token) return true;
    return false;
}

bool sim_checks_excused(const sim_world *w, const sim_claim *claim) {
    return claim->empty || (w->checks.step_at && w->checks.step_at >= claim->basis);
}

/* ---- Claims ---- */

bool sim_checks_good(const sim_claim *claim) {
    return hf__ownership_valid(claim->own, sim_client_now(claim->client));
}

/* If the deadline has moved, the request behind it was sent at most two command timeouts before
   the client last ran. */
static void refresh_claim(sim_world *w, sim_claim *claim) {
    hf__time deadline = atomic_load(&claim->own->deadline);
    if (deadline == claim->deadline) return;
    claim->deadline = deadline;
    claim->basis = claim->client->ran_at - 2 * w->plan.command_ms * HF__MS;
}

static sim_claim *find_claim(const sim_world *w, const hf__ownership *ownership) {
    for (sim_claim *claim = w->checks.claims; claim; claim = claim->next)
        if (claim->own == ownership) return claim;
    return NULL;
}

static void check_pair(sim_world *w, const sim_claim *a, const sim_claim *b) {
    if (a->name != b->name || !sim_checks_good(b) || sim_kinds_agree(a, b)) return;
    if (sim_checks_excused(w, a) || sim_checks_excused(w, b)) {
        w->checks.counts.excused++;
        return;
    }
    sim_fail(w, a->name,
             "two clients hold %s: client %d with token %" PRIu64
             " and client %d with token %" PRIu64,
             sim_names[a->name], b->client->slot, b->own->token, a->client->slot, a->own->token);
}

static void check_server_has(sim_world *w, const sim_claim *claim) {
    const sim_seen *seen = &w->checks.names[claim->name].seen;
    if (sim_checks_excused(w, claim)) return;
    if (seen->held && sim_server_ms(w) <= seen->expires_ms && seen->slot == claim->client->slot &&
        seen->number == claim->client->number && seen->acquire_id == claim->own->acquire_id &&
        seen->token == claim->own->token)
        return;
    sim_fail(w, claim->name,
             "client %d holds %s, acquire id %" PRIu64 ", token %" PRIu64
             ", for %.3f ms more, but not in the server's data",
             claim->client->slot, sim_names[claim->name], claim->own->acquire_id, claim->own->token,
             (double)(atomic_load(&claim->own->deadline) - sim_client_now(claim->client)) / HF__MS);
}

/* The server's entry count must match the client's, once the store has confirmed it. */
static void check_count(sim_world *w, const sim_claim *claim) {
    const hf__ownership *ownership = claim->own;
    char owner[HF__OWNER_TEXT];
    if (w->checks.names[claim->name].miscounted || sim_checks_excused(w, claim)) return;
    if (!ownership->entry || ownership->entry->busy ||
        ownership->entry->grant->posted_count != ownership->count ||
        ownership->entry->grant->renew_tries)
        return;
    hf__owner_text(owner, ownership->owner);
    int64_t count = sim_probe_count(w, claim->name, claim->client->who.client, owner);
    if (count == ownership->count) return;
    sim_fail(w, claim->name, "client %d entered %s %u times, but the server's count is %" PRId64,
             claim->client->slot, sim_names[claim->name], ownership->count, count);
}

/* Fail if a client still holds the lock after it has read every answer, including the denial. */
static void check_denied(sim_world *w, const sim_claim *claim) {
    const hf__session *session = &claim->client->store.session;
    if (!claim->denied_on || session->link != claim->denied_on || session->in_flight) return;
    if (session->state != HF__READY || session->completed.last) return;
    sim_fail(w, claim->name, "client %d was told that it does not hold %s, but still holds it",
             claim->client->slot, sim_names[claim->name]);
}

static void check_claims(sim_world *w, bool looked) {
    for (sim_claim **link = &w->checks.claims; *link;) {
        sim_claim *claim = *link;
        if (atomic_load(&claim->own->state) != HF__HELD) {
            *link = claim->next;
            free_claim(claim);
            continue;
        }
        refresh_claim(w, claim);
        if (sim_checks_good(claim)) {
            if (sim_kinds_name(w, claim->name))
                sim_kinds_claim(w, claim, looked);
            else
                check_server_has(w, claim);
            check_denied(w, claim);
            if (looked && !sim_kinds_name(w, claim->name)) check_count(w, claim);
            for (const sim_claim *other = claim->next; other; other = other->next)
                check_pair(w, claim, other);
        }
        link = &claim->next;
    }
}

void sim_checks_client_gone(sim_world *w, const sim_client *c) {
    for (sim_claim **link = &w->checks.claims; *link;) {
        sim_claim *claim = *link;
        if (claim->client != c) {
            link = &claim->next;
            continue;
        }
        *link = claim->next;
        free_claim(claim);
    }
}

/* ---- Calls that ended ---- */

uint64_t sim_checks_arrival(sim_world *w) {
    return ++w->checks.arrivals;
}

/* No other caller of the client may have waited longer, except callers that re-enter together
   with the one that did. */
static void check_order(sim_world *w, const sim_caller *t) {
    const sim_client *c = t->client;
    if (!t->wait.by_acquire_id.key) return; /* it never sent an acquire */
    for (int i = 0; i < c->caller_count; i++) {
        const sim_caller *other = &c->callers[i];
        if (other->doing != SIM_ACQUIRING || other->name != t->name || other->wait.call.done ||
            other->arrived >= t->arrived)
            continue;
        sim_fail(w, t->name, "client %d.%d was granted %s before %d.%d, which came first", c->slot,
                 t->index, sim_names[t->name], c->slot, other->index);
    }
}

/* Fail if the client has read a busy answer that is newer than the grant it entered on. */
static void check_busy_answer(sim_world *w, const sim_caller *t, const hf__ownership *ownership) {
    const sim_client *c = t->client;
    const sim_busy_answer *answer = &w->checks.names[t->name].busy_answers[c->slot];
    if (answer->number != c->number || answer->acquire_id != ownership->acquire_id ||
        answer->token < ownership->token)
        return;
    if (answer->link != c->store.session.link || c->store.session.in_flight) return;
    if (w->checks.data_lost && w->checks.set_back) return; /* tokens may fall */
    sim_fail(w, t->name,
             "client %d entered %s under token %" PRIu64
             " after it was told that another client holds it",
             c->slot, sim_names[t->name], ownership->token);
}

/* An ownership that is not renewed lasts for its whole lease from the start. */
static void check_lasts(sim_world *w, const sim_caller *t, const hf__ownership *ownership) {
    if (!(ownership->flags & HF_NO_RENEW) || !ownership->entry) return;
    hf__time lasts =
        hf__lease_deadline(ownership->entry->held_since, ownership->entry->grant->lease_ms);
    if (atomic_load(&ownership->deadline) < hf__sooner(lasts, ownership->max_hold_until))
        sim_fail(w, t->name, "client %d entered %s without renewal for less than its lease",
                 t->client->slot, sim_names[t->name]);
}

void sim_checks_entered(sim_world *w, const sim_caller *t) {
    hf__ownership *ownership = t->wait.handle->ownership;
    sim_name *n = &w->checks.names[t->name];
    bool of_many =
        t->doing == SIM_MULTI_ACQUIRING; /* its time of arrival and of grant are unknown */
    if (!sim_kinds_name(w, t->name) && !of_many) check_order(w, t);
    if (find_claim(w, ownership)) {
        w->checks.counts.reentered++;
        if (sim_kinds_name(w, t->name)) sim_kinds_joined(w, t);
        return;
    }
    w->checks.counts.entered++;
    if (!sim_kinds_name(w, t->name) && !of_many) sim_order_entered(w, t->client, t->name);
    sim_claim *claim = rm_alloc(sizeof *claim);
    hf__time requested_at = ownership->entry ? ownership->entry->held_since : t->began;
    *claim = (sim_claim){.next = w->checks.claims,
                         .client = t->client,
                         .own = hf__ownership_ref(ownership),
                         .name = t->name,
                         .weight = t->wait.permits,
                         .capacity = t->wait.capacity,
                         .requested_at = sim_moment(&t->client->clock, requested_at),
                         .deadline = atomic_load(&ownership->deadline)};
    claim->basis = claim->requested_at;
    claim->empty =
        was_broken(n, ownership->token) || (n->lost_at && n->lost_at >= claim->requested_at);
    w->checks.claims = claim;
    check_busy_answer(w, t, ownership);
    if (!of_many) check_lasts(w, t, ownership);
    if (sim_kinds_name(w, t->name)) {
        sim_kinds_entered(w, claim);
        return;
    }
    bool may_fall = sim_checks_excused(w, claim) || (w->checks.data_lost && w->checks.set_back);
    if (ownership->token <= n->entered && !may_fall)
        sim_fail(w, t->name, "%s was entered under token %" PRIu64 ", which is not above %" PRIu64,
                 sim_names[t->name], ownership->token, n->entered);
    if (ownership->token > n->entered) n->entered = ownership->token;
}

/* Returns true if the server has the lock for this acquire id of the client. */
static bool server_has(sim_world *w, const sim_client *c, int name, uint64_t acquire_id) {
    if (sim_kinds_name(w, name)) return sim_kinds_has(w, c, name, acquire_id);
    sim_seen seen = sim_probe(w, name);
    return seen.held && seen.slot == c->slot && seen.number == c->number &&
           seen.acquire_id == acquire_id;
}

/* Fail if the caller was told that the store is unavailable while its own client holds the lock.
   The connection must have been up long enough to confirm the hold: then the hold is the true
   reason for the refusal. */
static void check_away(sim_world *w, const sim_caller *t) {
    const sim_client *c = t->client;
    const hf__entry *e = sim_client_entry(c, t->name);
    hf__time now = sim_client_now(c);
    if (!e || !e->ownership || !hf__ownership_valid(e->ownership, now) || e->grant->renew_tries)
        return;
    if (!c->store.store.up || now - c->up_since < 2 * w->plan.command_ms * HF__MS) return;
    sim_fail(w, t->name,
             "client %d.%d was told that the store is unavailable, but its client holds %s",
             c->slot, t->index, sim_names[t->name]);
}

void sim_checks_refused(sim_world *w, const sim_caller *t) {
    w->checks.counts.refused++;
    if (t->wait.call.result != HF_UNREACHABLE) return;
    if (sim_kinds_name(w, t->name) && sim_client_side(t->client, t->name, t->last_acquire_id))
        return;
    if (!sim_kinds_name(w, t->name)) check_away(w, t);
    if (w->checks.names[t->name].stray) return;
    if (t->last_acquire_id && server_has(w, t->client, t->name, t->last_acquire_id))
        sim_fail(
            w, t->name,
            "client %d.%d was told that the store is unavailable, but the store has granted %s",
            t->client->slot, t->index, sim_names[t->name]);
    w->checks.names[t->name].refused[t->client->slot] =
        (sim_busy_answer){t->client->number, t->last_acquire_id, 0, 0};
}

/* Nobody else may have been granted the lock before it was released. */
static void check_not_taken(sim_world *w, const sim_caller *t) {
    const sim_name *n = &w->checks.names[t->name];
    const sim_client *c = t->client;
    for (size_t i = 0; i < SIM_TAKEN; i++) {
        const sim_seen *lost = &n->taken[i];
        if (lost->held && lost->slot == c->slot && lost->number == c->number &&
            lost->acquire_id == t->released_id && lost->token == t->hold->hold->ownership->token)
            sim_fail(w, t->name,
                     "client %d.%d has released %s, but another client was granted it before",
                     c->slot, t->index, sim_names[t->name]);
    }
}

void sim_checks_released(sim_world *w, const sim_caller *t) {
    if (t->call.result != HF_OK || !t->released_id) return;
    if (!sim_kinds_name(w, t->name)) check_not_taken(w, t);
    if (w->checks.names[t->name].stray) return;
    if (w->checks.stepped || w->checks.names[t->name].exposed) return;
    if (server_has(w, t->client, t->name, t->released_id))
        sim_fail(w, t->name, "client %d.%d has released %s, but the server still has it",
                 t->client->slot, t->index, sim_names[t->name]);
}

void sim_checks_extended(sim_world *w, const sim_caller *t) {
    const hf__ownership *ownership = t->hold->hold->ownership;
    if (t->call.result != HF_OK) return;
    hf__time lasts =
        hf__sooner(hf__lease_deadline(t->began, t->lease_ms), ownership->max_hold_until);
    if (atomic_load(&ownership->deadline) < lasts)
        sim_fail(w, t->name, "client %d.%d has extended %s, but its lease is no longer",
                 t->client->slot, t->index, sim_names[t->name]);
}

void sim_checks_lost(sim_world *w, const sim_client *c, const hf__ownership *ownership) {
    sim_claim *claim = find_claim(w, ownership);
    w->checks.counts.lost++;
    SIM_LOG(w, claim ? claim->name : SIM_ANY, "client %d  loses %s, token %" PRIu64 ": %s", c->slot,
            ownership->name, ownership->token, atomic_load(&ownership->lost_reason));
    SIM_CHECK(w, SIM_ANY, claim && !claim->loss_reported);
    SIM_CHECK(w, claim->name, atomic_load(&ownership->state) == HF__LOST);
    claim->loss_reported = true;
}

/* ---- The server ---- */

bool sim_check_known(const sim_client *c, int name, uint64_t acquire_id) {
    const hf__entry *e = sim_client_entry(c, name);
    if (!e) return false;
    if (e->ownership && e->ownership->acquire_id == acquire_id) return true;
    if (e->pending_release >= acquire_id) return true;
    if (e->busy && (e->op.acquire_id >= acquire_id ||
                    (e->op.next_acquire && e->op.next_acquire->acquire_id >= acquire_id)))
        return true;
    for (const hf__wait *wait = e->waits.first; wait; wait = wait->link.next)
        if (wait->acquire_id == acquire_id) return true;
    return false;
}

static void check_known(sim_world *w, int name) {
    const sim_name *n = &w->checks.names[name];
    const sim_client *c = w->clients[n->seen.slot];
    if (!n->seen.held || n->stray || w->checks.stepped) return;
    if (sim_server_ms(w) > n->seen.expires_ms) return; /* the view is older than the lease's end */
    if (!c || c->life != SIM_RUNNING || c->number != n->seen.number) return;
    if (!sim_check_known(c, name, n->seen.acquire_id))
        sim_fail(w, name,
                 "the server has %s for client %d, acquire id %" PRIu64
                 ", but the client does not know",
                 sim_names[name], c->slot, n->seen.acquire_id);
}

/* A new holder must have a higher token than all before it. */
static void check_grant(sim_world *w, int name) {
    sim_name *n = &w->checks.names[name];
    if (!n->seen.held || n->seen.token == n->granted) return;
    if (n->seen.token < n->granted && !(w->checks.data_lost && w->checks.set_back))
        sim_fail(w, name, "%s was granted with token %" PRIu64 ", which is not above %" PRIu64,
                 sim_names[name], n->seen.token, n->granted);
    n->granted = n->seen.token;
}

static bool same_acquire(const sim_seen *a, const sim_seen *b) {
    return a->held && b->held && a->slot == b->slot && a->number == b->number &&
           a->acquire_id == b->acquire_id;
}

static bool same_holder(const sim_seen *a, const sim_seen *b) {
    return same_acquire(a, b) && a->token == b->token;
}

/* A holder that ended without its own release has lost the lock to the next client that is
   granted it. */
static void note_taken(sim_name *n, const sim_seen *before, const rm_ran *ran) {
    bool same = same_holder(before, &n->seen);
    if (before->held && !same) n->gone = *before;
    if (n->gone.held && ran && sim_probe_released(ran, &n->gone)) n->gone.held = false;
    if (same || !n->seen.held) return;
    if (n->gone.held) n->taken[n->taken_count++ % SIM_TAKEN] = n->gone;
    n->gone.held = false;
    /* Tokens may fall if data is lost and the clock is set back. Then the same holder may have
       the lock again. */
    for (size_t i = 0; i < SIM_TAKEN; i++)
        if (same_holder(&n->taken[i], &n->seen)) n->taken[i].held = false;
}

/* `ran` is the script that may have changed the name, or NULL if no script ran. */
static void look_at_name(sim_world *w, int name, const rm_ran *ran) {
    if (sim_kinds_name(w, name)) {
        sim_kinds_reread(w, name);
        return;
    }
    sim_name *n = &w->checks.names[name];
    sim_seen before = n->seen;
    n->seen = sim_probe(w, name);
    note_taken(n, &before, ran);
    check_grant(w, name);
}

static void look_at_server(sim_world *w) {
    for (int name = 0; name < w->plan.names; name++) look_at_name(w, name, NULL);
    w->checks.stale = false;
}

void sim_checks_look(sim_world *w) {
    bool looked = w->checks.stale;
    if (looked) look_at_server(w);
    check_claims(w, looked);
    for (int name = 0; name < w->plan.names; name++)
        if (sim_kinds_name(w, name))
            sim_kinds_look(w, name);
        else
            check_known(w, name);
    if (w->plan.fair) sim_order_look(w);
    sim_queue_look(w);
}

/* ---- Scripts that ran ---- */

static void log_ran(sim_world *w, const rm_ran *ran, int name, bool late) {
    const hf__script *script = sim_probe_script(ran->sha1);
    const sim_wire *wire = ran->conn->owner;
    char args[512] = "", answer[128];
    size_t used = 0, length = 0;
    for (size_t i = 0; i < ran->arg_count && used < sizeof args; i++)
        used += (size_t)snprintf(args + used, sizeof args - used, " %s", ran->args[i].at);
    for (; length < ran->answer.length && length < sizeof answer - 1; length++)
        answer[length] = ran->answer.at[length] < ' ' ? ' ' : ran->answer.at[length];
    answer[length] = '\0';
    sim_trace_add(&w->trace, w->now, name, "server  wire %d%s  %s%s -> %s", wire->number,
                  late ? ", late" : "", script ? script->name : ran->sha1, args, answer);
}

static void check_keys(sim_world *w, const rm_ran *ran) {
    for (size_t i = 0; i < ran->key_count; i++) {
        bool is_lock;
        int name = sim_probe_name(ran->keys[i], &is_lock);
        const rm_key *key = rm_keys_find(&w->server.db[0], ran->keys[i], sim_server_ms(w));
        if (!key) continue;
        if (key->expires_ms == RM_FOREVER) sim_fail(w, name, "%s never expires", key->mapped.key);
        int64_t left = key->expires_ms - sim_server_ms(w);
        if (is_lock && left > w->plan.longest_ms && !w->checks.stepped)
            sim_fail(w, name, "%s expires only in %" PRId64 " ms", key->mapped.key, left);
    }
}

/* A delayed script may hold a name, and its client cannot know of that. The script is a renewal of
   a hold that the client thinks is over, or an acquire older than a break or a loss of data. */
static void look_for_stray(sim_world *w, const rm_ran *ran, int name, bool late,
                           sim_effect effect) {
    sim_name *n = &w->checks.names[name];
    sim_seen before = n->seen, *stray_acquire = &n->stray_acquire;
    if (late && n->exposed && effect == SIM_BUSY)
        stray_acquire->held = sim_probe_actor(ran, name, &stray_acquire->slot,
                                              &stray_acquire->number, &stray_acquire->acquire_id);
    look_at_name(w, name, ran);
    if (!n->seen.held) return;
    if (same_holder(&before, &n->seen)) {
        n->stray |= late && n->seen.expires_ms > before.expires_ms;
        n->miscounted =
            late || (n->miscounted && effect != SIM_KEPT); /* an old count, for a while */
        return;
    }
    n->stray = (late && n->exposed) || same_acquire(stray_acquire, &n->seen);
    n->miscounted = false;
    if (!late) n->exposed = false;
}

static void note_denied(sim_world *w, const rm_ran *ran, int name, uint64_t token) {
    const sim_wire *wire = ran->conn->owner;
    for (sim_claim *claim = w->checks.claims; wire->link && claim; claim = claim->next)
        if (claim->client == wire->link->client && claim->name == name &&
            claim->own->token == token)
            claim->denied_on = claim->client->store.session.link;
}

/* A holder must never be told that another client holds the lock. */
static void check_busy(sim_world *w, const rm_ran *ran, int name, uint64_t acquire_id) {
    const sim_wire *wire = ran->conn->owner;
    if (!wire->link) return;
    const sim_client *c = wire->link->client;
    sim_name *n = &w->checks.names[name];
    n->busy_answers[c->slot] =
        (sim_busy_answer){c->number, acquire_id, c->store.session.link, n->granted};
    if (server_has(w, wire->link->client, name, acquire_id))
        sim_fail(w, name, "client %d holds %s, but was told that another client holds it",
                 wire->link->client->slot, sim_names[name]);
}

static sim_effect note_effect(sim_world *w, const rm_ran *ran, int name) {
    uint64_t token, wanted;
    sim_effect effect = sim_probe_effect(ran, &token, &wanted);
    if (effect == SIM_BUSY) check_busy(w, ran, name, wanted);
    if (effect == SIM_DENIED) note_denied(w, ran, name, token);
    if (effect != SIM_BROKE) return effect;
    if (wanted && wanted != token)
        sim_fail(w, name, "%s was broken under token %" PRIu64 ", not under %" PRIu64,
                 sim_names[name], token, wanted);
    note_broken(w, name, token);
    return effect;
}

/* A client that was told that the store is unavailable must hold nothing, now and later. */
static void check_refused(sim_world *w, int name, const sim_seen *before) {
    const sim_name *n = &w->checks.names[name];
    if (!n->seen.held || n->stray || same_holder(before, &n->seen)) return;
    const sim_busy_answer *refused = &n->refused[n->seen.slot];
    if (refused->number != n->seen.number || refused->acquire_id != n->seen.acquire_id) return;
    sim_fail(w, name, "client %d was told that the store is unavailable, and later was granted %s",
             n->seen.slot, sim_names[name]);
}

static void ran_with(sim_world *w, const rm_ran *ran, int name, bool late) {
    if (sim_kinds_name(w, name)) {
        sim_kinds_ran(w, ran, name, late, note_effect(w, ran, name) == SIM_KEPT);
        return;
    }
    sim_seen before = w->checks.names[name].seen;
    look_for_stray(w, ran, name, late, note_effect(w, ran, name));
    check_refused(w, name, &before);
    sim_queue_ran(w, ran, name, &before);
}

void sim_checks_ran(void *world, const rm_ran *ran) {
    sim_world *w = world;
    const sim_wire *wire = ran->conn->owner;
    bool late = !wire->link, is_lock;
    int name = ran->key_count ? sim_probe_name(ran->keys[0], &is_lock) : SIM_ANY;
    w->checks.counts.scripts++;
    w->checks.counts.late_scripts += late;
    w->checks.stale = true;
    if (w->trace.on) log_ran(w, ran, name, late);
    check_keys(w, ran);
    if (name == SIM_ANY) return;
    sim_many_ran(w, ran);
    for (size_t i = 4; sim_probe_of_many(ran) && i < ran->key_count; i += 4)
        ran_with(w, ran, sim_probe_name(ran->keys[i], &is_lock), late);
    ran_with(w, ran, name, late);
}
