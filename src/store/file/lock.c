/* SPDX-License-Identifier: Apache-2.0 */
/* Acquires, renews and releases one lock: see lock.h. queue.c has the tickets, kinds_table.c the
   kinds table. */
#include "store/file/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "store/file/clofork.h"
#include "store/file/kinds_table.h"
#include "store/file/queue.h"
#include "store/file/ranges.h"
#include "store/file/sweep.h"
#include "store/lock_state/token.h"

/* ---- The file ---- */

hf_result hf__lock_error(const hf__lock *l, const char *what, int error, char **detail) {
    return hf__lockfile_error(&l->file, what, error, detail);
}

static hf_result open_file(hf__lock *l, char **detail) {
    hf_result why;
    hf__head head = {0};
    int fd = hf__lockfile_open(&l->file, true, &why, detail);
    bool gone = fd < 0 ? why == HF_NOT_HELD : hf__lockfile_directory_moved(&l->file);
    if (gone) {
        hf__clofork_close(fd);
        *detail =
            hf__line("the directory %s was removed or moved; open the store again", l->file.path);
        return HF_REFUSED;
    }
    if (fd < 0) return why;
    struct stat st;
    if (fstat(fd, &st) != 0)
        why = hf__lock_error(l, "open", errno, detail);
    else
        why = hf__lockfile_read(&l->file, fd, l->mapped.key, l->mapped.length, &head, detail);
    if (why) {
        hf__clofork_close(fd);
        return why;
    }
    l->fd = fd;
    l->was_new = !head.version;
    l->device = st.st_dev;
    l->inode = st.st_ino;
    return HF_OK;
}

static void close_file(hf__lock *l) {
    hf__clofork_close(l->fd);
    l->fd = -1;
    hf__queue_abandon(l);
}

/* ---- Local contenders ---- */

static void init_local(hf__local_contender *s) {
    *s = (hf__local_contender){.ticket = -1, .slot = -1, .upgrade_slot = -1};
}

static bool is_local_in_use(const hf__local_contender *s) {
    return s->ticket >= 0 || s->slot >= 0;
}

void hf__lock_init(hf__lock *l) {
    l->fd = -1;
    init_local(&l->mutex);
}

static hf__local_contender *find_local(hf__lock *l, const hf__op *op) {
    if (op->kind == HF_MUTEX) return &l->mutex;
    hf__local_contender *s = l->mutex.next;
    while (s && s->acquire_id != op->acquire_id) s = s->next;
    return s;
}

static hf__local_contender *make_local(hf__lock *l, const hf__op *op) {
    hf__local_contender *s = find_local(l, op);
    if (s) return s;
    s = malloc(sizeof *s);
    if (!s) return NULL;
    init_local(s);
    s->acquire_id = op->acquire_id;
    s->next = l->mutex.next;
    l->mutex.next = s;
    return s;
}

static void free_unused_locals(hf__lock *l) {
    for (hf__local_contender **link = &l->mutex.next; *link;) {
        hf__local_contender *s = *link;
        if (is_local_in_use(s)) {
            link = &s->next;
            continue;
        }
        *link = s->next;
        hf__local_unwatch(s);
        free(s);
    }
    if (!is_local_in_use(&l->mutex)) hf__local_unwatch(&l->mutex);
}

bool hf__lock_used(const hf__lock *l) {
    if (l->held) return true;
    for (const hf__local_contender *s = &l->mutex; s; s = s->next)
        if (is_local_in_use(s)) return true;
    return false;
}

void hf__lock_fini(hf__lock *l) {
    while (l->mutex.next) {
        hf__local_contender *s = l->mutex.next;
        l->mutex.next = s->next;
        free(s);
    }
}

void hf__lock_close(hf__lock *l, hf__peers *peers) {
    if (l->held) hf__queue_unlock_and_wake(l, peers);
    for (hf__local_contender *s = &l->mutex; s; s = s->next) {
        hf__op op = {.verb = HF__RELEASE,
                     .acquire_id = s->acquire_id,
                     .kind = s == &l->mutex ? HF_MUTEX : HF_READ};
        if (s->ticket >= 0) hf__queue_leave(l, s, peers);
        if (s->slot >= 0) (void)hf__kinds_release(l, s, peers, &l->record, &op);
        free(op.detail);
    }
    close_file(l);
    free_unused_locals(l);
}

/* ---- With the hold's range ---- */

static void fill_record(hf__record *r, const hf__op *op, uint64_t last, hf__time now) {
    int64_t us = hf__unix_us();
    r->token = hf__token_next(last, op->token, us);
    r->acquire_id = op->acquire_id;
    r->until = now + op->lease_ms * HF__MS;
    r->since_unix_ms = us / 1000;
    r->owner = op->owner.id;
    r->logical = op->owner.logical;
    r->count = op->count;
}

/* True: others were queued before us, so the hold is theirs. If the queue is empty, clear the flag
   in the file and look again. A client that joins takes its ticket first and then sets the flag, so
   at least one of the two clients sees the other. */
static bool others_are_queued(hf__lock *l, const hf__head *head) {
    if (l->was_queued) return false;
    l->expect_queue = (head->has_queue || !head->version) && hf__queue_has_others(l);
    if (!head->has_queue || l->expect_queue) return l->expect_queue;
    (void)hf__lockfile_write_has_queue(l->fd, false);
    if (hf__queue_has_others(l)) (void)hf__lockfile_write_has_queue(l->fd, true);
    return false;
}

/* The kinds table is not in use, so the lock is ours for as long as we have the range of the
   hold. */
static hf_result take_mutex(hf__lock *l, hf__peers *peers, const hf__record *self,
                            const hf__head *head, hf__op *op, hf__time now) {
    uint64_t last = head->record.token > head->kinds.token ? head->record.token : head->kinds.token;
    l->record = *self;
    l->record.id = peers->id;
    fill_record(&l->record, op, last, now);
    int error = hf__lockfile_write_record(l->fd, &l->record);
    if (error) {
        hf__queue_unlock_and_wake(l, peers);
        return hf__lock_error(l, "write", error, &op->detail);
    }
    l->held = op->acquire_id;
    op->token = l->record.token;
    return HF_OK;
}

/* An empty file is new, unless some of its slots are in use: then it was cut short. The lock may
   have had a file before, so its tokens continue above the floor. */
static hf_result init_file(hf__lock *l, hf__head *head, hf__op *op) {
    hf__slot_table table;
    hf_result r = hf__slot_table_read(&l->file, l->fd, &l->slots, &table, &op->detail);
    hf__slot_table_fini(&table);
    head->record.token = hf__sweep_floor(l->file.directory);
    if (r) return r;
    int error = hf__lockfile_write_new(l->fd, l->mapped.key, l->mapped.length, head->record.token);
    return error ? hf__lock_error(l, "write", error, &op->detail) : HF_OK;
}

/* We have the range of the hold: read the file. HF_NOT_HELD: it is not our turn. */
static hf_result read_head(hf__lock *l, const hf__local_contender *local, hf__head *head,
                           hf__op *op) {
    hf_result r = hf__lockfile_read(&l->file, l->fd, NULL, 0, head, &op->detail);
    if (r) return r;
    if (local->slot < 0 && others_are_queued(l, head)) return HF_NOT_HELD;
    if (!head->version) return init_file(l, head, op);
    if (hf__record_is_intact(&head->record) && hf__kinds_head_is_intact(&head->kinds)) return HF_OK;
    return hf__lockfile_report_damaged(&l->file, "is damaged", &op->detail);
}

/* A mutex may have to wait in the table, too. */
static hf_result acquire_in_table(hf__lock *l, hf__local_contender *local, hf__peers *peers,
                                  const hf__record *self, hf__head *head, hf__op *op,
                                  hf__time now) {
    int error = op->enqueue ? hf__peers_join(peers, true) : 0;
    if (!error) return hf__kinds_acquire(l, local, peers, self, head, op, now);
    hf__queue_unlock_and_wake(l, peers);
    return hf__lock_error(l, "wait for", error, &op->detail);
}

static hf_result acquire_held(hf__lock *l, hf__local_contender *local, hf__peers *peers,
                              const hf__record *self, hf__op *op, hf__time now) {
    hf__head head;
    hf_result r = read_head(l, local, &head, op);
    if (r) {
        hf__queue_unlock_and_wake(l, peers);
        return r;
    }
    if (op->kind != HF_MUTEX || hf__kinds_in_use(&head) || local->slot >= 0) {
        r = acquire_in_table(l, local, peers, self, &head, op, now);
        if (r != HF_NOT_HELD) return r;
    }
    return take_mutex(l, peers, self, &head, op, now);
}

/* ---- Acquiring ---- */

/* It holds or waits in the kinds table already, so it only needs the entry lock. */
static hf_result take_entry_lock(hf__lock *l, const hf__local_contender *local, hf__peers *peers,
                                 hf__op *op) {
    bool waits = local->upgrade_slot >= 0 || !local->holds;
    int error =
        hf__queue_take_hold(l, peers, false, waits ? HF__ENTRY_GLANCE_MS : HF__ENTRY_WAIT_MS);
    if (!error) return HF_OK;
    if (error != EAGAIN && error != ETIMEDOUT) return hf__lock_error(l, "lock", error, &op->detail);
    return waits ? hf__queue_busy(op, HF__UNWATCHED_RETRY_MS, true)
                 : hf__kinds_report_stuck(l, &op->detail);
}

/* HF_OK: we have the hold's range, as hold or as entry lock. */
static hf_result take_turn(hf__lock *l, hf__local_contender *local, hf__peers *peers, hf__op *op,
                           hf__time now) {
    bool mutex = op->kind == HF_MUTEX;
    if (local->ticket >= 0) return hf__queue_wait(l, local, peers, op, now);
    if (local->slot >= 0) return take_entry_lock(l, local, peers, op);
    int error = hf__peers_join(peers, !mutex);
    if (error) return hf__lock_error(l, "acquire", error, &op->detail);
    if (!hf__queue_has_ours(l) && (!l->expect_queue || !hf__queue_has_others(l))) {
        int64_t patience = !op->enqueue ? HF__ENTRY_WAIT_MS : mutex ? 0 : HF__ENTRY_GLANCE_MS;
        error = hf__queue_take_hold(l, peers, mutex, patience);
        l->was_queued = false;
        if (!error) return HF_OK;
        if (error == ETIMEDOUT && !op->enqueue) return hf__kinds_report_stuck(l, &op->detail);
        if (error != EAGAIN && error != ETIMEDOUT)
            return hf__lock_error(l, "lock", error, &op->detail);
    }
    return op->enqueue ? hf__queue_join(l, local, peers, op, now)
                       : hf__queue_busy(op, HF__RECHECK_MS, false);
}

/* Whether nothing prevents another try: the file was being removed, or there is no holder and no
   waiter any more. */
static bool worth_another_try(const hf__lock *l) {
    if (hf__lock_used(l)) return false;
    int64_t holder = hf__hold_holder(l->fd);
    if (holder == HF__REMOVING) return true;
    return !holder && !hf__queue_has_others(l);
}

/* HF_NOT_HELD: try again, in the queue or with the file that has the name now. */
static hf_result try_acquire_once(hf__lock *l, hf__local_contender *local, hf__peers *peers,
                                  const hf__record *self, hf__op *op, hf__time now, int tries) {
    hf_result r = take_turn(l, local, peers, op, now);
    if (r == HF_BUSY && !op->queued && worth_another_try(l)) {
        hf__queue_back_off(tries);
        close_file(l);
        return HF_NOT_HELD;
    }
    if (r) return r;
    int current = hf__lockfile_is_current(&l->file, l->device, l->inode);
    if (current == 1) return acquire_held(l, local, peers, self, op, now);
    /* Waiters of a file that is gone must also notice that. */
    hf__queue_unlock_and_wake(l, peers);
    if (current < 0) return hf__lock_error(l, "check", -current, &op->detail);
    close_file(l);
    return HF_NOT_HELD;
}

static hf_result retry_acquire(hf__lock *l, hf__local_contender *local, hf__peers *peers,
                               const hf__record *self, hf__op *op, hf__time now) {
    for (int i = 0; i < HF__OPEN_TRIES; i++) {
        hf_result r = l->fd < 0 ? open_file(l, &op->detail) : HF_OK;
        if (!r) r = try_acquire_once(l, local, peers, self, op, now, i);
        if (r != HF_NOT_HELD) return r;
    }
    op->detail = hf__line("%s/%s was removed repeatedly while it was being opened; try again",
                          l->file.path, l->file.name);
    return HF_UNREACHABLE;
}

hf_result hf__lock_acquire(hf__lock *l, hf__peers *peers, const hf__record *self, hf__op *op,
                           hf__time now) {
    if (now > op->not_after) return HF_TIMEOUT;
    if (op->kind == HF_MUTEX && l->held == op->acquire_id) {
        op->token = l->record.token;
        return HF_OK;
    }
    /* the hold of a lower acquire id of ours, which no caller wants any more */
    if (op->kind == HF_MUTEX && l->held) hf__queue_unlock_and_wake(l, peers);
    hf__local_contender *local = make_local(l, op);
    if (!local) return HF_NOMEM;
    if (op->upgrade && local->slot < 0) {
        free_unused_locals(l);
        return HF_LOST;
    }
    hf_result r = retry_acquire(l, local, peers, self, op, now);
    free_unused_locals(l);
    return r;
}

/* ---- Holding ---- */

static hf_result report_lost(hf__op *op) {
    free(op->detail);
    op->detail = NULL;
    return HF_LOST; /* the range is kept until the core has notified the holder */
}

/* `ours`: the file says that the lock is still ours. */
static hf_result check_current(const hf__lock *l, bool ours, hf__op *op) {
    int current = hf__lockfile_is_current(&l->file, l->device, l->inode);
    if (ours && current < 0) {
        op->detail =
            hf__line("cannot check %s/%s: %s", l->file.path, l->file.name, strerror(-current));
        return HF_UNREACHABLE;
    }
    return !ours || !current || hf__lockfile_directory_moved(&l->file) ? report_lost(op) : HF_OK;
}

static hf_result renew_mutex(hf__lock *l, hf__op *op, hf__time now) {
    hf__head head;
    hf_result r = hf__lockfile_read(&l->file, l->fd, NULL, 0, &head, &op->detail);
    if (r == HF_UNREACHABLE) return r;
    bool ours = !r && head.record.token == l->record.token && head.broken != l->record.token;
    r = check_current(l, ours, op);
    if (r) return r;
    l->record.count = op->count;
    if (op->lease_ms) l->record.until = hf__later(l->record.until, now + op->lease_ms * HF__MS);
    int error = hf__lockfile_write_record(l->fd, &l->record);
    return error == EIO ? hf__lock_error(l, "write", error, &op->detail) : HF_OK;
}

/* Whether the renewal is for a lower kind than the one that the hold has, or waits for. */
static bool is_downgrade(const hf__local_contender *s, uint32_t kind) {
    if (kind != HF_READ && kind != HF_UPGRADABLE) return false;
    return s->upgrade_slot >= 0 || s->kind == HF_WRITE ||
           (s->kind == HF_UPGRADABLE && kind == HF_READ);
}

/* This needs no entry lock, because only we write to this slot; others might have the entry lock
   for long. It does not look for waiters, so it reports that there are some. */
static hf_result renew_local(hf__lock *l, hf__local_contender *s, hf__peers *peers,
                             const hf__record *self, hf__op *op, hf__time now) {
    hf__slot slot;
    int error = hf__slot_read(l->fd, (unsigned)s->slot, &slot);
    if (error) {
        (void)hf__lock_error(l, "read", error, &op->detail);
        return HF_UNREACHABLE;
    }
    if (s->token_before && op->token == s->token_before) op->token = s->token;
    bool ours = slot.acquire_id == s->acquire_id && hf__slot_is_intact(&slot) &&
                slot.token == s->token && slot.broken != s->token && op->token == s->token;
    hf_result r = check_current(l, ours, op);
    if (r) return r;
    op->has_waiters = true;
    if (is_downgrade(s, op->kind)) return hf__kinds_renew(l, s, peers, self, op, now);
    hf__time until = op->lease_ms ? now + op->lease_ms * HF__MS : 0;
    error = hf__slot_extend(l->fd, (unsigned)s->slot, hf__later(slot.until, until), op->count);
    return error == EIO ? hf__lock_error(l, "write", error, &op->detail) : HF_OK;
}

hf_result hf__lock_renew(hf__lock *l, hf__peers *peers, const hf__record *self, hf__op *op,
                         hf__time now) {
    if (op->kind == HF_MUTEX && l->held) {
        return l->held == op->acquire_id ? renew_mutex(l, op, now) : HF_LOST;
    }
    hf__local_contender *local = find_local(l, op);
    if (!local || !local->holds || local->acquire_id != op->acquire_id) return HF_LOST;
    return renew_local(l, local, peers, self, op, now);
}

hf_result hf__lock_release(hf__lock *l, hf__peers *peers, const hf__record *self, hf__op *op) {
    hf_result r = HF_LOST;
    if (op->kind == HF_MUTEX && l->held && l->held <= op->acquire_id) {
        hf__queue_unlock_and_wake(l, peers);
        r = HF_OK;
    }
    hf__local_contender *local = find_local(l, op);
    if (local && local->acquire_id <= op->acquire_id) {
        if (local->ticket >= 0) hf__queue_leave(l, local, peers);
        if (local->slot >= 0) r = hf__kinds_release(l, local, peers, self, op);
    }
    free_unused_locals(l);
    return r;
}
