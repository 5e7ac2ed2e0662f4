/* SPDX-License-Identifier: Apache-2.0 */
#include "world/many.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/multi.h"
#include "world/client.h"
#include "world/kinds.h"
#include "world/probe.h"

static sim_world *world_of(const sim_caller *t) {
    return t->client->world;
}

/* ---- Multi-acquire ---- */

static bool part_granted(const hf__multi_part *p) {
    return p->requested && p->wait.call.done && p->wait.call.result == HF_OK;
}

/* Draws two or three names, in sorted order. */
static unsigned draw_names(sim_world *w, int names[SIM_NAMES]) {
    int left_out = w->plan.names > 2 ? (int)sim_draw(w, 4) : SIM_NAMES;
    unsigned count = 0;
    for (int i = 0; i < w->plan.names; i++)
        if (i != left_out) names[count++] = i;
    return count;
}

static void add_part(sim_caller *t, hf__multi_part *p, int name, hf__owner owner,
                     int64_t lease_ms) {
    t->name = name;
    t->wait = (hf__wait){.owner = owner, .lease_ms = lease_ms};
    if (sim_chance(world_of(t), 10)) t->wait.flags |= HF_NOT_REENTRANT;
    sim_caller_draw_kind(t);
    t->wait.handle = calloc(1, sizeof(hf__handle));
    if (!hf__wait_prepare(&t->wait) || !t->wait.handle) abort();
    p->wait = t->wait;
    p->name = sim_names[name];
    p->length = strlen(sim_names[name]);
}

void sim_many_acquire(sim_caller *t, hf__time now) {
    sim_world *w = world_of(t);
    sim_client *c = t->client;
    unsigned count = draw_names(w, t->names);
    hf__multi_acquire *all = rm_alloc(sizeof *all + count * sizeof all->parts[0]);
    memset(all, 0, sizeof *all + count * sizeof all->parts[0]);
    bool logical = sim_chance(w, 8);
    hf__owner owner = {logical ? 1 : (uint64_t)t->index + 1, logical};
    int64_t lease_ms = w->plan.leases[sim_draw(w, SIM_LEASES)];
    int64_t wait_ms = sim_caller_draw_wait(t);
    all->multi.core = &c->core;
    all->count = count;
    all->try_once = wait_ms == 0;
    all->until = all->try_once ? HF__NEVER : hf__after_ms(now, wait_ms);
    all->no_renew = sim_chance(w, 10);
    all->max_hold_ms = sim_chance(w, 10) ? 50 + sim_draw(w, w->plan.longest_ms) : 0;
    for (unsigned i = 0; i < count; i++) add_part(t, &all->parts[i], t->names[i], owner, lease_ms);
    t->all = all;
    t->doing = SIM_MULTI_ACQUIRING;
    t->began = now;
    t->cancel_at = sim_chance(w, 8) ? now + sim_draw(w, 200 * HF__MS) : HF__NEVER;
    memset(t->entered, 0, sizeof t->entered);
    SIM_LOG(w, SIM_ANY, "client %d.%d  acquires %u names together, from %s, %s lease %lld%s%s",
            c->slot, t->index, count, sim_names[t->names[0]], all->try_once ? "once," : "waits,",
            (long long)lease_ms, all->no_renew ? ", no renewal" : "",
            all->max_hold_ms ? ", bounded" : "");
    hf__core_acquire_all(all, now);
}

/* Each name is checked as a hold as soon as it is granted. */
static void note_entered(sim_caller *t) {
    for (unsigned i = 0; i < t->all->count; i++) {
        const hf__multi_part *p = &t->all->parts[i];
        const hf__ownership *ownership = part_granted(p) ? p->wait.handle->ownership : NULL;
        if (ownership && ownership != t->entered[i]) {
            t->name = t->names[i];
            t->wait = p->wait;
            sim_checks_entered(world_of(t), t);
        }
        t->entered[i] = ownership;
    }
}

static void keep_all(sim_caller *t, hf__time now) {
    sim_world *w = world_of(t);
    int group = ++w->groups;
    for (unsigned i = 0; i < t->all->count; i++) {
        hf__handle *hold = t->all->parts[i].wait.handle;
        if (!part_granted(&t->all->parts[i]) || !hf__ownership_valid(hold->ownership, now))
            sim_fail(w, t->names[i],
                     "client %d.%d was told that it holds all names, but does not hold %s",
                     t->client->slot, t->index, sim_names[t->names[i]]);
        *sim_caller_free_hold(t->client) =
            (sim_hold){.hold = hold, .name = t->names[i], .caller = t->index, .group = group};
    }
}

static void free_part(hf__multi_part *p) {
    if (part_granted(p)) hf__ownership_unref(p->wait.handle->ownership);
    free(p->wait.handle);
    hf__wait_discard(&p->wait);
    free(p->wait.call.detail);
    free(p->extend_call.detail);
}

static void check_nothing(sim_caller *t) {
    sim_world *w = world_of(t);
    w->checks.counts.refused++;
    for (unsigned i = 0; i < t->all->count; i++) {
        hf__multi_part *p = &t->all->parts[i];
        if (p->requested || p->wait.handle->ownership)
            sim_fail(w, t->names[i], "client %d.%d was told that it holds no name, but holds %s",
                     t->client->slot, t->index, sim_names[t->names[i]]);
        free_part(p);
    }
}

static void finish_acquire(sim_caller *t, hf__time now) {
    hf_result r = t->all->call.result;
    SIM_LOG(world_of(t), SIM_ANY, "client %d.%d  acquire of %u names: %s%s%s", t->client->slot,
            t->index, t->all->count, hf_result_name(r), t->all->call.detail ? ": " : "",
            t->all->call.detail ? t->all->call.detail : "");
    free(t->all->call.detail);
    if (r == HF_OK)
        keep_all(t, now);
    else
        check_nothing(t);
    free(t->all);
    t->all = NULL;
    sim_caller_think(t, now);
}

static void give_up(sim_caller *t, hf_result why, hf__time now) {
    SIM_LOG(world_of(t), SIM_ANY, "client %d.%d  gives up on several names: %s", t->client->slot,
            t->index, hf_result_name(why));
    hf__core_give_up_all(t->all, why, now);
    SIM_CHECK(world_of(t), SIM_ANY, t->all->call.done);
}

hf__time sim_many_taken_by(const sim_caller *t) {
    hf__time until = t->all->try_once
                         ? hf__after_ms(t->began, t->client->core.config.command_timeout_ms)
                         : t->all->until;
    return hf__sooner(t->cancel_at, until);
}

bool sim_many_acquiring(sim_caller *t, hf__time now) {
    note_entered(t);
    if (t->all->call.done)
        finish_acquire(t, now);
    else if (now >= sim_many_taken_by(t))
        give_up(t, now >= t->cancel_at ? HF_CANCELLED : HF_TIMEOUT, now);
    else
        return false;
    return true;
}

/* ---- Multi-release ---- */

void sim_many_release(sim_caller *t, sim_hold *h, hf__time now) {
    sim_client *c = t->client;
    unsigned count = 0;
    t->multi_release =
        rm_alloc(sizeof *t->multi_release + SIM_NAMES * sizeof t->multi_release->calls[0]);
    for (int i = 0; i < SIM_HOLDS; i++) {
        sim_hold *each = &c->holds[i];
        if (!each->hold || each->busy || each->group != h->group) continue;
        each->busy = true;
        t->gone[count] = each;
        t->released_ids[count] =
            each->hold->ownership->count == 1 ? each->hold->ownership->acquire_id : 0;
        t->handles[count++] = each->hold;
    }
    SIM_LOG(c->world, SIM_ANY, "client %d.%d  releases %u names together", c->slot, t->index,
            count);
    t->doing = SIM_MULTI_RELEASING;
    t->call = (hf__call){0};
    t->until = hf__after_ms(now, c->core.config.command_timeout_ms);
    hf__core_release_all(&c->core, t->handles, count, t->multi_release, &t->call, now);
}

static void finish_release(sim_caller *t, hf__time now) {
    SIM_LOG(world_of(t), SIM_ANY, "client %d.%d  release of several names: %s", t->client->slot,
            t->index, hf_result_name(t->call.result));
    for (unsigned i = 0; i < t->multi_release->count; i++) {
        t->hold = t->gone[i];
        t->name = t->hold->name;
        t->released_id = t->released_ids[i];
        sim_checks_released(world_of(t), t);
        sim_caller_drop_hold(t->gone[i]);
    }
    free(t->call.detail);
    free(t->multi_release);
    t->multi_release = NULL;
    sim_caller_think(t, now);
}

bool sim_many_releasing(sim_caller *t, hf__time now) {
    if (t->call.done) {
        finish_release(t, now);
    } else if (now >= t->until) {
        hf__core_release_all_unwait(t->multi_release, t->handles, now);
        SIM_CHECK(world_of(t), SIM_ANY, t->call.done);
    } else {
        return false;
    }
    return true;
}

/* ---- A process that is gone ---- */

void sim_many_discard(sim_caller *t) {
    for (unsigned i = 0; t->all && i < t->all->count; i++) free_part(&t->all->parts[i]);
    if (t->all) free(t->all->call.detail);
    for (unsigned i = 0; t->multi_release && !t->call.done && i < t->multi_release->count; i++)
        if (t->multi_release->calls[i].done) free(t->multi_release->calls[i].detail);
    if (t->multi_release) free(t->call.detail);
    free(t->all);
    free(t->multi_release);
    t->all = NULL;
    t->multi_release = NULL;
}

/* ---- The script ---- */

/* Returns true if this acquire held the name at the last look. */
static bool held_before(const sim_world *w, int name, int slot, int number, uint64_t acquire_id) {
    if (!sim_kinds_name(w, name)) {
        const sim_seen *seen = &w->checks.names[name].seen;
        return seen->held && seen->slot == slot && seen->number == number &&
               seen->acquire_id == acquire_id;
    }
    const sim_holding *holding = &w->checks.holdings[name];
    for (size_t i = 0; i < holding->count; i++) {
        const sim_holder *h = &holding->at[i];
        if (h->slot == slot && h->number == number && h->acquire_id == acquire_id) return true;
    }
    return false;
}

static bool holds_now(sim_world *w, int name, int slot, int number, uint64_t acquire_id) {
    if (!sim_kinds_name(w, name)) {
        sim_seen seen = sim_probe(w, name);
        return seen.held && seen.slot == slot && seen.number == number &&
               seen.acquire_id == acquire_id;
    }
    sim_holding holding;
    sim_probe_holding(w, name, &holding);
    for (size_t i = 0; i < holding.count; i++) {
        const sim_holder *h = &holding.at[i];
        if (h->slot == slot && h->number == number && h->acquire_id == acquire_id) return true;
    }
    return false;
}

void sim_many_ran(sim_world *w, const rm_ran *ran) {
    bool yes = sim_probe_acquired_all(ran), is_lock;
    for (size_t i = 0; sim_probe_of_many(ran) && i < ran->key_count; i += 4) {
        int slot, number, name = sim_probe_name(ran->keys[i], &is_lock);
        uint64_t acquire_id;
        if (name == SIM_ANY || !sim_probe_actor(ran, name, &slot, &number, &acquire_id)) continue;
        bool now = holds_now(w, name, slot, number, acquire_id);
        if (yes ? !now : now && !held_before(w, name, slot, number, acquire_id))
            sim_fail(w, name, "client %d was %s all names, but %s %s, acquire id %" PRIu64, slot,
                     yes ? "granted" : "refused", yes ? "does not hold" : "holds", sim_names[name],
                     acquire_id);
    }
}
