/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for a lock with a ticket, and passing it on to the next waiter. See queue.h. */
#include "store/file/queue.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "store/file/clofork.h"
#include "store/file/ranges.h"

#define UNWATCHED_TRIES 16
#define DROP_TRIES      3 /* after that the file is closed, which unlocks all its ranges */

hf_result hf__queue_busy(hf__op *op, int64_t retry_ms, bool queued) {
    op->retry_ms = retry_ms;
    op->queued = queued;
    return HF_BUSY;
}

void hf__queue_back_off(int tries) {
    int shift = tries < 8 ? 0 : (tries - 8) / 8;
    struct timespec moment = {.tv_nsec = 50000L << (shift < 5 ? shift : 5)};
    if (tries < 8)
        sched_yield();
    else
        nanosleep(&moment, NULL);
}

/* ---- Watching ---- */

void hf__local_unwatch(hf__local_contender *local) {
    for (unsigned i = 0; i < local->watched_count; i++) hf__peers_unwatch(local->watched[i]);
    local->watched_count = 0;
}

static hf__peer *reuse_watched(hf__local_contender *local, uint32_t id) {
    for (unsigned i = 0; i < local->watched_count; i++) {
        hf__peer *peer = local->watched[i];
        if (peer->id != id || peer->life < 0) continue;
        local->watched[i] = local->watched[--local->watched_count];
        return peer;
    }
    return NULL;
}

int64_t hf__local_watch(hf__local_contender *local, hf__peers *peers, const uint32_t *ids,
                        unsigned count) {
    hf__peer *now[HF__WATCHED_MAX] = {0};
    unsigned watching = 0, missed = 0;
    for (unsigned i = 0; i < count && watching < HF__WATCHED_MAX; i++) {
        now[watching] = reuse_watched(local, ids[i]);
        if (now[watching] || hf__peers_watch(peers, ids[i], &now[watching]) == 0)
            watching++;
        else
            missed++;
    }
    hf__local_unwatch(local);
    memcpy(local->watched, now, watching * sizeof *now);
    local->watched_count = watching;
    if (!missed) local->unwatched_tries = 0;
    if (!missed) return HF__RECHECK_MS;
    /* Usually that client is dying, and the kernel is still cleaning up. */
    return local->unwatched_tries++ < UNWATCHED_TRIES ? HF__RETRY_SOON_MS : HF__UNWATCHED_RETRY_MS;
}

/* ---- Our own tickets, which the kernel does not report to us ---- */

/* Our local contender with the lowest ticket at or behind `from`. */
static hf__local_contender *find_first_of_ours(hf__lock *l, int64_t from) {
    hf__local_contender *first = NULL;
    for (hf__local_contender *local = &l->mutex; local; local = local->next)
        if (local->ticket >= from && local->ticket >= 0 &&
            (!first || local->ticket < first->ticket))
            first = local;
    return first;
}

static int64_t find_last_of_ours(const hf__lock *l) {
    int64_t last = -1;
    for (const hf__local_contender *local = &l->mutex; local; local = local->next)
        if (local->ticket > last) last = local->ticket;
    return last;
}

bool hf__queue_has_ours(const hf__lock *l) {
    return find_last_of_ours(l) >= 0;
}

bool hf__queue_has_others(const hf__lock *l) {
    return hf__ticket_first(l->fd, 0).ticket >= 0;
}

/* ---- Unlocking ---- */

void hf__queue_abandon(hf__lock *l) {
    for (hf__local_contender *local = &l->mutex; local; local = local->next) {
        if (local->ticket < 0 && local->slot < 0) continue;
        hf__local_unwatch(local);
        local->ticket = local->slot = local->upgrade_slot = -1;
        local->holds = false;
        local->wake_pending = l->has_wake_pending = l->verify_hold = true;
    }
    if (l->held) l->has_wake_pending = l->verify_hold = true;
    l->held = 0;
    l->slots = (hf__slot_set){0};
}

static bool any_holds(const hf__lock *l) {
    for (const hf__local_contender *local = &l->mutex; local; local = local->next)
        if (local->holds) return true;
    return l->held;
}

/* Unlocking can fail, closing cannot. The file is opened again, because waiters must still be
   woken. */
static void unlock_by_closing(hf__lock *l) {
    hf_result why;
    char *detail = NULL;
    hf__clofork_close(l->fd);
    hf__queue_abandon(l);
    l->unlock_failed = false;
    l->fd = hf__lockfile_open(&l->file, false, &why, &detail);
    free(detail);
}

/* If we have holds, closing the file would end them. Others then wait until unlocking succeeds. */
static void unlock_or_retry(hf__lock *l) {
    if (any_holds(l))
        l->retry_unlock = true;
    else
        unlock_by_closing(l);
}

static bool wake_first(hf__lock *l, hf__peers *peers, int64_t from) {
    if (l->fd < 0) return false;
    hf__ticket first = hf__ticket_first(l->fd, from);
    hf__local_contender *ours = find_first_of_ours(l, from);
    if (ours && (first.ticket < 0 || ours->ticket < first.ticket))
        ours->wake_pending = l->has_wake_pending = true;
    else if (first.ticket >= 0 && first.id)
        hf__peers_wake(peers, first.id, l->inode, 0);
    return ours || first.ticket >= 0;
}

bool hf__queue_unlock_and_wake(hf__lock *l, hf__peers *peers) {
    int error = EAGAIN;
    l->held = 0;
    for (int i = 0; i < DROP_TRIES && error; i++) error = hf__hold_drop(l->fd);
    if (error || l->unlock_failed) unlock_or_retry(l);
    return wake_first(l, peers, 0);
}

/* The next waiter watches us, so it must now find another client to watch. */
void hf__queue_leave(hf__lock *l, hf__local_contender *local, hf__peers *peers) {
    int64_t ticket = local->ticket;
    local->ticket = -1;
    hf__local_unwatch(local);
    if (hf__ticket_drop(l->fd, peers->id, ticket) != 0) unlock_or_retry(l);
    wake_first(l, peers, ticket);
}

static bool is_slot_of_local(const hf__lock *l, unsigned slot) {
    for (const hf__local_contender *local = &l->mutex; local; local = local->next)
        if (local->slot == (int32_t)slot || local->upgrade_slot == (int32_t)slot) return true;
    return false;
}

static bool drop_slots(hf__lock *l) {
    bool all = true;
    for (unsigned i = 0; i < HF__SLOTS_MAX; i++) {
        if (!hf__slot_set_has(&l->slots, i) || is_slot_of_local(l, i)) continue;
        if (hf__slot_drop(l->fd, i) == 0)
            hf__slot_set_put(&l->slots, i, false);
        else
            all = false;
    }
    return all;
}

bool hf__queue_retry_unlock(hf__lock *l, hf__peers *peers) {
    bool all = drop_slots(l);
    if (hf__queue_has_ours(l) || hf__tickets_drop(l->fd) != 0) all = false;
    if (!l->held && hf__hold_drop(l->fd) != 0) all = false;
    if (all) l->retry_unlock = l->unlock_failed = false;
    wake_first(l, peers, 0);
    return all;
}

/* ---- Taking the hold ---- */

/* Whether the range is taken only for a moment: as the entry lock, or by a mutex that has not yet
   seen that the kinds table is in use. */
static bool is_brief_lock(const hf__lock *l, bool mutex) {
    hf__head head;
    char *detail = NULL;
    int64_t holder = hf__hold_holder(l->fd);
    if (!holder || holder >= HF__ENTRY_LOCKED) return true;
    if (mutex || holder < 0 || holder == HF__REMOVING) return false;
    hf_result r = hf__lockfile_read(&l->file, l->fd, NULL, 0, &head, &detail);
    free(detail);
    return !r && hf__kinds_in_use(&head);
}

int hf__queue_take_hold(hf__lock *l, const hf__peers *peers, bool mutex, int64_t patience_ms) {
    if (l->held) return EAGAIN; /* the kernel would grant it to us twice */
    hf__time until = patience_ms ? hf__now() + patience_ms * HF__MS : 0;
    for (int i = 0;; i++) {
        int error = mutex ? hf__hold_take(l->fd, peers->id) : hf__entry_lock_take(l->fd, peers->id);
        if (error != EAGAIN || !patience_ms || !is_brief_lock(l, mutex)) return error;
        if (hf__now() >= until) return ETIMEDOUT;
        hf__queue_back_off(i);
    }
}

/* ---- Waiting ---- */

/* The client ahead of us in the queue, or else the holder. 0: none; HF__REMOVING: see ranges.h;
   negative: errno. */
static int64_t find_client_ahead(const hf__lock *l, const hf__local_contender *local) {
    hf__ticket before = hf__ticket_before(l->fd, local->ticket);
    if (before.ticket >= 0) return before.id ? before.id : HF__REMOVING;
    int64_t holder = hf__hold_holder(l->fd);
    return holder >= HF__ENTRY_LOCKED ? holder - HF__ENTRY_LOCKED : holder;
}

/* Watch the client ahead of us. HF_OK: it is dead or gone already. */
static hf_result watch_client_ahead(hf__lock *l, hf__local_contender *local, hf__peers *peers,
                                    hf__op *op) {
    int64_t id = find_client_ahead(l, local);
    if (!id) return HF_OK;
    if (id < 0) return hf__queue_busy(op, HF__UNWATCHED_RETRY_MS, true);
    if (id == HF__REMOVING) return hf__queue_busy(op, HF__RETRY_SOON_MS, true);
    return hf__queue_busy(op, hf__local_watch(local, peers, &(uint32_t){(uint32_t)id}, 1), true);
}

/* Whether the lock has been free for a long time and the first waiter has not taken it. That waiter
   is probably stopped, so any waiter may pass it. */
static bool may_pass_stalled(const hf__lock *l, hf__local_contender *local, hf__ticket first,
                             hf__time now) {
    bool idle = hf__hold_holder(l->fd) == 0;
    if (idle && local->stalled_since && local->stalled_at == first.ticket)
        return now - local->stalled_since >= HF__STALL_LIMIT;
    local->stalled_since = idle ? now : 0;
    local->stalled_at = first.ticket;
    return false;
}

/* Whether this client has the lock, or another of its waiters is ahead of this one. */
static bool is_behind_ours(hf__lock *l, const hf__local_contender *local) {
    return l->held || find_first_of_ours(l, 0) != local;
}

static bool is_our_turn(hf__lock *l, hf__local_contender *local, hf__time now) {
    hf__ticket first = hf__ticket_first(l->fd, 0);
    if (first.ticket < 0 || first.ticket > local->ticket) return true;
    return first.id && may_pass_stalled(l, local, first, now);
}

hf_result hf__queue_wait(hf__lock *l, hf__local_contender *local, hf__peers *peers, hf__op *op,
                         hf__time now) {
    local->acquire_id = op->acquire_id;
    for (int i = 0; i < HF__OPEN_TRIES; i++) {
        if (is_behind_ours(l, local)) return hf__queue_busy(op, HF__RECHECK_MS, true);
        if (is_our_turn(l, local, now)) {
            int error = hf__queue_take_hold(l, peers, op->kind == HF_MUTEX, 0);
            if (!error) {
                l->was_queued = true;
                hf__local_unwatch(local);
                if (hf__ticket_drop(l->fd, peers->id, local->ticket) != 0) l->unlock_failed = true;
                local->ticket = -1;
                return HF_OK;
            }
            if (error != EAGAIN) {
                hf__queue_leave(l, local, peers);
                return hf__lock_error(l, "lock", error, &op->detail);
            }
        }
        hf_result r = watch_client_ahead(l, local, peers, op);
        if (r) return r;
    }
    return hf__queue_busy(op, HF__RETRY_SOON_MS, true);
}

/* Skipped if the file is new: its first holder writes the whole file, with the queue flag set. */
static int write_has_queue(hf__lock *l) {
    hf__head head;
    char *detail = NULL;
    if (l->was_new && hf__lockfile_read(&l->file, l->fd, NULL, 0, &head, &detail) == HF_OK)
        l->was_new = !head.version;
    free(detail);
    return l->was_new ? 0 : hf__lockfile_write_has_queue(l->fd, true);
}

hf_result hf__queue_join(hf__lock *l, hf__local_contender *local, hf__peers *peers, hf__op *op,
                         hf__time now) {
    int64_t ticket;
    int error = hf__peers_join(peers, true);
    if (error) return hf__lock_error(l, "wait for", error, &op->detail);
    error = hf__ticket_take(l->fd, peers->id, find_last_of_ours(l), &ticket);
    if (error == EAGAIN) return hf__queue_busy(op, HF__RETRY_SOON_MS, false);
    if (error) return hf__lock_error(l, "wait for", error, &op->detail);
    local->ticket = ticket;
    local->stalled_since = 0;
    local->unwatched_tries = 0;
    error = write_has_queue(l);
    if (error) {
        hf__queue_leave(l, local, peers);
        return hf__lock_error(l, "write", error, &op->detail);
    }
    return hf__queue_wait(l, local, peers, op, now);
}
