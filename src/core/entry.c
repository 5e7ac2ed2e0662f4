/*
 * An entry: all that a client does about one name.
 *
 * At any time an entry wants something of the store, and asks one thing at a time. What it wants
 * follows from its state, in this order (hf__entry_step):
 *
 *   a release that somebody waits for     ghost_calls                      RELEASE
 *   a hold to keep                        own: due, count, extend, check   RENEW
 *   a hold for the first that waits       head, and no own                 ASK
 *   a number that nobody wants            ghost                            RELEASE
 *
 * An ASK comes before a ghost's release because its higher number replaces the ghost.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "core/core.h"
#include "core/lease.h"

#define LOOK_MS 30000 /* three looks in it */

static const char LOST_DEADLINE[] =
    "the store did not confirm a renewal before the deadline; it was unreachable, or this process "
    "was paused";
static const char LOST_LEASE[] = "the lease ran out, and HF_NO_RENEW keeps it from being renewed";
static const char LOST_MAX[] = "max_hold_ms was reached";
static const char LOST_STORE[] =
    "the store no longer has it: broken by an operator, removed, flushed, or lost in a restart or "
    "failover";

/* ---- Trouble: a store that does not answer ---- */

void hf__entry_trouble(hf__entry *e, char *detail, hf__time now) {
    if (!e->trouble_since) e->trouble_since = now;
    free(e->trouble);
    e->trouble = detail;
}

void hf__entry_trouble_over(hf__entry *e) {
    e->trouble_since = 0;
    e->tries = 0;
    free(e->trouble);
    e->trouble = NULL;
}

/* ---- Ghosts ---- */

void hf__entry_haunt(hf__entry *e, uint64_t number, hf__time until) {
    if (!number || !until) return;
    if (!e->ghost) e->ghost_maybe = false;
    if (number > e->ghost) e->ghost = number;
    e->ghost_until = hf__later(e->ghost_until, until);
    e->next_try = 0;
}

static void lay_ghost(hf__entry *e) {
    e->ghost = 0;
    e->ghost_until = 0;
    e->ghost_maybe = false;
}

/* ---- Waits ---- */

static void unlink_wait(hf__wait *w) {
    hf__entry *e = w->entry;
    if (w->prev)
        w->prev->next = w->next;
    else
        e->head = w->next;
    if (w->next)
        w->next->prev = w->prev;
    else
        e->tail = w->prev;
    w->next = w->prev = NULL;
    e->core->stats.waiting--;
}

void hf__wait_finish(hf__wait *w, hf_result result, char *detail) {
    hf__entry *e = w->entry;
    unlink_wait(w);
    if (result != HF_OK) e->core->stats.refused++;
    /* An ask of its number that is late somewhere must find that it is no longer wanted. */
    if (result != HF_OK && w->number && e->late_until)
        hf__entry_haunt(e, w->number, hf__lease_lapse(e->late_until, w->lease_ms));
    if (result != HF_OK) hf__entry_haunt(e, w->number, w->placed_until); /* it leaves the line */
    if (e->asker == w) e->asker = NULL;
    hf__call_finish(e->core, &w->call, result, detail);
}

/* What a wait that ends without an answer may say. */
static hf_result outcome(const hf__wait *w, hf_result why, bool asking) {
    if (why != HF_TIMEOUT && why != HF_UNREACHABLE) return why;
    const hf__entry *e = w->entry;
    const hf__store *store = e->core->store;
    if (w->maybe || (asking && (e->trouble_since || !e->told))) return HF_UNKNOWN_OUTCOME;
    bool others = e->told || e->own || e->head != w; /* had it, or came before */
    if (!e->trouble_since && others) return HF_TIMEOUT;
    return store->up || !store->down_result ? HF_UNREACHABLE : store->down_result;
}

static char *outcome_line(const hf__wait *w, hf_result result) {
    const hf__store *store = w->entry->core->store;
    const char *trouble = w->entry->trouble ? w->entry->trouble
                          : !store->up      ? store->down_detail
                                            : NULL;
    switch (result) {
    case HF_CLOSED:
    case HF_CANCELLED: return NULL;
    case HF_UNKNOWN_OUTCOME:
        return hf__line("the store did not answer in time%s%s; should it have granted the lock, "
                        "that is undone or ends with its lease",
                        trouble ? ": " : "", trouble ? trouble : "");
    case HF_TIMEOUT: return hf__line("another held the lock for all of the wait");
    default: return trouble ? strdup(trouble) : NULL;
    }
}

void hf__wait_give_up(hf__wait *w, hf_result why, hf__time now) {
    hf__entry *e = w->entry;
    bool asking = e->busy && e->asker == w;
    hf_result result = outcome(w, why, asking);
    if (asking || w->maybe) {
        hf__time latest = hf__later(e->op.not_after, now);
        hf__entry_haunt(e, w->number, hf__lease_lapse(latest, w->lease_ms));
    }
    hf__wait_finish(w, result, outcome_line(w, result));
}

/* Waits end when the store has been silent for too long, each counted from when it began. */
static void fail_troubled(hf__entry *e, hf__time now) {
    if (!e->trouble_since) return;
    for (hf__wait *w = e->head, *next; w; w = next) {
        next = w->next;
        /* Who tries once does not wait for a store that is away, but for an answer under way. */
        bool at_once = w->once && !w->maybe && !(e->busy && e->asker == w);
        hf__time patience = at_once ? 0 : e->core->config.outage_ms * HF__MS;
        if (now >= hf__later(e->trouble_since, w->began) + patience)
            hf__wait_give_up(w, HF_UNREACHABLE, now);
    }
}

static hf__time trouble_due(const hf__entry *e) {
    if (!e->trouble_since || !e->head) return HF__NEVER;
    return hf__later(e->trouble_since, e->head->began) + e->core->config.outage_ms * HF__MS;
}

/* ---- Granting ---- */

void hf__own_join(hf__own *own, hf__wait *w) {
    hf__hold_attach(w->hold, own);
    hf__own_unref(w->own);
    w->own = NULL;
    own->entry->core->stats.reentered++;
}

/* Waits of the owner that holds now: one owner in several threads re-enters. */
static void join_others(hf__entry *e) {
    for (hf__wait *w = e->head, *next; w; w = next) {
        next = w->next;
        hf__own *own = e->own;
        if (!hf__owner_same(w->owner, own->owner)) continue;
        if ((w->flags | own->flags) & HF_NOT_REENTRANT)
            hf__wait_finish(w, HF_DEADLOCK,
                            hf__line("this owner was granted the lock meanwhile, and "
                                     "HF_NOT_REENTRANT forbids taking it again"));
        else if (own->count < HF_COUNT_MAX) {
            hf__own_join(own, w);
            hf__wait_finish(w, HF_OK, NULL);
        }
    }
}

static hf__time max_until(const hf__wait *w, const hf__op *op) {
    return w->max_hold_ms ? hf__after_ms(op->asked_at, w->max_hold_ms) : HF__NEVER;
}

static hf__time deadline_of(const hf__wait *w, const hf__op *op) {
    return hf__sooner(hf__lease_deadline(op->asked_at, op->lease_ms), max_until(w, op));
}

/* Where renewing is only a look, a long lease is no reason to look seldom. */
static hf__time renew_at(hf__core *core, hf__time asked_at, int64_t lease_ms) {
    bool looks = !core->store->forgets && lease_ms > LOOK_MS;
    return hf__lease_renew_at(asked_at, looks ? LOOK_MS : lease_ms, &core->rand);
}

static void fill_own(hf__own *own, const hf__wait *w, const hf__op *op, hf__core *core,
                     hf__time now) {
    own->token = op->token;
    own->number = op->number;
    own->owner = w->owner;
    own->lease_ms = w->lease_ms;
    own->flags = w->flags;
    own->posted = 1;
    own->renew_at = w->flags & HF_NO_RENEW ? HF__NEVER : renew_at(core, op->asked_at, op->lease_ms);
    own->max_until = max_until(w, op);
    own->lapses_at = hf__lease_lapse(now, op->lease_ms);
    atomic_store(&own->deadline, deadline_of(w, op));
    atomic_store_explicit(&own->state, HF__HELD, memory_order_release);
}

static void grant(hf__entry *e, hf__wait *w, hf__time now) {
    hf__core *core = e->core;
    hf__own *own = w->own;
    fill_own(own, w, &e->op, core, now);
    if (e->late_until) /* a twin of this ask may come late, and begin its lease anew */
        own->lapses_at = hf__later(own->lapses_at, hf__lease_lapse(e->late_until, own->lease_ms));
    own->entry = e;
    e->own = own; /* the wait's reference becomes the entry's */
    w->own = NULL;
    hf__hold_attach(w->hold, own);
    core->stats.acquired++;
    core->stats.held++;
    e->held_since = e->op.asked_at;
    lay_ghost(e);   /* older numbers of ours were replaced */
    e->told = true; /* to whoever waits behind it */
    hf__wait_finish(w, HF_OK, NULL);
    join_others(e);
}

/* ---- Answers ---- */

static void asked_granted(hf__entry *e, hf__wait *w, hf__time now) {
    hf__op *op = &e->op;
    if (op->token > e->core->highest_token) e->core->highest_token = op->token;
    if (w && now < deadline_of(w, op)) {
        grant(e, w, now);
        return;
    }
    /* Nobody wants it any more, or the answer came when the lease may have run out. */
    hf__entry_haunt(e, op->number, hf__lease_lapse(now, op->lease_ms));
    if (!w) return;
    w->number = 0;
    w->maybe = false;
    e->next_try = hf__lease_retry_at(now, op->lease_ms, e->tries++, &e->core->rand);
    if (w->once)
        hf__wait_finish(w, HF_UNREACHABLE,
                        hf__line("the store's answer came after the lease had run out; use a "
                                 "lease well above the round trip"));
}

/* It was sent and not heard of: it may have been done, or be done yet. */
static void asked_unheard(hf__entry *e, hf__wait *w) {
    const hf__op *op = &e->op;
    e->late_until = hf__later(e->late_until, op->not_after);
    if (w)
        w->maybe = true; /* asks again, or haunts when it ends */
    else
        hf__entry_haunt(e, op->number, hf__lease_lapse(op->not_after, op->lease_ms));
}

static void asked_unreachable(hf__entry *e, hf__time now) {
    hf__op *op = &e->op;
    hf__entry_trouble(e, op->detail, now);
    op->detail = NULL;
    e->next_try = hf__lease_retry_at(now, op->lease_ms, e->tries++, &e->core->rand);
    fail_troubled(e, now);
}

/* What was said of one ask also goes for those before it, unless they may still come behind it. */
static bool settles(const hf__entry *e, const hf__op *op) {
    return op->result == HF_OK || (op->result != HF_TIMEOUT && op->asked_at > e->late_until);
}

static void asked(hf__entry *e, hf__time now) {
    hf__wait *w = e->asker;
    hf__op *op = &e->op;
    e->asker = NULL;
    if (op->maybe) asked_unheard(e, w);
    if (op->result == HF_UNREACHABLE) {
        asked_unreachable(e, now);
        return;
    }
    hf__entry_trouble_over(e);
    if (w && settles(e, op)) w->maybe = false;
    if (op->result == HF_OK) {
        asked_granted(e, w, now);
    } else if (op->result == HF_BUSY) {
        e->told = true;
        e->next_try = now + hf__jitter(&e->core->rand, op->retry_ms * HF__MS);
        hf__time placed_until = op->placed ? hf__after_ms(now, HF__PLACE_MS) : 0;
        if (!w) {
            hf__entry_haunt(e, op->number, placed_until);
            return;
        }
        w->placed_until = placed_until;
        e->op.attempt++;
        if (w->once) hf__wait_finish(w, HF_BUSY, hf__line("another holds the lock"));
    } else if (op->result == HF_TIMEOUT && !(w && w->once)) {
        e->next_try = hf__lease_retry_at(now, op->lease_ms, e->tries++, &e->core->rand);
    } else if (w) {
        hf__wait_finish(w, op->result == HF_TIMEOUT ? HF_UNREACHABLE : op->result, op->detail);
        op->detail = NULL;
    }
}

/* It was sent, so it may have been done, up to now. */
static void may_last(hf__own *own, int64_t lease_ms, hf__time now) {
    own->lapses_at = hf__later(own->lapses_at, hf__lease_lapse(now, lease_ms));
}

/* A hold whose renewal failed goes on until its deadline: the store may answer the next one. */
static void renew_failed(hf__entry *e, hf__time now) {
    hf__own *own = e->own;
    hf__op *op = &e->op;
    hf_result r = op->maybe ? HF_UNKNOWN_OUTCOME : op->result;
    hf__calls_finish(e->core, &e->extending, r, op->detail);
    if (op->maybe) may_last(own, op->lease_ms, now);
    hf__time again = hf__lease_retry_at(now, own->lease_ms, own->tries++, &e->core->rand);
    if (own->flags & HF_NO_RENEW)
        own->check = false;
    else
        own->renew_at = again;
    e->next_try = again;
}

static void renew_confirmed(hf__entry *e, hf__time now) {
    hf__own *own = e->own;
    hf__op *op = &e->op;
    own->tries = 0;
    own->posted = op->count;
    e->core->stats.renewed++;
    if (op->lease_ms) {
        hf__time deadline = hf__lease_deadline(op->asked_at, op->lease_ms);
        deadline = hf__later(deadline, atomic_load(&own->deadline));
        atomic_store(&own->deadline, hf__sooner(deadline, own->max_until));
        may_last(own, op->lease_ms, now);
    }
    if (!(own->flags & HF_NO_RENEW)) own->renew_at = renew_at(e->core, op->asked_at, own->lease_ms);
    hf__calls_finish(e->core, &e->extending, HF_OK, NULL);
}

static void renew_lost(hf__entry *e, hf__time now) {
    hf__own *own = e->own;
    if (e->late_until > now) /* its ask may come late, and take the lock again for nobody */
        hf__entry_haunt(e, own->number, hf__lease_lapse(e->late_until, own->lease_ms));
    if (!e->core->store->forgets) /* it waits for us to let go, now that its holder knows */
        hf__entry_haunt(e, own->number, own->lapses_at);
    hf__own_lose(own, LOST_STORE);
}

static void renewed(hf__entry *e, hf__time now) {
    hf__own *own = e->own;
    if (!own || own->number != e->op.number) return; /* released or lost meanwhile */
    if (e->op.result == HF_OK)
        renew_confirmed(e, now);
    else if (e->op.result == HF_LOST)
        renew_lost(e, now);
    else
        renew_failed(e, now);
}

static void released(hf__entry *e, hf__time now) {
    hf__op *op = &e->op;
    e->ghost_maybe |= op->maybe;
    if (op->result == HF_UNREACHABLE) {
        e->next_try = hf__lease_retry_at(now, e->core->config.lease_ms, e->tries++, &e->core->rand);
        while (e->ghost_carried) { /* their callers wait on, for the next try */
            hf__call *call = e->ghost_carried;
            e->ghost_carried = call->next;
            hf__call_push(&e->ghost_calls, call);
        }
        return;
    }
    hf__entry_trouble_over(e);
    hf_result r = op->result;
    /* A release that was sent twice finds nothing the second time. */
    if (r == HF_LOST && e->ghost_maybe) r = HF_OK;
    const char *detail = r == HF_LOST ? LOST_STORE : op->detail;
    if (e->ghost_carried && r == HF_LOST) { /* it counted as released when its holder let go */
        e->core->stats.released--;
        e->core->stats.lost++;
    }
    hf__calls_finish(e->core, &e->ghost_carried, r, detail);
    if (op->number < e->ghost) return;
    if (r == HF_OK || r == HF_LOST)
        lay_ghost(e);
    else
        e->next_try = hf__lease_retry_at(now, e->core->config.lease_ms, 9, &e->core->rand);
}

/* ---- Time ---- */

static void expire_own(hf__entry *e, hf__time now) {
    hf__own *own = e->own;
    if (!own || now < atomic_load(&own->deadline)) return;
    const char *why = now >= own->max_until      ? LOST_MAX
                      : own->flags & HF_NO_RENEW ? LOST_LEASE
                                                 : LOST_DEADLINE;
    hf__entry_haunt(e, own->number, own->lapses_at);
    hf__own_lose(own, why);
}

static hf__time forgotten_at(const hf__entry *e) {
    return e->ghost && !e->busy && e->core->store->forgets ? e->ghost_until : HF__NEVER;
}

void hf__entry_expire(hf__entry *e, hf__time now) {
    expire_own(e, now);
    fail_troubled(e, now);
    if (now >= forgotten_at(e)) {
        hf__calls_finish(e->core, &e->ghost_calls, HF_UNKNOWN_OUTCOME, e->trouble);
        lay_ghost(e);
    }
}

void hf__entry_complete(hf__entry *e, hf__time now) {
    e->busy = false;
    expire_own(e, now); /* a hold past its deadline is lost, whatever the answer says */
    switch (e->op.verb) {
    case HF__ASK: asked(e, now); break;
    case HF__RENEW: renewed(e, now); break;
    case HF__RELEASE: released(e, now); break;
    default: break;
    }
    free(e->op.detail);
    e->op.detail = NULL;
    hf__entry_step(e, now);
}

/* ---- Sending ---- */

static void send(hf__entry *e, hf__verb verb, uint64_t number, hf__time now) {
    hf__op *op = &e->op;
    op->verb = verb;
    op->number = number;
    op->name = e->mapped.key;
    op->name_length = e->mapped.length;
    op->result = HF_OK;
    op->maybe = op->placed = false;
    op->detail = NULL;
    e->busy = true;
    e->core->store->table->submit(e->core->store, op, now);
}

static void send_ask(hf__entry *e, hf__time now) {
    hf__wait *w = e->head;
    if (!w->number) {
        w->number = ++e->core->last_number;
        e->op.attempt = 0;
    }
    e->asker = w;
    e->op.owner = w->owner;
    e->op.count = 1;
    e->op.stand = !w->once;
    e->op.lease_ms = w->lease_ms;
    if (w->max_hold_ms && hf__lease_covering(w->max_hold_ms) < w->lease_ms)
        e->op.lease_ms = hf__lease_covering(w->max_hold_ms);
    e->op.token = e->core->highest_token;
    e->op.not_after = hf__sooner(w->until, hf__after_ms(now, e->core->config.command_timeout_ms));
    send(e, HF__ASK, w->number, now);
}

/* No lease beyond max_hold: others should not wait for what is over. */
static int64_t lease_to_ask(const hf__own *own, hf__time now) {
    int64_t lease = own->flags & HF_NO_RENEW         ? own->extend_ms
                    : own->extend_ms > own->lease_ms ? own->extend_ms
                                                     : own->lease_ms;
    if (own->max_until == HF__NEVER) return lease;
    int64_t left = hf__lease_covering((own->max_until - now + HF__MS - 1) / HF__MS);
    return left < lease ? left : lease;
}

static void send_renew(hf__entry *e, hf__time now) {
    hf__own *own = e->own;
    e->op.owner = own->owner;
    e->op.count = own->count;
    e->op.token = own->token;
    e->op.lease_ms = lease_to_ask(own, now);
    /* Should the own be lost before the answer, the store may still execute this. */
    may_last(own, e->op.lease_ms, hf__after_ms(now, e->core->config.command_timeout_ms));
    own->check = false;
    own->extend_ms = 0;
    e->extending = own->extends;
    own->extends = NULL;
    send(e, HF__RENEW, own->number, now);
}

static void send_release(hf__entry *e, hf__time now) {
    e->ghost_carried = e->ghost_calls;
    e->ghost_calls = NULL;
    e->op.lease_ms = e->core->config.lease_ms;
    e->op.held_since = e->held_since;
    e->op.bury_until = e->late_until > now ? e->late_until : 0;
    send(e, HF__RELEASE, e->ghost, now);
}

static bool renew_wanted(const hf__entry *e, hf__time now) {
    const hf__own *own = e->own;
    if (!own) return false;
    if (own->extends || now >= own->renew_at) return true;
    return (own->check || own->posted != own->count) && now >= e->next_try;
}

static void send_next(hf__entry *e, hf__time now) {
    if (e->ghost_calls && now >= e->next_try)
        send_release(e, now);
    else if (renew_wanted(e, now))
        send_renew(e, now);
    else if (e->head && now < e->head->until && !e->own && !e->ghost_calls) {
        if (now >= e->next_try) send_ask(e, now);
    } else if (e->ghost && !e->own && now >= e->next_try)
        send_release(e, now);
}

/* ---- The step ---- */

static hf__time earliest(const hf__entry *e) {
    hf__time due = trouble_due(e);
    bool may_send = e->core->link && !e->busy;
    if (e->own) {
        due = hf__sooner(due, atomic_load(&e->own->deadline));
        if (may_send) due = hf__sooner(due, e->own->renew_at);
        if (may_send && (e->own->check || e->own->posted != e->own->count))
            due = hf__sooner(due, e->next_try);
    } else if (may_send && ((e->head && e->next_try < e->head->until) || e->ghost)) {
        due = hf__sooner(due, e->next_try);
    }
    return hf__sooner(due, forgotten_at(e));
}

static bool idle(const hf__entry *e) {
    return !e->busy && !e->head && !e->own && !e->ghost && !e->ghost_calls;
}

static void drop(hf__entry *e) {
    hf__core *core = e->core;
    hf__heap_remove(&core->timers, &e->timer);
    hf__map_remove(&core->entries, &e->mapped);
    free(e->trouble);
    free(e);
    if (core->closer && !core->entries.count) {
        hf__call *closer = core->closer;
        core->closer = NULL;
        hf__call_finish(core, closer, HF_OK, NULL);
    }
}

/* Nothing can be sent: waits have patience, extensions have none. */
static void away(hf__entry *e, hf__time now) {
    if (e->head && !e->trouble_since) hf__entry_trouble(e, NULL, now);
    fail_troubled(e, now);
    if (e->own)
        hf__calls_finish(e->core, &e->own->extends, HF_UNREACHABLE, e->core->store->down_detail);
}

/* Do what is to be done next, and plan when to look again. Frees the entry when it is done with. */
void hf__entry_step(hf__entry *e, hf__time now) {
    hf__entry_expire(e, now);
    if (!e->core->link) away(e, now);
    if (e->core->link && !e->busy) send_next(e, now);
    if (idle(e))
        drop(e);
    else
        hf__heap_set(&e->core->timers, &e->timer, earliest(e));
}
