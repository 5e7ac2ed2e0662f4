/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on the kinds table: read it, change it, write it back, wake waiters. See
   kinds_table.h. */
#include "store/file/kinds_table.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/error.h"
#include "store/file/queue.h"
#include "store/file/ranges.h"
#include "store/lock_state/operations.h"

/* Tags of holders and waiters: the index of the slot view it was read from, plus 1; or NEW_TAG plus
   the index of a new slot. */
#define NEW_TAG (1u << 16)

typedef struct kinds_table {
    hf__lock *lock;
    hf__peers *peers;
    const hf__record *record; /* describes this client */
    hf__head *head;
    hf__slot_table table;
    hf__lock_state state;
    hf__lock_env env;
    hf__client_id self; /* clients have the numbers of peers.h */
    bool has_tickets;   /* a client has a ticket */
} kinds_table;

hf_result hf__kinds_report_stuck(const hf__lock *l, char **detail) {
    *detail =
        hf__line("a process that acquires or releases %s/%s is stopped or very slow; the lock can "
                 "be used again when that process continues or is killed",
                 l->file.path, l->file.name);
    return HF_UNREACHABLE;
}

/* ---- Reading ---- */

static hf__contender contender_of(const hf__slot *slot) {
    return (hf__contender){.client = hf__client_id_of_number(slot->id),
                           .acquire_id = slot->acquire_id,
                           .owner = {slot->owner, slot->logical},
                           .kind = slot->kind,
                           .permits = slot->permits,
                           .capacity = slot->capacity};
}

static bool load_holder(kinds_table *t, const hf__slot *slot, uint32_t tag) {
    hf__contender contender = contender_of(slot);
    hf__holder *made = hf__lock_state_add_holder(&t->state, &contender);
    if (!made) return false;
    made->count = slot->count;
    made->token = slot->token;
    made->since_unix_ms = slot->since_unix_ms;
    made->expires = slot->until;
    made->tag = tag;
    return true;
}

static bool load_waiter(kinds_table *t, const hf__slot *slot, uint32_t tag) {
    hf__contender contender = contender_of(slot);
    hf__waiter *made = hf__lock_state_enqueue(&t->state, &contender, false, 0);
    if (made) made->tag = tag;
    return made != NULL;
}

/* Before the operation, note which waiters can be granted, and which waiter is ahead of each. If a
   client has died, count no waiter as notified. */
static void note_queue(kinds_table *t) {
    uint32_t ahead = 0;
    hf__lock_state_mark_grantable(&t->state, &t->env);
    for (const hf__waiter *it = t->state.waiters; it; ahead = it->tag, it = it->next) {
        t->table.views[it->tag - 1].was_notified = it->can_be_granted && !t->table.died;
        t->table.views[it->tag - 1].ahead_tag = ahead;
    }
}

static uint64_t max_token(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

static hf_result load_table(kinds_table *t, char **detail) {
    hf__lock *l = t->lock;
    hf_result r = hf__slot_table_read(&l->file, l->fd, &l->slots, &t->table, detail);
    bool fits = true;
    t->state.last_token = max_token(t->head->record.token, t->head->kinds.token);
    for (unsigned i = 0; !r && fits && i < t->table.count; i++) {
        const hf__slot *slot = &t->table.views[i].slot;
        t->state.last_token = max_token(t->state.last_token, slot->token);
        fits = slot->token ? load_holder(t, slot, i + 1) : load_waiter(t, slot, i + 1);
    }
    if (r || !fits) return r ? r : HF_NOMEM;
    note_queue(t);
    return HF_OK;
}

static void free_table(kinds_table *t) {
    hf__lock_state_fini(&t->state);
    hf__slot_table_fini(&t->table);
}

/* ---- Writing back ---- */

static unsigned slot_index_of(const kinds_table *t, uint32_t tag) {
    return tag >= NEW_TAG ? tag - NEW_TAG : t->table.views[tag - 1].index;
}

static hf__slot make_slot(const kinds_table *t, const hf__contender *contender) {
    hf__slot slot = {.acquire_id = contender->acquire_id,
                     .owner = contender->owner.id,
                     .logical = contender->owner.logical,
                     .kind = contender->kind,
                     .permits = contender->permits,
                     .capacity = contender->capacity,
                     .id = t->peers->id,
                     .pid = t->record->pid};
    hf__text_copy(slot.client, sizeof slot.client, t->record->client);
    return slot;
}

static hf__slot make_holder_slot(const kinds_table *t, const hf__holder *it) {
    hf__slot slot = make_slot(t, &it->contender);
    slot.until = it->expires;
    slot.count = it->count;
    slot.token = it->token;
    slot.since_unix_ms = it->since_unix_ms;
    return slot;
}

/* Reuse a slot of ours that no longer has a holder or waiter, because its range is already locked.
   Otherwise take the first free slot. */
static int claim_slot(kinds_table *t, unsigned *index) {
    for (unsigned i = 0; i < t->table.count; i++) {
        hf__slot_view *view = &t->table.views[i];
        if (!view->is_ours || view->is_used) continue;
        view->is_used = true;
        *index = view->index;
        return 0;
    }
    for (*index = 0; *index < HF__SLOTS_MAX; ++*index) {
        if (hf__slot_set_has(&t->table.taken, *index)) continue;
        int error = hf__slot_take(t->lock->fd, *index, t->peers->id);
        if (!error) hf__slot_set_put(&t->lock->slots, *index, true);
        return error;
    }
    return EUSERS;
}

/* A slot is not in use if it is empty or not locked. So it is enough if one of the two steps
   succeeds. */
static void clear_slot(hf__lock *l, unsigned index) {
    bool cleared = hf__slot_clear(l->fd, index) == 0;
    if (hf__slot_drop(l->fd, index) == 0)
        hf__slot_set_put(&l->slots, index, false);
    else if (!cleared)
        l->unlock_failed = true;
}

static int write_new_slot(kinds_table *t, hf__slot *slot, uint32_t *tag) {
    unsigned index;
    int error = claim_slot(t, &index);
    if (error) return error;
    error = hf__slot_write(t->lock->fd, index, slot, true);
    if (error)
        clear_slot(t->lock, index);
    else
        *tag = NEW_TAG + index;
    return error;
}

static bool slot_differs(const hf__slot *a, const hf__slot *b) {
    size_t from = offsetof(hf__slot, acquire_id), to = offsetof(hf__slot, checksum);
    return memcmp((const char *)a + from, (const char *)b + from, to - from) != 0;
}

static int write_slot(kinds_table *t, hf__slot *slot, uint32_t *tag) {
    if (!*tag) return write_new_slot(t, slot, tag);
    const hf__slot_view *was = &t->table.views[*tag - 1];
    if (!was->is_ours) return 0; /* other clients write their own slots */
    slot->pid = was->slot.pid;
    memcpy(slot->client, was->slot.client, sizeof slot->client);
    if (slot_differs(slot, &was->slot)) return hf__slot_write(t->lock->fd, was->index, slot, false);
    if (slot->until == was->slot.until && slot->count == was->slot.count) return 0;
    return hf__slot_extend(t->lock->fd, was->index, slot->until, slot->count);
}

/* A new waiter goes behind all others, and an upgrade before all others. */
static int64_t position_of(const kinds_table *t, const hf__waiter *it) {
    if (it->tag) return t->table.views[it->tag - 1].slot.position;
    if (it->next) return t->table.views[it->next->tag - 1].slot.position - 1;
    return t->head->kinds.last_position;
}

static void mark_used(kinds_table *t) {
    for (const hf__holder *it = t->state.holders; it; it = it->next)
        if (it->tag) t->table.views[it->tag - 1].is_used = true;
    for (const hf__waiter *it = t->state.waiters; it; it = it->next)
        if (it->tag) t->table.views[it->tag - 1].is_used = true;
}

static int write_slots(kinds_table *t) {
    int error = 0;
    for (hf__holder *it = t->state.holders; it && !error; it = it->next) {
        hf__slot slot = make_holder_slot(t, it);
        error = write_slot(t, &slot, &it->tag);
    }
    for (hf__waiter *it = t->state.waiters; it && !error; it = it->next) {
        hf__slot slot = make_slot(t, &it->contender);
        slot.position = position_of(t, it);
        error = write_slot(t, &slot, &it->tag);
    }
    return error;
}

/* The head is written first, so that a token is never given twice. */
static int write_back(kinds_table *t) {
    hf__kinds_head was = t->head->kinds, *head = &t->head->kinds;
    mark_used(t);
    head->in_use = t->state.holders || t->state.waiters;
    head->token = t->state.last_token;
    const hf__waiter *last = t->state.waiters;
    while (last && last->next) last = last->next;
    if (last && !last->tag) head->last_position++;
    int error = 0;
    if (memcmp(&was, head, sizeof was) != 0 || t->head->version < 2)
        error = hf__lockfile_write_kinds(t->lock->fd, t->head);
    if (!error) error = write_slots(t);
    for (unsigned i = 0; i < t->table.count; i++)
        if (t->table.views[i].is_ours && !t->table.views[i].is_used)
            clear_slot(t->lock, t->table.views[i].index);
    return error;
}

/* ---- Waking waiters ---- */

static void notify_ours(hf__lock *l, uint64_t acquire_id) {
    for (hf__local_contender *s = &l->mutex; s; s = s->next)
        if (s->acquire_id == acquire_id && s->slot >= 0)
            s->wake_pending = l->has_wake_pending = true;
}

/* Wake waiters that can be granted now, and those that must watch another client. */
static void wake_waiters(kinds_table *t) {
    uint32_t ahead = 0;
    hf__lock_state_mark_grantable(&t->state, &t->env);
    for (const hf__waiter *it = t->state.waiters; it; ahead = it->tag, it = it->next) {
        bool turn = it->can_be_granted;
        if (!it->tag || it->tag >= NEW_TAG) continue;
        const hf__slot_view *view = &t->table.views[it->tag - 1];
        if (view->ahead_tag == ahead && (!turn || view->was_notified)) continue;
        if (view->is_ours)
            notify_ours(t->lock, view->slot.acquire_id);
        else
            hf__peers_wake(t->peers, view->slot.id, t->lock->inode, view->slot.acquire_id);
    }
}

static void unlock_and_wake(kinds_table *t) {
    t->has_tickets = hf__queue_unlock_and_wake(t->lock, t->peers);
    wake_waiters(t);
}

/* Update a local contender from the lock state. */
static void update_local(kinds_table *t, hf__local_contender *local,
                         const hf__contender *contender) {
    const hf__holder *holder = hf__lock_state_find_holder(&t->state, contender);
    const hf__waiter *waiter = hf__lock_state_find_waiter(&t->state, contender);
    local->holds = holder && holder->tag;
    local->slot = local->upgrade_slot = -1;
    if (local->holds) {
        if (local->token != holder->token) local->token_before = local->token;
        local->slot = (int32_t)slot_index_of(t, holder->tag);
        local->token = holder->token;
        local->kind = holder->contender.kind;
    }
    if (waiter && waiter->tag)
        *(local->holds ? &local->upgrade_slot : &local->slot) =
            (int32_t)slot_index_of(t, waiter->tag);
    if (!local->holds) local->token = local->token_before = 0;
    if (!waiter) local->stalled_since = 0;
}

/* Writing failed. The contender keeps its slots, except those that were dropped meanwhile. */
static void revert_local(const hf__lock *l, hf__local_contender *local) {
    if (local->upgrade_slot >= 0 && !hf__slot_set_has(&l->slots, (unsigned)local->upgrade_slot))
        local->upgrade_slot = -1;
    if (local->slot >= 0 && hf__slot_set_has(&l->slots, (unsigned)local->slot)) return;
    local->slot = -1;
    local->holds = false;
}

/* ---- Waiting ---- */

static uint32_t peer_of(const hf__contender *contender) {
    return (uint32_t)contender->client.low;
}

static bool is_ours(const hf__contender *contender, const kinds_table *t) {
    return hf__client_id_is_same(contender->client, t->self);
}

/* Watch the clients that block us: the one of the waiter ahead, or else those of all holders. */
static int64_t watch_blockers(kinds_table *t, hf__local_contender *local,
                              const hf__contender *contender) {
    uint32_t ids[HF__WATCHED_MAX];
    unsigned count = 0;
    const hf__waiter *ahead = t->state.waiters,
                     *us = hf__lock_state_find_waiter(&t->state, contender);
    while (ahead && ahead != us && ahead->next != us) ahead = ahead->next;
    if (ahead && ahead != us) {
        ids[count++] = peer_of(&ahead->contender);
    } else {
        const hf__holder *it = t->state.holders;
        for (; it && count < HF__WATCHED_MAX; it = it->next)
            if (!is_ours(&it->contender, t)) ids[count++] = peer_of(&it->contender);
    }
    if (count == 1 && ids[0] == t->peers->id) count = 0; /* this client needs no watch on itself */
    return hf__local_watch(local, t->peers, ids, count);
}

/* Waiters that can be granted, but have not acted for a long time, are probably stopped. So any
   waiter may pass them. While the last of them stays the same, all of them count as stopped. */
static void pass_stalled(kinds_table *t, hf__local_contender *local,
                         const hf__contender *contender) {
    const hf__waiter *last = NULL, *us = hf__lock_state_find_waiter(&t->state, contender);
    hf__time now = t->env.now;
    bool our_turn = false;
    for (const hf__waiter *it = t->state.waiters; it && it->can_be_granted; it = it->next) {
        our_turn = our_turn || is_ours(&it->contender, t);
        last = it;
    }
    if (!last || our_turn || !us) {
        local->stalled_since = 0;
        return;
    }
    int64_t position = t->table.views[last->tag - 1].slot.position;
    if (!local->stalled_since || local->stalled_at != position) {
        local->stalled_at = position;
        local->stalled_since = now;
    } else if (now - local->stalled_since >= HF__STALL_LIMIT) {
        while (t->state.waiters && t->state.waiters->can_be_granted) {
            hf__contender first = t->state.waiters->contender;
            hf__lock_state_dequeue(&t->state, &first);
        }
    }
}

/* ---- Operations ---- */

static hf_result finish_op(kinds_table *t, hf__local_contender *local,
                           const hf__contender *contender, int error, hf_result r, char **detail) {
    if (error)
        revert_local(t->lock, local);
    else
        update_local(t, local, contender);
    unlock_and_wake(t);
    if (error == EUSERS) {
        *detail = hf__line("%d acquires hold %s/%s or wait for it already, which is the maximum",
                           HF__SLOTS_MAX, t->lock->file.path, t->lock->file.name);
        return HF_NOMEM;
    }
    return error ? hf__lock_error(t->lock, "write", error, detail) : r;
}

static hf_result unlock_unchanged(kinds_table *t, hf_result r) {
    free_table(t);
    (void)hf__queue_unlock_and_wake(t->lock, t->peers);
    return r;
}

/* The table is empty, so a mutex may keep the range as its hold. The token is at least 1, because a
   head of all zeros means that the table may be in use. */
static hf_result close_table(kinds_table *t, hf__op *op) {
    t->head->kinds.token = max_token(t->state.last_token, 1);
    t->head->kinds.in_use = 0;
    free_table(t);
    int error = hf__lockfile_write_kinds(t->lock->fd, t->head);
    if (!error) return HF_NOT_HELD;
    (void)hf__queue_unlock_and_wake(t->lock, t->peers);
    return hf__lock_error(t->lock, "write", error, &op->detail);
}

static kinds_table make_table(hf__lock *l, hf__peers *peers, const hf__record *self, hf__time now) {
    return (kinds_table){.lock = l,
                         .peers = peers,
                         .record = self,
                         .env = {.now = now},
                         .self = hf__client_id_of_number(peers->id)};
}

hf_result hf__kinds_acquire(hf__lock *l, hf__local_contender *local, hf__peers *peers,
                            const hf__record *self, hf__head *head, hf__op *op, hf__time now) {
    kinds_table t = make_table(l, peers, self, now);
    t.head = head;
    t.env.unix_us = t.env.token_clock = hf__unix_us();
    hf_result r = load_table(&t, &op->detail);
    if (r) return unlock_unchanged(&t, r);
    if (op->kind == HF_MUTEX && !t.table.count) return close_table(&t, op);
    hf__contender contender = hf__contender_of_op(t.self, op);
    pass_stalled(&t, local, &contender);
    r = hf__lock_state_acquire(&t.state, &t.env, t.self, op);
    int error = write_back(&t);
    local->acquire_id = op->acquire_id;
    r = finish_op(&t, local, &contender, error, r, &op->detail);
    if (r == HF_BUSY && op->queued)
        op->retry_ms = watch_blockers(&t, local, &contender);
    else
        hf__local_unwatch(local);
    if (r == HF_BUSY && !op->queued) op->retry_ms = HF__RECHECK_MS;
    if (r == HF_OK && t.has_tickets) op->has_waiters = true;
    free_table(&t);
    return r;
}

/* Take the entry lock, and read the table. */
static hf_result open_table(kinds_table *t, hf__head *head, char **detail) {
    hf__lock *l = t->lock;
    int error = hf__queue_take_hold(l, t->peers, false, HF__ENTRY_WAIT_MS);
    if (error == EAGAIN || error == ETIMEDOUT) return hf__kinds_report_stuck(l, detail);
    if (error) return hf__lock_error(l, "lock", error, detail);
    hf_result r = hf__lockfile_read(&l->file, l->fd, NULL, 0, head, detail);
    if (!r && !(hf__record_is_intact(&head->record) && hf__kinds_head_is_intact(&head->kinds)))
        r = hf__lockfile_report_damaged(&l->file, "is damaged", detail);
    t->head = head;
    if (!r) r = load_table(t, detail);
    return r ? unlock_unchanged(t, r) : HF_OK;
}

hf_result hf__kinds_renew(hf__lock *l, hf__local_contender *local, hf__peers *peers,
                          const hf__record *self, hf__op *op, hf__time now) {
    kinds_table t = make_table(l, peers, self, now);
    hf__head head;
    hf_result r = open_table(&t, &head, &op->detail);
    if (r) return r;
    hf__contender contender = hf__contender_of_op(t.self, op);
    r = hf__lock_state_renew(&t.state, &t.env, t.self, op);
    int error = write_back(&t);
    if (local->upgrade_slot >= 0) hf__local_unwatch(local);
    r = finish_op(&t, local, &contender, error, r, &op->detail);
    free_table(&t);
    return r;
}

static void drop_slot(hf__lock *l, int64_t index) {
    if (index < 0) return;
    if (hf__slot_drop(l->fd, (unsigned)index) == 0)
        hf__slot_set_put(&l->slots, (unsigned)index, false);
    else
        l->unlock_failed = true;
}

/* Unlock our slots without the entry lock, because it is not available or the table cannot be read.
   Otherwise other clients would wait for us; now their waiters notice at the next recheck. Nothing
   is written: a file that was cut short must not be extended, and a slot that is not locked is not
   in use. */
static void drop_local_slots(hf__lock *l, const hf__local_contender *local, hf__peers *peers) {
    drop_slot(l, local->slot);
    drop_slot(l, local->upgrade_slot);
    if (l->unlock_failed) (void)hf__queue_unlock_and_wake(l, peers);
}

hf_result hf__kinds_release(hf__lock *l, hf__local_contender *local, hf__peers *peers,
                            const hf__record *self, hf__op *op) {
    kinds_table t = make_table(l, peers, self, 0); /* nothing is granted */
    hf__head head;
    char *detail = NULL;
    bool held = local->holds;
    hf_result r = open_table(&t, &head, &detail);
    if (r == HF_UNREACHABLE && held) {
        op->detail = detail;
        return r;
    }
    free(detail);
    hf__local_unwatch(local);
    local->holds = false;
    if (r) {
        drop_local_slots(l, local, peers);
    } else {
        (void)hf__lock_state_release(&t.state, t.self, op);
        op->outcome_unknown = false; /* this client knows what it held */
        (void)write_back(&t);
        unlock_and_wake(&t);
        free_table(&t);
    }
    local->slot = local->upgrade_slot = -1;
    return held ? HF_OK : HF_LOST;
}
