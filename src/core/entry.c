/*
 * An entry: all that a client does about one name.
 *
 * At any time an entry wants something of the store, and asks one thing at a time. What it wants
 * follows from its state, in this order (hf__entry_step):
 *
 *   a release by its holder               ghost_let_go                     RELEASE
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

/* How long readers may join a hold, since the store said that nobody waits. */
#define JOIN_MS 100
#define LOOK_MS 30000 /* three looks in it */
#define DRIFT_MS \
    200 /* by which clocks may differ over what moments of ours on the store's rest on */

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
    e->ghost_held = true;
    e->next_try = 0;
}

static void lay_ghost(hf__entry *e) {
    e->ghost = 0;
    e->ghost_until = 0;
    e->ghost_maybe = e->ghost_stands = e->ghost_held = e->ghost_let_go = false;
}

/* An ask that acts at the latest then has left nothing in the store by this time: no hold, and no place
   in line, which lasts longer. */
static hf__time gone_by(const hf__entry *e, hf__time latest, int64_t lease_ms) {
    hf__time gone = hf__lease_lapse(latest, lease_ms);
    return e->core->store->hands_on ? hf__later(gone, hf__after_ms(latest, HF__PLACE_MS)) : gone;
}

/* A wait that ended: its number may hold the lock, or stand in line for it. */
void hf__entry_haunt_line(hf__entry *e, uint64_t number, hf__time until) {
    bool held = e->ghost_held;
    if (number && until) e->ghost_stands = true;
    hf__entry_haunt(e, number, until);
    e->ghost_held = held;
}

/* ---- Waits ---- */

/* By its number a wait is found when the store says that it was granted. */
static void set_number(hf__wait *w, uint64_t number) {
    hf__map *asking = &w->entry->core->asking;
    if (w->number) hf__map_remove(asking, &w->by_number);
    w->number = number;
    w->first_link = 0;
    w->early.number = 0;
    if (!number) return;
    w->by_number.key = (const char *)&w->number;
    w->by_number.length = sizeof w->number;
    hf__map_add(asking, &w->by_number);
    w->floor = w->entry->core->highest_token;
}

/* Whether it stands in the store's line, and until when at most. */
static void set_placed(hf__wait *w, hf__time until) {
    if (until && !w->placed_until) w->entry->core->standing++;
    if (!until && w->placed_until) w->entry->core->standing--;
    w->placed_until = until;
}

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

void hf__entry_forget(hf__wait *w, hf__time now) {
    unlink_wait(w);
    hf__entry_step(w->entry, now);
}

/* An upgrade that is not wanted any more: the next renewal says what is held instead, at once. */
static void take_back(hf__entry *e) {
    if (e->own) e->own->check = true;
    e->next_try = 0;
}

/* Until when an upgrade may stand in line, for all that was asked and not heard of. */
static hf__time upgrade_stands_until(const hf__entry *e, const hf__wait *w) {
    hf__time latest = e->busy && e->asker == w ? e->op.not_after : 0;
    latest = hf__later(latest, e->late_until);
    return latest ? hf__later(w->placed_until, hf__after_ms(latest, HF__PLACE_MS))
                  : w->placed_until;
}

static void forgo_upgrade(hf__entry *e, const hf__wait *w) {
    hf__time until = upgrade_stands_until(e, w);
    take_back(e);
    if (e->own)
        e->own->stands_until = hf__later(e->own->stands_until, until);
    else
        hf__entry_haunt_line(e, w->number, until);
}

/* What a wait that ends has in the store, or may have, is to be undone. */
void hf__wait_forgo(hf__wait *w) {
    hf__entry *e = w->entry;
    if (w->upgrade) {
        forgo_upgrade(e, w);
        return;
    }
    /* An ask of its number that is late somewhere must find that it is no longer wanted. */
    if (w->number && e->late_until)
        hf__entry_haunt_line(e, w->number, gone_by(e, e->late_until, w->lease_ms));
    hf__entry_haunt_line(e, w->number, w->placed_until); /* it leaves the line */
}

void hf__upgrades_finish(hf__entry *e, hf_result result, const char *detail) {
    for (hf__wait *w = e->head, *next; w; w = next) {
        next = w->next;
        if (w->upgrade) hf__wait_finish(w, result, detail ? strdup(detail) : NULL);
    }
}

void hf__wait_finish(hf__wait *w, hf_result result, char *detail) {
    hf__entry *e = w->entry;
    unlink_wait(w);
    if (result != HF_OK) e->core->stats.refused++;
    if (result != HF_OK) hf__wait_forgo(w);
    set_placed(w, 0);
    set_number(w, 0);
    if (e->asker == w) e->asker = NULL;
    hf__call_finish(e->core, &w->call, result, detail);
}

/* What a wait that ends without an answer may say. */
static hf_result outcome(const hf__wait *w, hf_result why, bool asking) {
    if (why != HF_TIMEOUT && why != HF_UNREACHABLE) return why;
    const hf__entry *e = w->entry;
    const hf__store *store = e->core->store;
    if (w->upgrade && (why == HF_UNREACHABLE || !e->trouble_since)) return why;
    if (w->upgrade) return HF_UNREACHABLE;
    if (store->asks_anew && store->down_result) return store->down_result; /* all is undone */
    if (w->maybe || (asking && (e->trouble_since || !e->told))) return HF_UNKNOWN_OUTCOME;
    bool others = e->told || e->own || e->head != w || /* had it, or came before */
                  (e->busy && e->asker != w);
    if (!e->trouble_since && others) return HF_TIMEOUT;
    if (w->placed_until) return HF_UNKNOWN_OUTCOME; /* it may have been handed the lock meanwhile */
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
    if ((asking || w->maybe) && !w->upgrade) {
        hf__time latest = hf__later(e->op.not_after, now);
        hf__entry_haunt_line(e, w->number, gone_by(e, latest, w->lease_ms));
    }
    hf__wait_finish(w, result, outcome_line(w, result));
}

/* Waits end when the store has been silent for too long, each counted from when it began. Not those
   behind a hold of this client: it is not the store that they wait for. */
static bool awaits(const hf__entry *e) {
    return e->head && (!e->own || e->head->upgrade);
}

static void fail_troubled(hf__entry *e, hf__time now) {
    if (!e->trouble_since || !awaits(e)) return;
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
    if (!e->trouble_since || !awaits(e)) return HF__NEVER;
    return hf__later(e->trouble_since, e->head->began) + e->core->config.outage_ms * HF__MS;
}

/* ---- Granting ---- */

void hf__own_join(hf__own *own, hf__wait *w) {
    w->hold->owner = w->owner;
    hf__hold_attach(w->hold, own);
    hf__own_unref(w->own);
    w->own = NULL;
    own->entry->core->stats.reentered++;
}

/* Waits of the owner that holds now: one owner in several threads re-enters. Readers who wait together enter
   together. */
static void join_others(hf__entry *e) {
    for (hf__wait *w = e->head, *next; w; w = next) {
        next = w->next;
        hf__own *own = e->own;
        if (own->kind != HF_READ && !hf__owner_same(w->owner, own->owner)) continue;
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

/* Others wait: readers who come later are not to go past them. */
static hf__time joinable_until(const hf__own *own, const hf__op *op) {
    bool plain = own->kind == HF_READ && !own->alone && own->max_until == HF__NEVER &&
                 !(own->flags & (HF_NO_RENEW | HF_NOT_REENTRANT));
    return plain && !op->crowded ? hf__after_ms(op->asked_at, JOIN_MS) : 0;
}

static void fill_own(hf__own *own, const hf__wait *w, const hf__op *op, hf__core *core,
                     hf__time now) {
    own->token = op->token;
    own->number = op->number;
    own->owner = w->owner;
    own->lease_ms = w->lease_ms;
    own->flags = w->flags;
    own->alone = w->alone;
    own->kind = own->posted_kind = w->kind;
    own->first_kind = w->kind == HF_WRITE ? HF_READ : w->kind;
    own->posted = 1;
    own->renew_at = w->flags & HF_NO_RENEW ? HF__NEVER : renew_at(core, op->asked_at, op->lease_ms);
    own->max_until = max_until(w, op);
    own->joinable_until = joinable_until(own, op);
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
    w->hold->owner = w->owner;
    hf__hold_attach(w->hold, own);
    core->stats.acquired++;
    core->stats.held++;
    e->held_since = e->op.asked_at;
    lay_ghost(e);   /* older numbers of ours were replaced */
    e->told = true; /* to whoever waits behind it */
    hf__wait_finish(w, HF_OK, NULL);
    join_others(e);
    hf__lanes_granted(own);
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
    hf__entry_haunt_line(e, op->number, hf__lease_lapse(now, op->lease_ms));
    if (!w) return;
    set_number(w, 0);
    w->maybe = true; /* it was granted, and that is yet to be undone */
    e->next_try = hf__lease_retry_at(now, op->lease_ms, e->tries++, &e->core->rand);
    if (w->once)
        hf__wait_finish(w, HF_UNKNOWN_OUTCOME,
                        hf__line("the store's answer came after the lease had run out; it is "
                                 "undone; use a lease well above the round trip"));
}

/* It was sent, so it may have been done, up to now. */
static void may_last(hf__own *own, int64_t lease_ms, hf__time now) {
    own->lapses_at = hf__later(own->lapses_at, hf__lease_lapse(now, lease_ms));
}

/* What was read is written now. */
static void upgraded(hf__entry *e, hf__wait *w, hf__time now) {
    hf__own *own = e->own;
    const hf__op *op = &e->op;
    if (op->token > e->core->highest_token) e->core->highest_token = op->token;
    may_last(own, op->lease_ms, now);
    if (!w) { /* too late */
        take_back(e);
        return;
    }
    hf__time deadline = hf__sooner(hf__lease_deadline(op->asked_at, op->lease_ms), own->max_until);
    atomic_store(&own->deadline, hf__later(deadline, atomic_load(&own->deadline)));
    atomic_store(&own->token, op->token);
    if (own->kind != HF_WRITE) own->first_kind = own->kind;
    own->kind = own->posted_kind = HF_WRITE;
    hf__wait_finish(w, HF_OK, NULL);
}

static int64_t lease_of(const hf__wait *w) {
    int64_t bound = w->max_hold_ms ? hf__lease_covering(w->max_hold_ms) : w->lease_ms;
    return bound < w->lease_ms ? bound : w->lease_ms;
}

/* A wait that stands in line was granted the lock. It enters on the message where it is sure when the
   grant was made, and that no later answer said otherwise; else it asks, and is told. A number that was
   asked for on two connections may stand in the lines of two servers: it always asks. So does who
   cannot renew soon: a grant is short until then. */
static void enter(hf__entry *e, hf__wait *w, const hf__news *news, hf__time now) {
    bool renews = !(w->flags & HF_NO_RENEW) && !e->core->config.unattended;
    bool one_link = news->link == w->first_link && news->link == e->core->link;
    bool sure = news->asked_at && one_link && news->token > w->told_token &&
                news->lease_ms <= lease_of(w) && !w->maybe && renews;
    hf__op *op = &e->op;
    if (!sure) {
        e->next_try = 0;
        return;
    }
    op->number = news->number;
    op->token = news->token;
    op->lease_ms = news->lease_ms;
    op->asked_at = news->asked_at;
    op->crowded = true; /* for all that was said */
    asked_granted(e, w, now);
}

/* It was sent and not heard of: it may have been done, or be done yet. */
static void asked_unheard(hf__entry *e, hf__wait *w) {
    const hf__op *op = &e->op;
    e->late_until = hf__later(e->late_until, hf__after_ms(op->not_after, DRIFT_MS));
    if (w)
        w->maybe = true; /* asks again, or haunts when it ends */
    else
        hf__entry_haunt_line(e, op->number, gone_by(e, op->not_after, op->lease_ms));
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

static void enter_early(hf__entry *e, hf__wait *w, hf__time now) {
    hf__news news = w->early;
    w->early.number = 0;
    enter(e, w, &news, now);
}

static void renew_lost(hf__entry *e, hf__time now) {
    hf__own *own = e->own;
    if (e->late_until > now) /* its ask may come late, and take the lock again for nobody */
        hf__entry_haunt(e, own->number, hf__lease_lapse(e->late_until, own->lease_ms));
    if (!e->core->store->forgets) /* it waits for us to let go, now that its holder knows */
        hf__entry_haunt(e, own->number, own->lapses_at);
    hf__own_lose(own, LOST_STORE);
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
    if (op->upgrade && e->own && op->result == HF_OK) {
        upgraded(e, w, now);
    } else if (op->upgrade && e->own && op->result == HF_LOST) {
        renew_lost(e, now);
    } else if (op->upgrade && !w && e->own) {
        take_back(e);
    } else if (op->result == HF_OK) {
        asked_granted(e, w, now);
    } else if (op->result == HF_BUSY) {
        e->told = true;
        e->next_try = e->again ? now : now + hf__jitter(&e->core->rand, op->retry_ms * HF__MS);
        hf__time placed_until = op->placed ? hf__after_ms(now, HF__PLACE_MS) : 0;
        if (!w) {
            hf__entry_haunt_line(e, op->number, placed_until);
            return;
        }
        set_placed(w, placed_until);
        w->told_token = op->told_token;
        e->op.attempt++;
        if (w->once)
            hf__wait_finish(w, HF_BUSY, hf__line("another holds the lock"));
        else if (w->early.number)
            enter_early(e, w, now);
    } else if (op->result == HF_TIMEOUT && !(w && w->once)) {
        e->next_try = hf__lease_retry_at(now, op->lease_ms, e->tries++, &e->core->rand);
    } else if (w && op->result == HF_INVALID && w->kind == HF_PERMITS && !op->detail) {
        hf__wait_finish(w, HF_INVALID,
                        hf__line("a capacity of %" PRIu32 " was asked for, and permits of a "
                                 "capacity of %" PRIu32 " are in use",
                                 w->capacity, op->capacity));
    } else if (w) {
        hf__wait_finish(w, op->result == HF_TIMEOUT ? HF_UNREACHABLE : op->result, op->detail);
        op->detail = NULL;
    }
}

/* The answer to the release that carried it is also that to an ask of the heir. */
static void inherited(hf__entry *e, hf__time now) {
    hf__op *op = &e->op;
    const hf__heir heir = op->heir;
    if (!heir.number) return;
    op->heir.number = 0;
    bool answered = op->result == HF_OK && heir.result != HF_NOT_HELD;
    if (op->result != HF_UNREACHABLE && !answered && !op->maybe) { /* nothing was done for it */
        e->asker = NULL;
        return;
    }
    op->number = heir.number;
    op->lease_ms = heir.lease_ms;
    op->token = heir.token;
    op->not_after = heir.not_after;
    op->retry_ms = heir.retry_ms;
    op->placed = heir.result == HF_BUSY;
    op->told_token = heir.told_token;
    if (op->maybe && op->result != HF_UNREACHABLE) { /* no answer that could be understood */
        asked_unheard(e, e->asker);
        e->asker = NULL;
        return;
    }
    if (op->result != HF_UNREACHABLE) op->result = heir.result;
    asked(e, now);
}

/* A message that a wait has the lock may overtake the answer that it stands in line. */
void hf__entry_granted(hf__entry *e, hf__wait *w, const hf__news *news, hf__time now) {
    if (w->upgrade) {
        e->next_try = 0;
        e->again = e->busy;
        hf__entry_step(e, now);
        return;
    }
    if (e->own || e->head != w) return;
    if (e->busy) {
        if (e->asker == w) w->early = *news;
        return;
    }
    enter(e, w, news, now);
    hf__entry_step(e, now);
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
    own->posted_kind = own->telling_kind;
    if (!op->upgrade) own->stands_until = 0;
    e->core->stats.renewed++;
    if (op->lease_ms) {
        hf__time deadline = hf__lease_deadline(op->asked_at, op->lease_ms);
        deadline = hf__later(deadline, atomic_load(&own->deadline));
        atomic_store(&own->deadline, hf__sooner(deadline, own->max_until));
        may_last(own, op->lease_ms, now);
    }
    if (!(own->flags & HF_NO_RENEW)) own->renew_at = renew_at(e->core, op->asked_at, own->lease_ms);
    own->joinable_until = joinable_until(own, op);
    hf__calls_finish(e->core, &e->extending, HF_OK, NULL);
}

static void renewed(hf__entry *e, hf__time now) {
    hf__own *own = e->own;
    if (e->op.result == HF_OK || e->op.result == HF_LOST) hf__entry_trouble_over(e);
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
    case HF__RELEASE:
        released(e, now);
        inherited(e, now);
        break;
    default: break;
    }
    free(e->op.detail);
    e->op.detail = NULL;
    e->again = false;
    hf__entry_step(e, now);
}

/* ---- Sending ---- */

static void prepare_op(hf__entry *e, hf__verb verb, uint64_t number) {
    hf__op *op = &e->op;
    op->verb = verb;
    op->number = number;
    op->name = e->mapped.key;
    op->name_length = e->name_length;
    op->result = HF_OK;
    op->maybe = op->placed = op->crowded = false;
    op->detail = NULL;
    op->together = NULL;
    e->busy = true;
}

static void send(hf__entry *e, hf__verb verb, uint64_t number, hf__time now) {
    prepare_op(e, verb, number);
    e->core->store->table->submit(e->core->store, &e->op, now);
}

static void begin_asking(hf__entry *e, hf__wait *w) {
    if (!w->number) e->op.attempt = 0;
    if (!w->number || e->core->store->asks_anew)
        set_number(w, e->lane ? e->lane : ++e->core->last_number);
    if (!w->first_link) w->first_link = e->core->link;
    e->asker = w;
}

static hf__time ask_until(const hf__entry *e, const hf__wait *w, hf__time now) {
    return hf__sooner(w->until, hf__after_ms(now, e->core->config.command_timeout_ms));
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

/* An ask that came late may have found the lock held by another, and stand in line for nobody. */
static bool late_may_stand(const hf__entry *e, hf__time now) {
    return e->late_until && now < hf__after_ms(e->late_until, HF__PLACE_MS);
}

static void prepare_ask(hf__entry *e, hf__time now) {
    hf__wait *w = e->head;
    begin_asking(e, w);
    e->op.owner = w->owner;
    e->op.count = 1;
    e->op.kind = w->kind;
    e->op.permits = w->permits;
    e->op.capacity = w->capacity;
    e->op.upgrade = w->upgrade;
    e->op.upgrades = e->own ? e->own->upgrades : 0;
    e->op.stand = !w->once;
    e->op.succeeds = e->ghost_stands && !e->ghost_held;
    e->op.lease_ms = w->upgrade ? lease_to_ask(e->own, now) : lease_of(w);
    e->op.token = w->floor;
    e->op.not_after = ask_until(e, w, now);
    prepare_op(e, HF__ASK, w->number);
}

static void send_ask(hf__entry *e, hf__time now) {
    prepare_ask(e, now);
    e->core->store->table->submit(e->core->store, &e->op, now);
}

hf__op *hf__entry_ask_with(hf__entry *e, hf__op *together, hf__time now) {
    prepare_ask(e, now);
    e->op.together = together;
    return &e->op;
}

/* The next one asks in one step with the release before it. */
static void add_heir(hf__entry *e, hf__time now) {
    hf__wait *w = e->head;
    e->op.heir = (hf__heir){0};
    if (e->lane) return;
    if (!e->core->store->hands_on || !w || w->number || w->once || now >= w->until) return;
    begin_asking(e, w);
    e->op.heir = (hf__heir){.number = w->number,
                            .owner = w->owner,
                            .lease_ms = lease_of(w),
                            .token = w->floor,
                            .not_after = ask_until(e, w, now),
                            .result = HF_NOT_HELD};
}

static void send_renew(hf__entry *e, hf__time now) {
    hf__own *own = e->own;
    e->op.owner = own->owner;
    bool upgrading = e->head && e->head->upgrade; /* which a lower kind would give up */
    e->op.kind = upgrading ? HF_WRITE : own->kind;
    e->op.upgrade = upgrading;
    e->op.upgrades = own->upgrades;
    own->telling_kind = own->kind;
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
    e->op.kind = e->kind;
    e->op.upgrade = false;
    e->op.lease_ms = e->core->config.lease_ms;
    e->op.held_since = e->held_since;
    e->op.bury_until = e->late_until > now ? e->late_until : 0;
    e->op.gone_by = e->ghost_until;
    e->op.leave = e->ghost_stands || late_may_stand(e, now);
    add_heir(e, now);
    send(e, HF__RELEASE, e->ghost, now);
}

/* The store is to be asked or told something, of a hold that need not be renewed yet. */
static bool untold(const hf__own *own) {
    return own->check || own->posted != own->count || own->posted_kind != own->kind;
}

static bool renew_wanted(const hf__entry *e, hf__time now) {
    const hf__own *own = e->own;
    if (!own) return false;
    if (own->extends || now >= own->renew_at) return true;
    return untold(own) && now >= e->next_try;
}

static void send_next(hf__entry *e, hf__time now) {
    if (e->ghost_let_go && now >= e->next_try)
        send_release(e, now);
    else if (renew_wanted(e, now))
        send_renew(e, now);
    else if (e->head && now < e->head->until && !e->own == !e->head->upgrade && !e->ghost_let_go) {
        if (now >= e->next_try) send_ask(e, now);
    } else if (e->ghost && !e->own && !(e->lane && e->head) && now >= e->next_try)
        send_release(e, now); /* not while others may ask under the lane's number */
}

/* ---- The step ---- */

static hf__time earliest(const hf__entry *e) {
    hf__time due = trouble_due(e);
    bool may_send = e->core->link && !e->busy;
    if (e->own) {
        due = hf__sooner(due, atomic_load(&e->own->deadline));
        if (may_send) due = hf__sooner(due, e->own->renew_at);
        if (may_send && untold(e->own)) due = hf__sooner(due, e->next_try);
        if (may_send && e->head && e->head->upgrade) due = hf__sooner(due, e->next_try);
    } else if (may_send && ((e->head && e->next_try < e->head->until) || e->ghost)) {
        due = hf__sooner(due, e->next_try);
    }
    return hf__sooner(due, forgotten_at(e));
}

bool hf__entry_idle(const hf__entry *e) {
    return !e->busy && !e->head && !e->own && !e->ghost && !e->ghost_calls && !e->lanes;
}

static void drop(hf__entry *e) {
    hf__core *core = e->core;
    hf__heap_remove(&core->timers, &e->timer);
    hf__map_remove(&core->entries, &e->mapped);
    if (e->anchor) { /* it goes in a step of its own: whoever walks over entries may have it in hand */
        hf__lane_drop(e);
        hf__heap_set(&core->timers, &e->anchor->timer, 0);
    }
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
    if (awaits(e) && !e->trouble_since) hf__entry_trouble(e, NULL, now);
    fail_troubled(e, now);
    if (e->own)
        hf__calls_finish(e->core, &e->own->extends, HF_UNREACHABLE, e->core->store->down_detail);
}

/* Do what is to be done next, and plan when to look again. Frees the entry when it is done with. */
void hf__entry_step(hf__entry *e, hf__time now) {
    hf__entry_expire(e, now);
    if (!e->core->link) away(e, now);
    if (e->core->link && !e->busy) send_next(e, now);
    if (hf__entry_idle(e))
        drop(e);
    else
        hf__heap_set(&e->core->timers, &e->timer, earliest(e));
}
