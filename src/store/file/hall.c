/* See hall.h. */
#include "store/file/hall.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/error.h"
#include "store/file/queue.h"
#include "store/file/ranges.h"
#include "store/lock_state/operations.h"

/* Tags of what is in the room: the spot it was read from, from 1 on; or a slot that is new. */
#define NEW_TAG (1u << 16)

typedef struct hall {
    hf__lock *lock;
    hf__peers *peers;
    const hf__record *record; /* who we are */
    hf__head *head;
    hf__table table;
    hf__lock_state state;
    hf__store_client *self, me;
    bool crowded; /* somebody has a ticket */
} hall;

hf_result hf__hall_stuck(const hf__lock *l, char **detail) {
    *detail =
        hf__line("somebody is stopped in the middle of taking or releasing %s/%s, or very slow; "
                 "it is free when that process goes on, or when it is killed",
                 l->file.path, l->file.name);
    return HF_UNREACHABLE;
}

/* ---- Reading ---- */

/* A client is known by the address of the first that was read of it. */
static hf__store_client *client_of(hall *h, uint32_t id) {
    for (unsigned i = 0; i < h->table.count; i++)
        if (h->table.spots[i].slot.id == id) return &h->table.spots[i].client;
    hf__text_copy(h->me.uuid, sizeof h->me.uuid, h->record->client);
    return &h->me;
}

static hf__contender contender_of(hall *h, const hf__slot *slot) {
    return (hf__contender){.client = client_of(h, slot->id),
                           .number = slot->number,
                           .owner = {slot->owner, slot->logical},
                           .kind = slot->kind,
                           .permits = slot->permits,
                           .capacity = slot->capacity};
}

static bool put_inside(hall *h, const hf__slot *slot, uint32_t tag) {
    hf__contender contender = contender_of(h, slot);
    hf__holder *made = hf__lock_state_add_holder(&h->state, &contender);
    if (!made) return false;
    made->count = slot->count;
    made->token = slot->token;
    made->since_unix_ms = slot->since_unix_ms;
    made->expires = slot->until;
    made->tag = tag;
    return true;
}

static bool put_in_line(hall *h, const hf__slot *slot, uint32_t tag) {
    hf__contender contender = contender_of(h, slot);
    if (!hf__lock_state_enqueue(&h->state, &contender, false, 0)) return false;
    hf__lock_state_find_waiter(&h->state, &contender)->tag = tag;
    return true;
}

/* Whom it is the turn of before anything is done, and who is ahead of whom. When somebody has
   died, nobody of them may know yet. */
static void note_line(hall *h) {
    size_t turns = h->table.died ? 0 : hf__lock_state_count_grantable(&h->state), i = 0;
    uint32_t ahead = 0;
    for (const hf__waiter *it = h->state.waiters; it; ahead = it->tag, it = it->next) {
        h->table.spots[it->tag - 1].called = i++ < turns;
        h->table.spots[it->tag - 1].ahead = ahead;
    }
}

static uint64_t highest(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

static hf_result look_in(hall *h, char **detail) {
    hf__lock *l = h->lock;
    hf_result r = hf__table_read(&l->file, l->fd, &l->slots, &h->table, detail);
    bool fits = true;
    h->state.last_token = highest(h->head->record.token, h->head->room.token);
    for (unsigned i = 0; !r && fits && i < h->table.count; i++) {
        const hf__slot *slot = &h->table.spots[i].slot;
        h->state.last_token = highest(h->state.last_token, slot->token);
        fits = slot->token ? put_inside(h, slot, i + 1) : put_in_line(h, slot, i + 1);
    }
    if (r || !fits) return r ? r : HF_NOMEM;
    h->self = client_of(h, h->peers->id);
    note_line(h);
    return HF_OK;
}

static void fini(hall *h) {
    hf__lock_state_remove_client(&h->state, NULL);
    hf__table_fini(&h->table);
}

/* ---- Writing back ---- */

static unsigned index_of(const hall *h, uint32_t tag) {
    return tag >= NEW_TAG ? tag - NEW_TAG : h->table.spots[tag - 1].index;
}

static uint32_t id_of(const hall *h, uint32_t tag) {
    return tag && tag < NEW_TAG ? h->table.spots[tag - 1].slot.id : h->peers->id;
}

static hf__slot slot_of(const hall *h, const hf__contender *contender) {
    hf__slot slot = {.number = contender->number,
                     .owner = contender->owner.id,
                     .logical = contender->owner.logical,
                     .kind = contender->kind,
                     .permits = contender->permits,
                     .capacity = contender->capacity,
                     .id = h->peers->id,
                     .pid = h->record->pid};
    hf__text_copy(slot.client, sizeof slot.client, h->record->client);
    return slot;
}

static hf__slot holder_slot(const hall *h, const hf__holder *it) {
    hf__slot slot = slot_of(h, &it->contender);
    slot.until = it->expires;
    slot.count = it->count;
    slot.token = it->token;
    slot.since_unix_ms = it->since_unix_ms;
    return slot;
}

/* One of ours that nothing in the room stands for any more has its range already; else the first
   that is free. */
static int find_slot(hall *h, unsigned *index) {
    for (unsigned i = 0; i < h->table.count; i++) {
        hf__spot *spot = &h->table.spots[i];
        if (!spot->own || spot->seen) continue;
        spot->seen = true;
        *index = spot->index;
        return 0;
    }
    for (*index = 0; *index < HF__SLOTS_MAX; ++*index) {
        if (hf__slot_set_has(&h->table.taken, *index)) continue;
        int error = hf__slot_take(h->lock->fd, *index, h->peers->id);
        if (!error) hf__slot_set_put(&h->lock->slots, *index, true);
        return error;
    }
    return EUSERS;
}

/* What is not in use does not count, nor does what is not locked. */
static void free_slot(hf__lock *l, unsigned index) {
    bool cleared = hf__slot_clear(l->fd, index) == 0;
    if (hf__slot_drop(l->fd, index) == 0)
        hf__slot_set_put(&l->slots, index, false);
    else if (!cleared)
        l->soiled = true;
}

static int write_new(hall *h, hf__slot *slot, uint32_t *tag) {
    unsigned index;
    int error = find_slot(h, &index);
    if (error) return error;
    error = hf__slot_write(h->lock->fd, index, slot, true);
    if (error)
        free_slot(h->lock, index);
    else
        *tag = NEW_TAG + index;
    return error;
}

static bool differs(const hf__slot *a, const hf__slot *b) {
    size_t from = offsetof(hf__slot, number), to = offsetof(hf__slot, sum);
    return memcmp((const char *)a + from, (const char *)b + from, to - from) != 0;
}

static int write_slot(hall *h, hf__slot *slot, uint32_t *tag) {
    if (!*tag) return write_new(h, slot, tag);
    const hf__spot *was = &h->table.spots[*tag - 1];
    if (!was->own) return 0; /* others see to themselves */
    slot->pid = was->slot.pid;
    memcpy(slot->client, was->slot.client, sizeof slot->client);
    if (differs(slot, &was->slot)) return hf__slot_write(h->lock->fd, was->index, slot, false);
    if (slot->until == was->slot.until && slot->count == was->slot.count) return 0;
    return hf__slot_keep(h->lock->fd, was->index, slot->until, slot->count);
}

/* Who comes stands behind all, and an upgrade before all. */
static int64_t place_of(const hall *h, const hf__waiter *it) {
    if (it->tag) return h->table.spots[it->tag - 1].slot.place;
    if (it->next) return h->table.spots[it->next->tag - 1].slot.place - 1;
    return h->head->room.last_place;
}

static void note_seen(hall *h) {
    for (const hf__holder *it = h->state.holders; it; it = it->next)
        if (it->tag) h->table.spots[it->tag - 1].seen = true;
    for (const hf__waiter *it = h->state.waiters; it; it = it->next)
        if (it->tag) h->table.spots[it->tag - 1].seen = true;
}

static int write_slots(hall *h) {
    int error = 0;
    for (hf__holder *it = h->state.holders; it && !error; it = it->next) {
        hf__slot slot = holder_slot(h, it);
        error = write_slot(h, &slot, &it->tag);
    }
    for (hf__waiter *it = h->state.waiters; it && !error; it = it->next) {
        hf__slot slot = slot_of(h, &it->contender);
        slot.place = place_of(h, it);
        error = write_slot(h, &slot, &it->tag);
    }
    return error;
}

/* The head first: a token that was given is never given again. */
static int write_back(hall *h) {
    hf__room_head was = h->head->room, *head = &h->head->room;
    note_seen(h);
    head->open = h->state.holders || h->state.waiters;
    head->token = h->state.last_token;
    const hf__waiter *last = h->state.waiters;
    while (last && last->next) last = last->next;
    if (last && !last->tag) head->last_place++;
    int error = 0;
    if (memcmp(&was, head, sizeof was) != 0 || h->head->version < 2)
        error = hf__lockfile_room(h->lock->fd, h->head);
    if (!error) error = write_slots(h);
    for (unsigned i = 0; i < h->table.count; i++)
        if (h->table.spots[i].own && !h->table.spots[i].seen)
            free_slot(h->lock, h->table.spots[i].index);
    return error;
}

/* ---- Going ---- */

static void call_ours(hf__lock *l, uint64_t number) {
    for (hf__seat *s = &l->mutex; s; s = s->next)
        if (s->number == number && s->slot >= 0) s->called = l->calls = true;
}

/* Those whose turn it has become, and those who have to see behind whom they stand. */
static void wake(hall *h) {
    size_t turns = hf__lock_state_count_grantable(&h->state), i = 0;
    uint32_t ahead = 0;
    for (const hf__waiter *it = h->state.waiters; it; ahead = it->tag, it = it->next) {
        bool turn = i++ < turns;
        if (!it->tag || it->tag >= NEW_TAG) continue;
        const hf__spot *spot = &h->table.spots[it->tag - 1];
        if (spot->ahead == ahead && (!turn || spot->called)) continue;
        if (spot->own)
            call_ours(h->lock, spot->slot.number);
        else
            hf__peers_wake(h->peers, spot->slot.id, h->lock->inode, spot->slot.number);
    }
}

static void go(hall *h) {
    h->crowded = hf__queue_unlock_and_wake(h->lock, h->peers);
    wake(h);
}

/* What became of a seat of ours. */
static void note_seat(hall *h, hf__seat *seat, const hf__contender *contender) {
    const hf__holder *holder = hf__lock_state_find_holder(&h->state, contender);
    const hf__waiter *waiter = hf__lock_state_find_waiter(&h->state, contender);
    seat->holds = holder && holder->tag;
    seat->slot = seat->upgrade = -1;
    if (seat->holds) {
        if (seat->token != holder->token) seat->before = seat->token;
        seat->slot = (int32_t)index_of(h, holder->tag);
        seat->token = holder->token;
        seat->kind = holder->contender.kind;
    }
    if (waiter && waiter->tag)
        *(seat->holds ? &seat->upgrade : &seat->slot) = (int32_t)index_of(h, waiter->tag);
    if (!seat->holds) seat->token = seat->before = 0;
    if (!waiter) seat->stalled_since = 0;
}

/* It could not be written: what it had it has still, unless that was given up for it. */
static void keep_seat(const hf__lock *l, hf__seat *seat) {
    if (seat->upgrade >= 0 && !hf__slot_set_has(&l->slots, (unsigned)seat->upgrade))
        seat->upgrade = -1;
    if (seat->slot >= 0 && hf__slot_set_has(&l->slots, (unsigned)seat->slot)) return;
    seat->slot = -1;
    seat->holds = false;
}

/* ---- Waiting ---- */

/* Whoever is in the way: the one ahead; those inside, if nobody is. */
static int64_t watch(hall *h, hf__seat *seat, const hf__contender *contender) {
    uint32_t ids[HF__WATCHED_MAX];
    unsigned count = 0;
    const hf__waiter *ahead = h->state.waiters,
                     *us = hf__lock_state_find_waiter(&h->state, contender);
    while (ahead && ahead != us && ahead->next != us) ahead = ahead->next;
    if (ahead && ahead != us) {
        ids[count++] = id_of(h, ahead->tag);
    } else {
        const hf__holder *it = h->state.holders;
        for (; it && count < HF__WATCHED_MAX; it = it->next)
            if (it->contender.client != h->self) ids[count++] = id_of(h, it->tag);
    }
    if (count == 1 && ids[0] == h->peers->id) count = 0; /* it is we who will know */
    return hf__seat_watch(seat, h->peers, ids, count);
}

static bool is_ours(const hf__waiter *it, const hall *h) {
    return it->contender.client == h->self;
}

/* Some who could enter have left it for long: they are stopped, and whoever looks may go past
   them. As long as the last of them is the same, so are all. */
static void pass_stalled(hall *h, hf__seat *seat, const hf__contender *contender, hf__time now) {
    size_t turns = hf__lock_state_count_grantable(&h->state);
    const hf__waiter *last = NULL, *us = hf__lock_state_find_waiter(&h->state, contender),
                     *it = h->state.waiters;
    for (size_t i = 0; i < turns; i++, it = it->next) {
        if (it == us || is_ours(it, h)) turns = 0;
        last = it;
    }
    if (!turns || !us) {
        seat->stalled_since = 0;
        return;
    }
    int64_t place = h->table.spots[last->tag - 1].slot.place;
    if (!seat->stalled_since || seat->stalled != place) {
        seat->stalled = place;
        seat->stalled_since = now;
    } else if (now - seat->stalled_since >= HF__STALL_LIMIT) {
        for (; turns; turns--) {
            hf__contender first = h->state.waiters->contender;
            hf__lock_state_dequeue(&h->state, &first);
        }
    }
}

/* ---- The verbs ---- */

static hf_result end(hall *h, hf__seat *seat, const hf__contender *contender, int error,
                     hf_result r, char **detail) {
    if (error)
        keep_seat(h->lock, seat);
    else
        note_seat(h, seat, contender);
    go(h);
    if (error == EUSERS) {
        *detail =
            hf__line("%d hold %s/%s or wait for it already, which is as many as it has room for",
                     HF__SLOTS_MAX, h->lock->file.path, h->lock->file.name);
        return HF_NOMEM;
    }
    return error ? hf__lock_trouble(h->lock, "write", error, detail) : r;
}

static hf_result leave_unseen(hall *h, hf_result r) {
    fini(h);
    (void)hf__queue_unlock_and_wake(h->lock, h->peers);
    return r;
}

/* A mutex may have the hold itself, as nobody is there any more. Nothing but zeros would say that somebody may be. */
static hf_result close_room(hall *h, hf__op *op) {
    h->head->room.token = highest(h->state.last_token, 1);
    h->head->room.open = 0;
    fini(h);
    int error = hf__lockfile_room(h->lock->fd, h->head);
    if (!error) return HF_NOT_HELD;
    (void)hf__queue_unlock_and_wake(h->lock, h->peers);
    return hf__lock_trouble(h->lock, "write", error, &op->detail);
}

hf_result hf__hall_ask(hf__lock *l, hf__seat *seat, hf__peers *peers, const hf__record *self,
                       hf__head *head, hf__op *op, hf__time now) {
    hall h = {.lock = l, .peers = peers, .record = self, .head = head};
    hf_result r = look_in(&h, &op->detail);
    if (r) return leave_unseen(&h, r);
    if (op->kind == HF_MUTEX && !h.table.count) return close_room(&h, op);
    hf__contender contender = hf__contender_of_op(h.self, op);
    pass_stalled(&h, seat, &contender, now);
    r = hf__lock_state_acquire(&h.state, h.self, op, now);
    int error = write_back(&h);
    seat->number = op->number;
    r = end(&h, seat, &contender, error, r, &op->detail);
    if (r == HF_BUSY && op->placed)
        op->retry_ms = watch(&h, seat, &contender);
    else
        hf__seat_unwatch(seat);
    if (r == HF_BUSY && !op->placed) op->retry_ms = HF__RECHECK_MS;
    if (r == HF_OK && h.crowded) op->crowded = true;
    fini(&h);
    return r;
}

/* Through the door, and look. The result says why not. */
static hf_result go_in(hall *h, hf__head *head, char **detail) {
    hf__lock *l = h->lock;
    int error = hf__queue_take_hold(l, h->peers, false, HF__ENTRY_WAIT_MS);
    if (error == EAGAIN || error == ETIMEDOUT) return hf__hall_stuck(l, detail);
    if (error) return hf__lock_trouble(l, "lock", error, detail);
    hf_result r = hf__lockfile_read(&l->file, l->fd, NULL, 0, head, detail);
    if (!r && !(hf__record_whole(&head->record) && hf__room_head_whole(&head->room)))
        r = hf__lockfile_damaged(&l->file, "was damaged", detail);
    h->head = head;
    if (!r) r = look_in(h, detail);
    return r ? leave_unseen(h, r) : HF_OK;
}

hf_result hf__hall_renew(hf__lock *l, hf__seat *seat, hf__peers *peers, const hf__record *self,
                         hf__op *op, hf__time now) {
    hall h = {.lock = l, .peers = peers, .record = self};
    hf__head head;
    hf_result r = go_in(&h, &head, &op->detail);
    if (r) return r;
    hf__contender contender = hf__contender_of_op(h.self, op);
    r = hf__lock_state_renew(&h.state, h.self, op, now);
    int error = write_back(&h);
    if (seat->upgrade >= 0) hf__seat_unwatch(seat);
    r = end(&h, seat, &contender, error, r, &op->detail);
    fini(&h);
    return r;
}

static void drop_slot(hf__lock *l, int64_t index) {
    if (index < 0) return;
    if (hf__slot_drop(l->fd, (unsigned)index) == 0)
        hf__slot_set_put(&l->slots, (unsigned)index, false);
    else
        l->soiled = true;
}

/* Without the door, where it cannot be had, or what is behind it not be read: nobody is to wait
   for us. Who waits sees it when it looks. Nothing is written: a file that was cut short is not made longer again, and
   what is not locked does not count. */
static void drop_slots(hf__lock *l, const hf__seat *seat, hf__peers *peers) {
    drop_slot(l, seat->slot);
    drop_slot(l, seat->upgrade);
    if (l->soiled) (void)hf__queue_unlock_and_wake(l, peers);
}

hf_result hf__hall_release(hf__lock *l, hf__seat *seat, hf__peers *peers, const hf__record *self,
                           hf__op *op) {
    hall h = {.lock = l, .peers = peers, .record = self};
    hf__head head;
    char *detail = NULL;
    bool held = seat->holds;
    hf_result r = go_in(&h, &head, &detail);
    if (r == HF_UNREACHABLE && held) {
        op->detail = detail;
        return r;
    }
    free(detail);
    hf__seat_unwatch(seat);
    seat->holds = false;
    if (r) {
        drop_slots(l, seat, peers);
    } else {
        (void)hf__lock_state_release(&h.state, h.self, op);
        (void)write_back(&h);
        go(&h);
        fini(&h);
    }
    seat->slot = seat->upgrade = -1;
    return held ? HF_OK : HF_LOST;
}
