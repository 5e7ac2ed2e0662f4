/* SPDX-License-Identifier: Apache-2.0 */
#include "world/caller.h"

#include <stdlib.h>
#include <string.h>

#include "core/lease.h"
#include "world/client.h"
#include "world/kinds.h"
#include "world/many.h"

#define CALM_THINK (5 * HF__MS)

static sim_world *world_of(const sim_caller *t) {
    return t->client->world;
}

void sim_caller_init(sim_caller *t, sim_client *client, int index) {
    *t = (sim_caller){.client = client, .index = index};
}

void sim_caller_think(sim_caller *t, hf__time now) {
    sim_world *w = world_of(t);
    hf__time span = w->calm             ? CALM_THINK
                    : sim_chance(w, 16) ? w->plan.longest_ms * HF__MS * 3 / 2
                                        : 2 * w->plan.think;
    t->doing = SIM_IDLE;
    t->next = now + sim_draw(w, span);
}

/* ---- Handles ---- */

sim_hold *sim_caller_free_hold(sim_client *c) {
    for (int i = 0; i < SIM_HOLDS; i++)
        if (!c->holds[i].hold) return &c->holds[i];
    return NULL;
}

/* Returns a handle of this caller, or of any caller, that no call uses now; NULL if there is
   none. */
static sim_hold *some_hold(sim_caller *t, bool anybodys) {
    sim_client *c = t->client;
    sim_hold *found[SIM_HOLDS];
    int count = 0;
    for (int i = 0; i < SIM_HOLDS; i++) {
        sim_hold *h = &c->holds[i];
        if (h->hold && !h->busy && (anybodys || h->caller == t->index)) found[count++] = h;
    }
    return count ? found[sim_draw(world_of(t), count)] : NULL;
}

void sim_caller_drop_hold(sim_hold *h) {
    hf__ownership_unref(h->hold->ownership);
    free(h->hold);
    *h = (sim_hold){0};
}

/* ---- Acquiring ---- */

static const char *kind_name(const hf__wait *wait) {
    static const char *const names[] = {"", " to read", " to write", " to read and upgrade",
                                        " as permits"};
    return names[wait->kind];
}

static void submit_acquire(sim_caller *t, hf__time now) {
    sim_client *c = t->client;
    t->doing = SIM_ACQUIRING;
    t->began = now;
    t->last_acquire_id = 0;
    t->arrived = sim_checks_arrival(world_of(t));
    t->wait.handle = calloc(1, sizeof(hf__handle));
    if (!hf__wait_prepare(&t->wait) || !t->wait.handle) abort();
    SIM_LOG(world_of(t), t->name,
            "client %d.%d  acquires %s%s, %s%s lease %lld, until +%.3f ms%s%s", c->slot, t->index,
            sim_names[t->name], kind_name(&t->wait), t->wait.owner.logical ? "as owner, " : "",
            t->wait.try_once ? "once," : "waits,", (long long)t->wait.lease_ms,
            t->wait.until == HF__NEVER ? -1.0 : (double)(t->wait.until - now) / HF__MS,
            t->wait.flags & HF_NO_RENEW ? ", no renewal" : "",
            t->wait.max_hold_ms ? ", bounded" : "");
    hf__core_acquire(&c->core, &t->wait, sim_names[t->name], strlen(sim_names[t->name]), now);
}

static void set_wait(sim_caller *t, int64_t wait_ms, hf__time now) {
    hf__wait *wait = &t->wait;
    wait->try_once = wait_ms == 0;
    wait->started_at = now;
    wait->until = wait->try_once ? HF__NEVER : hf__after_ms(now, wait_ms);
}

int64_t sim_caller_draw_wait(sim_caller *t) {
    sim_world *w = world_of(t);
    if (sim_chance(w, 3)) return 0;
    /* With other holds, two callers might deadlock. */
    if (!some_hold(t, false) && sim_chance(w, 3)) return HF_FOREVER;
    return 1 + sim_draw(w, w->plan.leases[sim_draw(w, SIM_LEASES)] * 2);
}

void sim_caller_draw_kind(sim_caller *t) {
    sim_world *w = world_of(t);
    hf__wait *wait = &t->wait;
    if (w->plan.sorts[t->name] == SIM_MUTEXES || sim_chance(w, 16)) return;
    if (w->plan.sorts[t->name] == SIM_SHARES) {
        int64_t what = sim_draw(w, 100);
        wait->kind = what < 50 ? HF_READ : what < 70 ? HF_WRITE : HF_UPGRADABLE;
        return;
    }
    wait->kind = HF_PERMITS;
    wait->capacity = w->plan.capacity + sim_chance(w, 20);
    wait->permits = 1 + (uint32_t)sim_draw(w, sim_chance(w, 3) ? wait->capacity : 1);
}

static void begin_acquire(sim_caller *t, int name, hf__time now) {
    sim_world *w = world_of(t);
    bool logical = sim_chance(w, 8);
    t->name = name;
    t->wait = (hf__wait){.owner = {logical ? 1 : (uint64_t)t->index + 1, logical},
                         .lease_ms = w->plan.leases[sim_draw(w, SIM_LEASES)]};
    if (sim_chance(w, 10)) t->wait.flags |= HF_NO_RENEW;
    if (sim_chance(w, 10)) t->wait.flags |= HF_NOT_REENTRANT;
    if (sim_chance(w, 10)) t->wait.max_hold_ms = 50 + sim_draw(w, w->plan.longest_ms);
    sim_caller_draw_kind(t);
    set_wait(t, sim_caller_draw_wait(t), now);
    t->cancel_at =
        sim_chance(w, w->plan.hasty ? 2 : 8) ? now + sim_draw(w, 200 * HF__MS) : HF__NEVER;
    submit_acquire(t, now);
}

void sim_caller_want(sim_caller *t, int name, hf__time now) {
    t->name = name;
    t->wait = (hf__wait){.owner = {(uint64_t)t->index + 1, false},
                         .lease_ms = world_of(t)->plan.leases[0]};
    set_wait(t, HF_FOREVER, now);
    t->cancel_at = HF__NEVER;
    submit_acquire(t, now);
}

static void keep_hold(sim_caller *t) {
    sim_hold *hold = sim_caller_free_hold(t->client);
    *hold = (sim_hold){.hold = t->wait.handle, .name = t->name, .caller = t->index};
    sim_checks_entered(world_of(t), t);
}

static void finish_acquire(sim_caller *t, hf__time now) {
    hf_result r = t->wait.call.result;
    SIM_LOG(world_of(t), t->name, "client %d.%d  acquire of %s: %s%s%s", t->client->slot, t->index,
            sim_names[t->name], hf_result_name(r), t->wait.call.detail ? ": " : "",
            t->wait.call.detail ? t->wait.call.detail : "");
    free(t->wait.call.detail);
    if (r == HF_OK) {
        keep_hold(t);
    } else {
        sim_checks_refused(world_of(t), t);
        free(t->wait.handle);
        hf__wait_discard(&t->wait);
    }
    sim_caller_think(t, now);
}

static void give_up(sim_caller *t, hf_result why, hf__time now) {
    SIM_LOG(world_of(t), t->name, "client %d.%d  gives up on %s: %s", t->client->slot, t->index,
            sim_names[t->name], hf_result_name(why));
    hf__core_give_up(&t->wait, why, now);
}

static bool continue_acquire(sim_caller *t, hf__time now) {
    if (t->wait.call.done)
        finish_acquire(t, now);
    else if (now >= t->cancel_at)
        give_up(t, HF_CANCELLED, now);
    else if (now >= hf__wait_until(&t->client->core, &t->wait))
        give_up(t, HF_TIMEOUT, now);
    else {
        t->last_acquire_id = t->wait.acquire_id;
        return false;
    }
    return true;
}

/* ---- Releasing ---- */

static void begin_call(sim_caller *t, sim_doing doing, sim_hold *h, hf__time now) {
    h->busy = true;
    t->doing = doing;
    t->hold = h;
    t->name = h->name;
    t->call = (hf__call){0};
    t->began = now;
    t->until = hf__after_ms(now, t->client->core.config.command_timeout_ms);
}

static void begin_release(sim_caller *t, sim_hold *h, hf__time now) {
    hf__ownership *ownership = h->hold->ownership;
    if (h->group && !sim_chance(world_of(t), 3)) {
        sim_many_release(t, h, now);
        return;
    }
    SIM_LOG(world_of(t), h->name, "client %d.%d  releases %s, token %llu, entered %u times",
            t->client->slot, t->index, sim_names[h->name], (unsigned long long)ownership->token,
            ownership->count);
    begin_call(t, SIM_RELEASING, h, now);
    t->released_id = ownership->count == 1 ? ownership->acquire_id : 0;
    hf__core_release(&t->client->core, h->hold, &t->call, now);
}

static bool continue_release(sim_caller *t, hf__time now) {
    if (t->call.done) {
        SIM_LOG(world_of(t), t->name, "client %d.%d  release of %s: %s", t->client->slot, t->index,
                sim_names[t->name], hf_result_name(t->call.result));
        sim_checks_released(world_of(t), t);
        free(t->call.detail);
        sim_caller_drop_hold(t->hold);
        sim_caller_think(t, now);
    } else if (now >= t->until) {
        hf__core_release_unwait(&t->client->core, t->hold->hold, &t->call);
    } else {
        return false;
    }
    return true;
}

void sim_caller_release_closed(sim_client *c, sim_hold *h, hf__time now) {
    hf__call call = {0};
    hf__core_release(&c->core, h->hold, &call, now);
    SIM_CHECK(c->world, h->name, call.done);
    SIM_CHECK(c->world, h->name, call.result == HF_CLOSED || call.result == HF_LOST);
    c->core.finished_calls = (hf__calls){0};
    free(call.detail);
    sim_caller_drop_hold(h);
}

/* ---- Extending ---- */

static void begin_extend(sim_caller *t, sim_hold *h, hf__time now) {
    sim_world *w = world_of(t);
    t->lease_ms = 50 + sim_draw(w, w->plan.longest_ms - 50);
    SIM_LOG(w, h->name, "client %d.%d  extends %s by %lld ms", t->client->slot, t->index,
            sim_names[h->name], (long long)t->lease_ms);
    begin_call(t, SIM_EXTENDING, h, now);
    hf__core_extend(&t->client->core, h->hold, t->lease_ms, &t->call, now);
}

static bool continue_extend(sim_caller *t, hf__time now) {
    if (t->call.done) {
        SIM_LOG(world_of(t), t->name, "client %d.%d  extension of %s: %s", t->client->slot,
                t->index, sim_names[t->name], hf_result_name(t->call.result));
        sim_checks_extended(world_of(t), t);
        free(t->call.detail);
        t->hold->busy = false;
        sim_caller_think(t, now);
    } else if (now >= t->until) {
        hf__core_extend_unwait(&t->client->core, t->hold->hold, &t->call);
    } else {
        return false;
    }
    return true;
}

/* ---- Upgrading and downgrading ---- */

static void begin_upgrade(sim_caller *t, sim_hold *h, hf__time now) {
    sim_world *w = world_of(t);
    begin_call(t, SIM_UPGRADING, h, now);
    t->wait = (hf__wait){0};
    set_wait(t, sim_chance(w, 3) ? 0 : 1 + sim_draw(w, 2 * w->plan.longest_ms), now);
    t->cancel_at = sim_chance(w, 5) ? now + sim_draw(w, 100 * HF__MS) : HF__NEVER;
    SIM_LOG(w, h->name, "client %d.%d  upgrades %s, %s", t->client->slot, t->index,
            sim_names[h->name], t->wait.try_once ? "once" : "waits");
    hf__core_upgrade(&t->client->core, h->hold, &t->wait, now);
}

static bool continue_upgrade(sim_caller *t, hf__time now) {
    if (t->wait.call.done) {
        SIM_LOG(world_of(t), t->name, "client %d.%d  upgrade of %s: %s", t->client->slot, t->index,
                sim_names[t->name], hf_result_name(t->wait.call.result));
        sim_kinds_upgraded(world_of(t), t);
        free(t->wait.call.detail);
        t->hold->busy = false;
        sim_caller_think(t, now);
    } else if (now >= t->cancel_at) {
        give_up(t, HF_CANCELLED, now);
    } else if (now >= hf__wait_until(&t->client->core, &t->wait)) {
        give_up(t, HF_TIMEOUT, now);
    } else {
        return false;
    }
    return true;
}

static void begin_downgrade(sim_caller *t, sim_hold *h, hf__time now) {
    SIM_LOG(world_of(t), h->name, "client %d.%d  downgrades %s", t->client->slot, t->index,
            sim_names[h->name]);
    begin_call(t, SIM_DOWNGRADING, h, now);
    hf__core_downgrade(&t->client->core, h->hold, &t->call, now);
}

static bool continue_downgrade(sim_caller *t, hf__time now) {
    if (t->call.done) {
        SIM_LOG(world_of(t), t->name, "client %d.%d  downgrade of %s: %s", t->client->slot,
                t->index, sim_names[t->name], hf_result_name(t->call.result));
        sim_kinds_downgraded(world_of(t), t);
        free(t->call.detail);
        t->hold->busy = false;
        sim_caller_think(t, now);
    } else if (now >= t->until) {
        hf__core_extend_unwait(&t->client->core, t->hold->hold, &t->call);
    } else {
        return false;
    }
    return true;
}

/* Upgrades or downgrades if possible; returns false if not. */
static bool act_up_and_down(sim_caller *t, sim_hold *h, hf__time now) {
    sim_world *w = world_of(t);
    uint32_t kind = h->hold->ownership->kind;
    if (w->plan.sorts[h->name] != SIM_SHARES || sim_chance(w, 2)) return false;
    if (kind == HF_UPGRADABLE)
        begin_upgrade(t, h, now);
    else if (kind == HF_WRITE)
        begin_downgrade(t, h, now);
    else
        return false;
    return true;
}

/* ---- Looking and breaking ---- */

static void begin_look(sim_caller *t, hf__verb verb, int name, uint64_t token, hf__time now) {
    sim_client *c = t->client;
    if (!c->store.store.up) { /* hf_inspect would wait for a connection */
        sim_caller_think(t, now);
        return;
    }
    t->doing = SIM_LOOKING;
    t->op_done = false;
    t->name = name;
    t->sight = (hf__lock_info){0};
    t->op = (hf__op){.verb = verb,
                     .name = sim_names[name],
                     .name_length = strlen(sim_names[name]),
                     .token = token,
                     .lock_info = &t->sight,
                     .not_after = hf__after_ms(now, c->core.config.command_timeout_ms)};
    SIM_LOG(c->world, name, "client %d.%d  %s %s", c->slot, t->index,
            verb == HF__BREAK ? "breaks" : "inspects", sim_names[name]);
    c->store.store.table->submit(&c->store.store, &t->op, now);
}

bool sim_caller_completed(sim_client *c, hf__op *op) {
    for (int i = 0; i < c->caller_count; i++) {
        if (op != &c->callers[i].op) continue;
        c->callers[i].op_done = true;
        return true;
    }
    return false;
}

static bool continue_look(sim_caller *t, hf__time now) {
    if (!t->op_done) return false;
    SIM_LOG(world_of(t), t->name, "client %d.%d  %s of %s: %s", t->client->slot, t->index,
            t->op.verb == HF__BREAK ? "break" : "look", sim_names[t->name],
            hf_result_name(t->op.result));
    free(t->op.detail);
    t->op.detail = NULL;
    sim_caller_think(t, now);
    return true;
}

/* ---- Acting ---- */

static int some_name(sim_caller *t) {
    return (int)sim_draw(world_of(t), world_of(t)->plan.names);
}

static int count_reserved_holds(const sim_client *c) {
    int count = 0;
    for (int i = 0; i < SIM_HOLDS; i++) count += c->holds[i].hold != NULL;
    for (int i = 0; i < c->caller_count; i++)
        count += c->callers[i].doing == SIM_ACQUIRING         ? 1
                 : c->callers[i].doing == SIM_MULTI_ACQUIRING ? SIM_NAMES
                                                              : 0;
    return count;
}

/* Only in some worlds; returns false if the caller should do something else. */
static bool act_on_many(sim_caller *t, int64_t one_in, hf__time now) {
    sim_world *w = world_of(t);
    if (!w->plan.multi_acquire || !sim_chance(w, one_in)) return false;
    if (count_reserved_holds(t->client) + SIM_NAMES > SIM_HOLDS) return false;
    sim_many_acquire(t, now);
    return true;
}

static void act_idle_handed(sim_caller *t, hf__time now) {
    sim_world *w = world_of(t);
    if (act_on_many(t, 2, now)) return;
    int64_t what = sim_draw(w, 100);
    sim_hold *others = some_hold(t, true);
    if (what < 6)
        begin_look(t, HF__INSPECT, some_name(t), 0, now);
    else if (what < 12 && (w->plan.faults & SIM_BREAKS))
        begin_look(t, HF__BREAK, some_name(t), 0, now);
    else if (what < 16 && others)
        begin_release(t, others, now);
    else
        begin_acquire(t, some_name(t), now);
}

static void act_holding(sim_caller *t, sim_hold *h, hf__time now) {
    sim_world *w = world_of(t);
    if (act_up_and_down(t, h, now) || act_on_many(t, 12, now)) return;
    int64_t what = sim_draw(w, 100);
    bool has_slot = sim_caller_free_hold(t->client) != NULL;
    if (what < 15 && has_slot)
        begin_acquire(t, h->name, now);
    else if (what < 25 && has_slot)
        begin_acquire(t, some_name(t), now);
    else if (what < 38)
        begin_extend(t, h, now);
    else if (what < 40 && (w->plan.faults & SIM_BREAKS))
        begin_look(t, HF__BREAK, h->name, h->hold->ownership->token, now);
    else
        begin_release(t, h, now);
}

static bool act_idle(sim_caller *t, hf__time now) {
    sim_client *c = t->client;
    if (now < t->next || !c->was_up || c->life == SIM_CLOSING) return false;
    sim_hold *h = some_hold(t, false);
    bool full = count_reserved_holds(c) >= SIM_HOLDS;
    if (c->world->calm || full) {
        if (h)
            begin_release(t, h, now);
        else if (c->world->calm)
            t->next = HF__NEVER;
        else
            sim_caller_think(t, now);
    } else if (h) {
        act_holding(t, h, now);
    } else {
        act_idle_handed(t, now);
    }
    return true;
}

bool sim_caller_step(sim_caller *t, hf__time now) {
    switch (t->doing) {
    case SIM_IDLE: return act_idle(t, now);
    case SIM_ACQUIRING: return continue_acquire(t, now);
    case SIM_RELEASING: return continue_release(t, now);
    case SIM_EXTENDING: return continue_extend(t, now);
    case SIM_UPGRADING: return continue_upgrade(t, now);
    case SIM_DOWNGRADING: return continue_downgrade(t, now);
    case SIM_LOOKING: return continue_look(t, now);
    case SIM_MULTI_ACQUIRING: return sim_many_acquiring(t, now);
    case SIM_MULTI_RELEASING: return sim_many_releasing(t, now);
    }
    return false;
}

hf__time sim_caller_due(const sim_caller *t) {
    const sim_client *c = t->client;
    switch (t->doing) {
    case SIM_IDLE: return c->was_up && c->life == SIM_RUNNING ? t->next : HF__NEVER;
    case SIM_UPGRADING:
    case SIM_ACQUIRING: return hf__sooner(t->cancel_at, hf__wait_until(&c->core, &t->wait));
    case SIM_MULTI_ACQUIRING: return sim_many_taken_by(t);
    case SIM_MULTI_RELEASING:
    case SIM_RELEASING:
    case SIM_DOWNGRADING:
    case SIM_EXTENDING: return t->until;
    case SIM_LOOKING: return HF__NEVER;
    }
    return HF__NEVER;
}

void sim_caller_discard(sim_caller *t) {
    if (t->doing == SIM_ACQUIRING && !(t->wait.call.done && t->wait.call.result == HF_OK)) {
        free(t->wait.handle);
        hf__wait_discard(&t->wait);
    } else if (t->doing == SIM_ACQUIRING) { /* granted, but its caller has not seen it */
        hf__ownership_unref(t->wait.handle->ownership);
        free(t->wait.handle);
    }
    if (t->doing == SIM_ACQUIRING || t->doing == SIM_UPGRADING) free(t->wait.call.detail);
    if (t->doing == SIM_RELEASING || t->doing == SIM_EXTENDING || t->doing == SIM_DOWNGRADING)
        free(t->call.detail);
    if (t->doing == SIM_LOOKING && t->op_done) free(t->op.detail);
    sim_many_discard(t);
    t->doing = SIM_IDLE;
}
