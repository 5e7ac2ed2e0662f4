/* SPDX-License-Identifier: Apache-2.0 */
#include "store/redis/topology/release_log.h"

#include "store/redis/protocol/notifications.h"

#include <stdlib.h>
#include <string.h>

struct hf__released {
    hf__mapped mapped; /* key: the name; for any kind but a mutex, also the acquire id */
    hf__released *next, *prev;
    uint64_t acquire_id;
    uint32_t kind;
    bool leave;     /* it was queued */
    hf__time until; /* by then its lease and its queue entry have expired on every server */
    bool busy;      /* in flight */
    hf__op op;
    char key[];
};

void hf__release_log_init(hf__release_log *log, uint64_t seed) {
    *log = (hf__release_log){.count = 0};
    hf__map_init(&log->names, seed);
}

static void unlink_release(hf__release_log *log, hf__released *r) {
    if (r->prev)
        r->prev->next = r->next;
    else
        log->first = r->next;
    if (r->next)
        r->next->prev = r->prev;
    else
        log->last = r->prev;
    r->next = r->prev = NULL;
}

static void drop_release(hf__release_log *log, hf__released *r) {
    hf__map_remove(&log->names, &r->mapped);
    unlink_release(log, r);
    log->count--;
    free(r->op.detail);
    free(r);
}

static void append_release(hf__release_log *log, hf__released *r) {
    r->prev = log->last;
    r->next = NULL;
    if (log->last)
        log->last->next = r;
    else
        log->first = r;
    log->last = r;
}

void hf__release_log_fini(hf__release_log *log) {
    while (log->first) drop_release(log, log->first);
    hf__map_fini(&log->names);
}

/* Drops the releases whose lease is over. If the log is full, drops the oldest ones, too. */
static void drop_expired(hf__release_log *log, hf__time now) {
    for (hf__released *r = log->first, *next; r; r = next) {
        next = r->next;
        if (r->until > now && log->count < HF__RELEASE_LOG_MAX) return;
        if (!r->busy) drop_release(log, r);
    }
}

static size_t id_length(uint32_t kind) {
    return kind == HF_MUTEX ? 0 : sizeof(uint64_t);
}

static hf__released *find_or_add_release(hf__release_log *log, const hf__op *op) {
    size_t id_bytes = id_length(op->kind), length = op->name_length + id_bytes;
    hf__released *made = calloc(1, sizeof *made + length + 1);
    if (!made) return NULL;
    memcpy(made->key, op->name, op->name_length);
    memcpy(made->key + op->name_length, &op->acquire_id, id_bytes);
    hf__mapped *m = hf__map_find(&log->names, made->key, length);
    if (m) {
        free(made);
        return (hf__released *)((char *)m - offsetof(hf__released, mapped));
    }
    made->mapped.key = made->key;
    made->mapped.length = length;
    hf__map_add(&log->names, &made->mapped);
    append_release(log, made);
    log->count++;
    return made;
}

/* One entry covers all earlier releases of its name: a release acts on every acquire id up to its
   own. */
static void log_release(hf__release_log *log, const hf__op *op, hf__time now) {
    drop_expired(log, now);
    hf__released *r = find_or_add_release(log, op);
    if (!r) return;
    bool leave = op->leave_queue || log->has_queued;
    int64_t lasts =
        leave && log->lease_ms < HF__QUEUE_ENTRY_MS ? HF__QUEUE_ENTRY_MS : log->lease_ms;
    if (op->acquire_id > r->acquire_id) r->acquire_id = op->acquire_id;
    r->kind = op->kind;
    r->leave |= leave;
    r->until = hf__later(r->until, hf__after_ms(now, lasts));
    unlink_release(log, r);
    append_release(log, r);
}

/* Released, or lost (another server may still have it). A lost hold of another kind than a mutex
   does not count: its acquire id may be sent again for another waiter. */
static bool ends_hold(const hf__op *op) {
    if (op->verb == HF__RELEASE && (op->result == HF_OK || op->leave_queue))
        return op->result == HF_OK || op->result == HF_LOST;
    bool hold = op->verb == HF__RELEASE || op->verb == HF__RENEW;
    return hold && op->kind == HF_MUTEX && op->result == HF_LOST;
}

void hf__release_log_note(hf__release_log *log, const hf__op *op, hf__time now) {
    if (op->lease_ms > log->lease_ms) log->lease_ms = op->lease_ms;
    if (op->next_acquire && op->next_acquire->lease_ms > log->lease_ms)
        log->lease_ms = op->next_acquire->lease_ms;
    if (hf__is_queued(op)) log->has_queued = true;
    /* it is acquired again */
    if (op->kind != HF_MUTEX && op->ack.state == HF__ACK_UNDOING) return;
    if (!ends_hold(op)) return;
    log_release(log, op, now);
    bool left = op->verb == HF__RELEASE && op->leave_queue;
    if (op->result == HF_LOST && !left && log->has_queued)
        log->repeat_now = true; /* it may be queued on this server */
}

static hf__op *repeat_release(hf__released *r, hf__time now) {
    r->busy = true;
    r->op = (hf__op){.verb = HF__RELEASE,
                     .repeated = true,
                     .name = r->key,
                     .name_length = r->mapped.length - id_length(r->kind),
                     .acquire_id = r->acquire_id,
                     .kind = r->kind,
                     .leave_queue = r->leave,
                     .held_since = now};
    return &r->op;
}

void hf__release_log_repeat(hf__release_log *log, hf__session *session, hf__time now) {
    drop_expired(log, now);
    log->repeat_now = false;
    for (hf__released *r = log->first; r; r = r->next)
        if (!r->busy) hf__session_submit(session, repeat_release(r, now), now);
}

void hf__release_log_repeat_to(hf__release_log *log, hf__store *store,
                               bool (*concerns)(const hf__store *store, const char *name,
                                                size_t length),
                               hf__time now) {
    drop_expired(log, now);
    for (hf__released *r = log->first; r; r = r->next) {
        size_t length = r->mapped.length - id_length(r->kind);
        if (!r->busy && concerns(store, r->key, length))
            store->table->submit(store, repeat_release(r, now), now);
    }
}

bool hf__release_log_reclaim(hf__op *op) {
    if (!op->repeated) return false;
    ((hf__released *)((char *)op - offsetof(hf__released, op)))->busy = false;
    free(op->detail);
    op->detail = NULL;
    return true;
}
