/* SPDX-License-Identifier: Apache-2.0 */
/* The front of the core: requests of callers and events, each passed to the entry it concerns. */
#include "core/core_internal.h"

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

hf__core *hf__core_new(hf__store *store, const hf__core_config *config, uint64_t seed) {
    hf__core *core = malloc(sizeof *core);
    if (core) hf__core_init(core, store, config, seed);
    return core;
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

void hf__core_free(hf__core *core) {
    if (core) hf__core_fini(core);
    free(core);
}

/* ---- Calls ---- */

void hf__calls_push(hf__calls *calls, hf__call *call) {
    hf__fifo_push(calls, call);
}

hf__call *hf__calls_pop(hf__calls *calls) {
    hf__call *call = hf__fifo_first(calls);
    if (call) hf__fifo_shift(calls);
    return call;
}

void hf__calls_remove(hf__calls *calls, const hf__call *call) {
    hf__calls all = *calls;
    *calls = (hf__calls){0};
    for (hf__call *each; (each = hf__calls_pop(&all));)
        if (each != call) hf__calls_push(calls, each);
}

void hf__call_finish(hf__core *core, hf__call *call, hf_result result, char *detail) {
    call->done = true;
    call->result = result;
    call->detail = detail;
    if (call->multi)
        hf__multi_part_done(call->multi);
    else
        hf__calls_push(&core->finished_calls, call);
}

void hf__calls_finish(hf__core *core, hf__calls *calls, hf_result result, const char *detail) {
    for (hf__call *call; (call = hf__calls_pop(calls));)
        hf__call_finish(core, call, result, detail ? strdup(detail) : NULL);
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
    w->contended = e->ownership || e->waits.first;
    hf__list_append(&e->waits, w, link);
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
    if (w->try_once && e->waits.first) {
        refuse_wait(e->core, w, HF_BUSY,
                    hf__line("other calls of this client are waiting for the lock"));
        return;
    }
    if (!e->waits.first && e->core->link)
        hf__entry_clear_outage(e); /* the first wait: start afresh */
    if (!e->waits.first && !e->release_calls.last) e->next_try_at = 0;
    if (!e->waits.first) e->known_busy = ownership != NULL;
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
    for (hf__entry *e = name_entry->sides.first; e; e = e->side.next) hf__entry_expire(e, now);
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
        bool queues = name_entry->waits.first && !name_entry->waits.first->try_once;
        for (hf__entry *e = name_entry->sides.first; e && queues; e = e->side.next)
            if (e->deferred && e->waits.first) (void)hf__entry_admit(e, now);
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
    if (w->kind == HF_MUTEX && !e->sides.first) {
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

/* The ownership has ended: say why. */
static void refuse_ended(hf__core *core, const hf__ownership *ownership, hf__call *call) {
    const char *why = atomic_load(&ownership->lost_reason);
    hf__call_finish(core, call, hf__ownership_end_result(ownership), why ? strdup(why) : NULL);
}

/* ---- Releasing ---- */

void hf__core_release(hf__core *core, hf__handle *handle, hf__call *call, hf__time now) {
    hf__ownership *ownership = handle->ownership;
    hf__entry *e = ownership->entry;
    if (e) hf__entry_expire(e, now);
    atomic_store(&handle->released, true);
    hf__handle_detach(handle);
    handle->release_entry = e;
    if (ownership->entry && ownership->count > 0) {
        if (call) hf__call_finish(core, call, HF_OK, NULL);
    } else if (ownership->entry) {
        hf__grant_give_back(e);
        e->release_requested = true;
        e->release_unknown = false; /* no RELEASE of this hold was sent yet */
        e->pending_release_token = e->grant->token;
        hf__ownership_end(ownership, HF__RELEASED, now);
        if (call) hf__calls_push(&e->release_calls, call);
    } else if (call) {
        refuse_ended(core, ownership, call);
    }
    if (e) hf__entry_step(e, now);
}

/* ---- Callers that stop waiting ---- */

void hf__core_release_unwait(hf__core *core, const hf__handle *handle, hf__call *call) {
    hf__entry *e = handle->release_entry;
    hf__calls_remove(&e->release_calls, call);
    hf__calls_remove(&e->sent_release_calls, call);
    hf__call_finish(core, call, HF_UNKNOWN_OUTCOME,
                    hf__line("the store did not confirm the release in time; it is retried in the "
                             "background until the lease expires"));
}

void hf__core_extend_unwait(hf__core *core, hf__handle *handle, hf__call *call) {
    hf__ownership *ownership = handle->ownership;
    hf__calls_remove(&ownership->extend_calls, call);
    if (ownership->entry) hf__calls_remove(&ownership->entry->extending, call);
    hf__call_finish(
        core, call, HF_UNKNOWN_OUTCOME,
        hf__line(
            "the store did not confirm the extension in time; the old deadline still applies"));
}

/* ---- Extending ---- */

void hf__core_extend(hf__core *core, hf__handle *handle, int64_t lease_ms, hf__call *call,
                     hf__time now) {
    hf__ownership *ownership = handle->ownership;
    hf__entry *e = ownership->entry;
    if (e) hf__entry_expire(e, now);
    if (!ownership->entry) {
        refuse_ended(core, ownership, call);
    } else {
        if (lease_ms > ownership->extend_ms) ownership->extend_ms = lease_ms;
        hf__calls_push(&ownership->extend_calls, call);
    }
    if (e) hf__entry_step(e, now);
}

/* ---- Exporting ---- */

/* If the ownership has ended, hf__core_extend reports why. */
void hf__core_export(hf__core *core, hf__handle *handle, const hf__exported *exported,
                     hf__call *call, hf__time now) {
    hf__ownership *ownership = handle->ownership;
    hf__entry *e = ownership->entry;
    if (e) hf__entry_expire(e, now);
    if (!ownership->entry) {
        hf__core_extend(core, handle, 0, call, now);
        return;
    }
    if (ownership->export_calls.last || e->exporting.last) {
        hf__call_finish(core, call, HF_INVALID, hf__line("another call is exporting this hold"));
        return;
    }
    if (!hf__entry_reserve_export(e)) {
        hf__call_finish(core, call, HF_NOMEM, NULL);
        return;
    }
    *e->exported = *exported;
    ownership->flags |= HF_NOT_REENTRANT; /* no re-entry into a hold that is about to leave */
    hf__calls_push(&ownership->export_calls, call);
    hf__entry_step(e, now);
}

void hf__core_export_unwait(hf__core *core, hf__handle *handle, hf__call *call) {
    hf__ownership *ownership = handle->ownership;
    hf__calls_remove(&ownership->export_calls, call);
    if (ownership->entry) hf__calls_remove(&ownership->entry->exporting, call);
    hf__call_finish(core, call, HF_UNKNOWN_OUTCOME, NULL);
}

/* ---- Upgrading and downgrading ---- */

void hf__core_upgrade(hf__core *core, hf__handle *handle, hf__wait *w, hf__time now) {
    hf__ownership *ownership = handle->ownership;
    hf__entry *e = ownership->entry;
    if (e) hf__entry_expire(e, now);
    if (!ownership->entry) {
        if (!w->call.multi) core->stats.refused++;
        refuse_ended(core, ownership, &w->call);
    } else if (ownership->kind == HF_WRITE || ownership->kind == HF_MUTEX) {
        hf__call_finish(core, &w->call, HF_OK, NULL);
    } else if (w->try_once && e->waits.first) {
        refuse_wait(core, w, HF_BUSY, hf__line("another upgrade of this hold is waiting"));
    } else {
        w->upgrade = true;
        e->grant->upgrades++;
        w->kind = HF_WRITE;
        w->lease_ms = e->grant->lease_ms;
        w->flags = ownership->flags;
        w->owner = ownership->owner;
        e->next_try_at = 0;
        e->known_busy = true;
        hf__entry_enqueue(e, w);
    }
    if (e) hf__entry_step(e, now);
}

void hf__core_downgrade(hf__core *core, hf__handle *handle, hf__call *call, hf__time now) {
    hf__ownership *ownership = handle->ownership;
    if (ownership->entry) hf__entry_expire(ownership->entry, now);
    if (ownership->entry && ownership->kind == HF_WRITE) ownership->kind = ownership->first_kind;
    hf__core_extend(core, handle, 0, call, now);
}

void hf__core_verify(hf__core *core, const hf__handle *handle, hf__time now) {
    hf__entry *e = handle->ownership->entry;
    (void)core;
    if (!e) return;
    e->grant->verify = true;
    hf__entry_step(e, now);
}

/* ---- Closing ---- */

/* End the hold first: its upgrade ends with it. */
static void close_entry(hf__entry *e, hf__time now) {
    if (e->ownership) {
        hf__grant_give_back(e);
        hf__ownership_end(e->ownership, HF__ENDED, now);
    }
    while (e->waits.first) hf__wait_give_up(e->waits.first, HF_CLOSED, now);
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

void hf__core_close_unwait(hf__core *core) {
    core->close_call = NULL;
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
    if (e->grant) e->grant->verify = true;
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
    for (hf__entry *e = name_entry->sides.first, *next; e; e = next) {
        next = e->side.next;
        recheck_entry(e, now);
    }
    recheck_entry(name_entry, now);
}

static void recheck_waits(hf__core *core, hf__time now) {
    for (hf__mapped *m = hf__map_next(&core->entries, NULL), *next; m; m = next) {
        next = hf__map_next(&core->entries, m);
        hf__entry *e = entry_of(m, mapped);
        if (e->waits.first) recheck_entry(e, now);
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

hf__call *hf__core_next_finished(hf__core *core) {
    return hf__calls_pop(&core->finished_calls);
}

bool hf__core_has_finished(const hf__core *core) {
    return core->finished_calls.last;
}

hf__ownership *hf__core_next_lost(hf__core *core) {
    hf__ownership *ownership = hf__fifo_first(&core->lost);
    if (ownership) hf__fifo_shift(&core->lost);
    return ownership;
}

/* ---- The client's own requests ---- */

uint64_t hf__core_new_acquire_id(hf__core *core) {
    return ++core->last_acquire_id;
}

hf_stats *hf__core_stats(hf__core *core) {
    return &core->stats;
}

bool hf__core_connected(const hf__core *core) {
    return core->link;
}

bool hf__core_queued(const hf__core *core) {
    return core->queued_waits;
}
