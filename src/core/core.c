/* SPDX-License-Identifier: Apache-2.0 */
/* The front of the core: requests of callers and events, each passed to the entry it concerns. */
#include "core/entry.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/probe.h"
#include "core/lease.h"

#define entry_of(pointer, member) ((hf__entry *)((char *)(pointer)-offsetof(hf__entry, member)))

void hf__core_init(hf__core *core, hf__store *store, const hf__core_config *config, uint64_t seed) {
    *core = (hf__core){.store = store, .config = *config, .rand = {seed}, .renew_phase = seed};
    hf__map_init(&core->entries, hf__rand_next(&core->rand));
    hf__map_init(&core->waits_by_acquire_id, hf__rand_next(&core->rand));
    core->link = store->up ? store->link : 0;
}

void hf__core_fini(hf__core *core) {
    for (hf__mapped *m; (m = hf__map_next(&core->entries, NULL));) {
        hf__entry *e = entry_of(m, mapped);
        hf__map_remove(&core->entries, m);
        free(e->op.detail);
        hf__entry_free(e);
    }
    hf__map_fini(&core->entries);
    hf__map_fini(&core->waits_by_acquire_id);
}

/* ---- Calls ---- */

void hf__call_push(hf__call **list, hf__call *call) {
    call->next = *list;
    *list = call;
}

void hf__call_unlink(hf__call **list, hf__call *call) {
    while (*list && *list != call) list = &(*list)->next;
    if (*list) *list = call->next;
}

void hf__call_finish(hf__core *core, hf__call *call, hf_result result, char *detail) {
    call->done = true;
    call->result = result;
    call->detail = detail;
    if (call->multi)
        hf__multi_part_done(call->multi);
    else
        hf__call_push(&core->finished_calls, call);
}

void hf__calls_finish(hf__core *core, hf__call **list, hf_result result, const char *detail) {
    while (*list) {
        hf__call *call = *list;
        *list = call->next;
        hf__call_finish(core, call, result, detail ? strdup(detail) : NULL);
    }
}

/* ---- Entries by name ---- */

hf__entry *hf__entry_get(hf__core *core, const char *name, size_t length) {
    hf__mapped *m = hf__map_find(&core->entries, name, length);
    if (m) return entry_of(m, mapped);
    hf__entry *e = calloc(1, sizeof *e + length + 1);
    if (!e) return NULL;
    char *key = (char *)(e + 1);
    memcpy(key, name, length);
    e->core = core;
    e->mapped.key = key;
    e->mapped.length = e->name_length = length;
    hf__map_add(&core->entries, &e->mapped);
    return e;
}

/* ---- Acquiring ---- */

/* A wait that never entered the queue. */
static void refuse_wait(hf__core *core, hf__wait *w, hf_result result, char *detail) {
    if (!w->call.multi) core->stats.refused++;
    hf__call_finish(core, &w->call, result, detail);
}

static void reenter_ownership(hf__core *core, hf__wait *w, hf__ownership *ownership) {
    if ((w->flags | ownership->flags) & HF_NOT_REENTRANT) {
        refuse_wait(core, w, HF_DEADLOCK,
                    hf__line("this owner already holds the lock, and HF_NOT_REENTRANT forbids "
                             "acquiring it again; waiting would never end"));
    } else if (ownership->count >= HF_COUNT_MAX) {
        refuse_wait(core, w, HF_INVALID,
                    hf__line("this owner has acquired the lock %d times, which is the maximum",
                             HF_COUNT_MAX));
    } else {
        hf__ownership_join(ownership, w);
        hf__call_finish(core, &w->call, HF_OK, NULL);
    }
}

void hf__entry_enqueue(hf__entry *e, hf__wait *w) {
    w->entry = e;
    w->contended = e->ownership || e->tail;
    w->prev = e->tail;
    w->next = NULL;
    if (e->tail)
        e->tail->next = w;
    else
        e->head = w;
    e->tail = w;
    e->core->stats.waiting++;
}

static void acquire_mutex(hf__entry *e, hf__wait *w) {
    const hf__ownership *ownership = e->ownership;
    if (w->try_once && ownership) {
        /* If this client holds the name, the exported hold is gone, or was adopted already. */
        refuse_wait(e->core, w, w->exported ? HF_LOST : HF_BUSY,
                    hf__line("another owner of this client holds the lock"));
        return;
    }
    if (w->try_once && e->head) {
        refuse_wait(e->core, w, HF_BUSY,
                    hf__line("other calls of this client are waiting for the lock"));
        return;
    }
    if (!e->head && e->core->link) hf__entry_clear_outage(e); /* the first wait: start afresh */
    if (!e->head && !e->release_calls) e->next_try_at = 0;
    if (!e->head) e->known_busy = ownership != NULL;
    hf__entry_enqueue(e, w);
}

/* This owner already holds the name, as some kind. */
static void acquire_more(hf__wait *w, hf__ownership *ownership, hf__core *core) {
    if (hf__kind_covers(ownership->kind, w->kind))
        reenter_ownership(core, w, ownership);
    else
        refuse_wait(core, w, HF_DEADLOCK, hf__kind_deadlock_line(ownership->kind, w->kind));
}

static void acquire_side(hf__entry *name_entry, hf__wait *w, hf__time now) {
    hf__ownership *ownership;
    hf__entry *side = hf__side_for(name_entry, w, now, &ownership);
    if (!side) {
        refuse_wait(name_entry->core, w, HF_NOMEM, NULL);
    } else if (ownership) {
        hf__ownership_join(ownership, w);
        hf__call_finish(name_entry->core, &w->call, HF_OK, NULL);
        hf__entry_step(side, now);
    } else {
        hf__entry_enqueue(side, w);
        hf__entry_step(side, now);
    }
}

/* The name has side entries. No entry is freed before the last step, which is the one of the name
   entry. */
static void acquire_with_sides(hf__entry *name_entry, hf__wait *w, hf__time now) {
    hf__entry_expire(name_entry, now);
    for (hf__entry *e = name_entry->sides; e; e = e->next_side) hf__entry_expire(e, now);
    hf__ownership *ownership = hf__sides_find_held(name_entry, w->owner);
    bool more = ownership && ownership->kind == HF_PERMITS && w->kind == HF_PERMITS &&
                !((ownership->flags | w->flags) & HF_NOT_REENTRANT);
    if (ownership && !more) {
        hf__entry *e = ownership->entry;
        acquire_more(w, ownership, name_entry->core);
        if (e != name_entry) hf__entry_step(e, now);
    } else if (w->kind == HF_MUTEX) {
        hf__sides_close(name_entry);
        acquire_mutex(name_entry, w);
        bool queues = name_entry->head && !name_entry->head->try_once;
        for (hf__entry *e = name_entry->sides; e && queues; e = e->next_side)
            if (e->deferred && e->head) (void)hf__entry_admit(e, now);
    } else {
        acquire_side(name_entry, w, now);
    }
    hf__entry_step(name_entry, now);
}

void hf__core_acquire(hf__core *core, hf__wait *w, const char *name, size_t length, hf__time now) {
    if (core->closing) {
        refuse_wait(core, w, HF_CLOSED, NULL);
        return;
    }
    hf__entry *e = hf__entry_get(core, name, length);
    if (!e) {
        refuse_wait(core, w, HF_NOMEM, NULL);
        return;
    }
    if (w->exported && !hf__entry_reserve_export(e)) {
        refuse_wait(core, w, HF_NOMEM, NULL);
        hf__entry_step(e, now);
        return;
    }
    HF__PROBE1(acquire, e->mapped.key);
    if (w->kind == HF_MUTEX && !e->sides) {
        hf__entry_expire(e, now);
        if (e->ownership && hf__owner_same(e->ownership->owner, w->owner))
            reenter_ownership(core, w, e->ownership);
        else
            acquire_mutex(e, w);
        hf__entry_step(e, now);
    } else {
        acquire_with_sides(e, w, now);
    }
}

/* ---- Giving up ---- */

void hf__core_give_up(hf__wait *w, hf_result why, hf__time now) {
    hf__entry *e = w->entry;
    hf__wait_give_up(w, why, now);
    hf__entry_step(e, now);
}

hf__time hf__wait_until(const hf__core *core, const hf__wait *w) {
    return w->try_once ? hf__after_ms(w->started_at, core->config.command_timeout_ms) : w->until;
}

/* ---- Releasing ---- */

void hf__core_release(hf__core *core, hf_hold *hold, hf__call *call, hf__time now) {
    hf__ownership *ownership = hold->ownership;
    hf__entry *e = ownership->entry;
    if (e) hf__entry_expire(e, now);
    hold->release_entry = e;
    atomic_store(&hold->released, true);
    hf__hold_detach(hold);
    if (ownership->entry && ownership->count > 0) {
        if (call) hf__call_finish(core, call, HF_OK, NULL);
    } else if (ownership->entry) {
        hf__entry_add_pending_release(e, ownership->acquire_id, ownership->lapses_at);
        hf__ownership_end(ownership, HF__RELEASED, now);
        e->release_requested = true;
        e->release_unknown = false; /* no RELEASE of this hold was sent yet */
        e->pending_release_token = atomic_load(&ownership->token);
        if (call) hf__call_push(&e->release_calls, call);
    } else if (call) {
        hf_result r = atomic_load(&ownership->state) == HF__ENDED ? HF_CLOSED : HF_LOST;
        const char *why = atomic_load(&ownership->lost_reason);
        hf__call_finish(core, call, r, why ? strdup(why) : NULL);
    }
    if (e) hf__entry_step(e, now);
}

/* ---- Callers that stop waiting ---- */

void hf__core_release_unwait(hf__core *core, const hf_hold *hold, hf__call *call) {
    hf__entry *e = hold->release_entry;
    hf__call_unlink(&e->release_calls, call);
    hf__call_unlink(&e->sent_release_calls, call);
    hf__call_finish(core, call, HF_UNKNOWN_OUTCOME,
                    hf__line("the store did not confirm the release in time; it is retried in the "
                             "background until the lease expires"));
}

void hf__core_extend_unwait(hf__core *core, hf__ownership *ownership, hf__call *call) {
    hf__call_unlink(&ownership->extend_calls, call);
    if (ownership->entry) hf__call_unlink(&ownership->entry->extending, call);
    hf__call_finish(
        core, call, HF_UNKNOWN_OUTCOME,
        hf__line(
            "the store did not confirm the extension in time; the old deadline still applies"));
}

/* ---- Extending ---- */

void hf__core_extend(hf__core *core, hf__ownership *ownership, int64_t lease_ms, hf__call *call,
                     hf__time now) {
    hf__entry *e = ownership->entry;
    if (e) hf__entry_expire(e, now);
    if (!ownership->entry) {
        int state = atomic_load(&ownership->state);
        hf_result r = state == HF__LOST ? HF_LOST : state == HF__ENDED ? HF_CLOSED : HF_NOT_HELD;
        const char *why = atomic_load(&ownership->lost_reason);
        hf__call_finish(core, call, r, why ? strdup(why) : NULL);
    } else {
        if (lease_ms > ownership->extend_ms) ownership->extend_ms = lease_ms;
        hf__call_push(&ownership->extend_calls, call);
    }
    if (e) hf__entry_step(e, now);
}

/* ---- Exporting ---- */

/* If the ownership has ended, hf__core_extend reports why. */
void hf__core_export(hf__core *core, hf__ownership *ownership, const hf__exported *exported,
                     hf__call *call, hf__time now) {
    hf__entry *e = ownership->entry;
    if (e) hf__entry_expire(e, now);
    if (!ownership->entry) {
        hf__core_extend(core, ownership, 0, call, now);
        return;
    }
    if (ownership->export_calls || e->exporting) {
        hf__call_finish(core, call, HF_INVALID, hf__line("another call is exporting this hold"));
        return;
    }
    if (!hf__entry_reserve_export(e)) {
        hf__call_finish(core, call, HF_NOMEM, NULL);
        return;
    }
    *e->exported = *exported;
    ownership->flags |= HF_NOT_REENTRANT; /* no re-entry into a hold that is about to leave */
    hf__call_push(&ownership->export_calls, call);
    hf__entry_step(e, now);
}

void hf__core_export_unwait(hf__core *core, hf__ownership *ownership, hf__call *call) {
    hf__call_unlink(&ownership->export_calls, call);
    if (ownership->entry) hf__call_unlink(&ownership->entry->exporting, call);
    hf__call_finish(core, call, HF_UNKNOWN_OUTCOME, NULL);
}

/* ---- Upgrading and downgrading ---- */

void hf__core_upgrade(hf__core *core, hf__ownership *ownership, hf__wait *w, hf__time now) {
    hf__entry *e = ownership->entry;
    if (e) hf__entry_expire(e, now);
    if (!ownership->entry) {
        int state = atomic_load(&ownership->state);
        const char *why = atomic_load(&ownership->lost_reason);
        refuse_wait(core, w,
                    state == HF__LOST    ? HF_LOST
                    : state == HF__ENDED ? HF_CLOSED
                                         : HF_NOT_HELD,
                    why ? strdup(why) : NULL);
    } else if (ownership->kind == HF_WRITE || ownership->kind == HF_MUTEX) {
        hf__call_finish(core, &w->call, HF_OK, NULL);
    } else if (w->try_once && e->head) {
        refuse_wait(core, w, HF_BUSY, hf__line("another upgrade of this hold is waiting"));
    } else {
        w->upgrade = true;
        ownership->upgrades++;
        w->kind = HF_WRITE;
        w->lease_ms = ownership->lease_ms;
        w->flags = ownership->flags;
        w->owner = ownership->owner;
        e->next_try_at = 0;
        e->known_busy = true;
        hf__entry_enqueue(e, w);
    }
    if (e) hf__entry_step(e, now);
}

void hf__core_downgrade(hf__core *core, hf__ownership *ownership, hf__call *call, hf__time now) {
    if (ownership->entry) hf__entry_expire(ownership->entry, now);
    if (ownership->entry && ownership->kind == HF_WRITE) ownership->kind = ownership->first_kind;
    hf__core_extend(core, ownership, 0, call, now);
}

/* ---- Closing ---- */

/* End the hold first: its upgrade ends with it. */
static void close_entry(hf__entry *e, hf__time now) {
    if (e->ownership) {
        hf__entry_add_pending_release(e, e->ownership->acquire_id, e->ownership->lapses_at);
        hf__ownership_end(e->ownership, HF__ENDED, now);
    }
    while (e->head) hf__wait_give_up(e->head, HF_CLOSED, now);
    hf__entry_step(e, now);
}

void hf__core_close(hf__core *core, hf__call *call, hf__time now) {
    core->closing = true;
    core->close_call = call;
    for (hf__mapped *m = hf__map_next(&core->entries, NULL), *next; m; m = next) {
        next = hf__map_next(&core->entries, m);
        close_entry(entry_of(m, mapped), now);
    }
    if (core->close_call && !core->entries.count) {
        core->close_call = NULL;
        hf__call_finish(core, call, HF_OK, NULL);
    }
}

/* ---- Events ---- */

void hf__core_complete(hf__core *core, hf__op *op, hf__time now) {
    (void)core;
    hf__entry_complete(entry_of(op, op), now);
}

/* Known state may be outdated: verify a hold at once, and repeat the ACQUIRE of a wait. */
static void recheck_entry(hf__entry *e, hf__time now) {
    e->next_try_at = 0;
    e->recheck = e->busy;
    if (e->ownership) e->ownership->verify = true;
    hf__entry_step(e, now);
}

void hf__core_link_changed(hf__core *core, hf__time now) {
    uint64_t link = core->store->up ? core->store->link : 0;
    if (link == core->link) return;
    core->link = link;
    for (hf__mapped *m = hf__map_next(&core->entries, NULL), *next; m; m = next) {
        next = hf__map_next(&core->entries, m);
        hf__entry *e = entry_of(m, mapped);
        if (link)
            recheck_entry(e, now);
        else
            hf__entry_step(e, now);
    }
}

/* A step may free a side entry; the name entry goes last. */
static void recheck_name(hf__entry *name_entry, hf__time now) {
    for (hf__entry *e = name_entry->sides, *next; e; e = next) {
        next = e->next_side;
        recheck_entry(e, now);
    }
    recheck_entry(name_entry, now);
}

static void recheck_waits(hf__core *core, hf__time now) {
    for (hf__mapped *m = hf__map_next(&core->entries, NULL), *next; m; m = next) {
        next = hf__map_next(&core->entries, m);
        hf__entry *e = entry_of(m, mapped);
        if (e->head) recheck_entry(e, now);
    }
}

/* Holds as well as waits. The key of a side entry begins with the name. */
static void recheck_matching(hf__core *core, const hf__notification *notification, hf__time now) {
    for (hf__mapped *m = hf__map_next(&core->entries, NULL), *next; m; m = next) {
        next = hf__map_next(&core->entries, m);
        hf__entry *e = entry_of(m, mapped);
        if (notification->matches(core->store, e->mapped.key, e->name_length))
            recheck_entry(e, now);
    }
}

void hf__core_notify(hf__core *core, const hf__notification *notification, hf__time now) {
    hf__mapped *m;
    switch (notification->type) {
    case HF__NAME_CHANGED:
        m = hf__map_find(&core->entries, notification->name, notification->length);
        if (m) recheck_name(entry_of(m, mapped), now);
        break;
    case HF__NAMES_CHANGED: recheck_matching(core, notification, now); break;
    case HF__NOTIFICATIONS_MISSED: recheck_waits(core, now); break;
    case HF__GRANTED:
        m = hf__map_find(&core->waits_by_acquire_id, (const char *)&notification->acquire_id,
                         sizeof notification->acquire_id);
        if (!m) break; /* it gave up; its pending release passes the grant on */
        hf__wait *w = (hf__wait *)((char *)m - offsetof(hf__wait, by_acquire_id));
        hf__entry_notify_granted(w->entry, w, notification, now);
        break;
    }
}

void hf__core_tick(hf__core *core, hf__time now) {
    hf__timer *due = NULL; /* drained first, because a step may set timers that are due now */
    for (hf__timer *t; (t = hf__heap_pop(&core->timers, now)); due = t) t->next_due = due;
    while (due) {
        hf__timer *t = due;
        due = t->next_due;
        hf__entry_step(entry_of(t, timer), now);
    }
}

hf__time hf__core_due(const hf__core *core) {
    return hf__heap_due(&core->timers);
}
