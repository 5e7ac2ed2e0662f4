/* SPDX-License-Identifier: Apache-2.0 */
/* The store table over the locks of a directory. Every operation completes at once, in a few system
   calls. The exception is BREAK, which waits until the holder has ended its hold. */
#include "store/file/file.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "store/file/clofork.h"
#include "store/file/directory.h"
#include "store/file/inspect.h"
#include "store/file/latch_leader.h"
#include "store/file/list.h"
#include "store/file/lock.h"
#include "store/file/queue.h"
#include "store/file/sweep.h"

#define KEEP_MS INT64_C(86400000) /* a day after the last use, as in other stores */
/* unused locks kept open, because they are likely to be used again */
#define IDLE_MAX     64
#define ID_TEXT      8            /* digits of a client's id */
#define RECHECK      (5 * HF__MS) /* how often to check whether a broken hold has ended */
#define FUTILE_TRIES 3            /* how often to look for space where nothing can be removed */
#define FULL_RETRY   HF__SEC      /* how long to wait before the next look */

typedef struct file_store {
    hf__store store;
    const hf__url *url;
    int directory;
    char *path;
    hf__record self; /* describes this client, in every record we write */
    char introduction[HF__INTRODUCTION_MAX];
    hf__peers peers;
    hf__map locks;
    hf__lock *idle_first, *idle_last;
    unsigned idle;
    hf__lock *notify_list;
    hf__ops completed;
    hf__ops breaking;   /* marked, but not ended yet */
    bool retry_unlocks; /* some ranges could not be unlocked */
    hf__time recheck_at;
    hf__time full_until; /* do not look for space before this */
} file_store;

/* ---- Locks by name ---- */

static size_t make_key(const file_store *f, char key[HF__KEY_MAX], const hf__op *op) {
    size_t prefix = strlen(f->url->prefix) + 1;
    memcpy(key, f->url->prefix, prefix);
    memcpy(key + prefix, op->name, op->name_length);
    return prefix + op->name_length;
}

static void name_file(const file_store *f, hf__lockfile *out, const char *key, size_t length) {
    out->directory = f->directory;
    out->path = f->path;
    hf__filename(out->name, key, length);
}

static hf__lock *find_lock(file_store *f, const hf__op *op, bool make) {
    char key[HF__KEY_MAX];
    size_t length = make_key(f, key, op);
    hf__mapped *found = hf__map_find(&f->locks, key, length);
    if (found || !make) return (hf__lock *)found;
    hf__lock *l = calloc(1, sizeof *l + length);
    if (!l) return NULL;
    hf__lock_init(l);
    l->mapped.key = memcpy(l + 1, key, length);
    l->mapped.length = length;
    name_file(f, &l->file, key, length);
    hf__map_add(&f->locks, &l->mapped);
    return l;
}

static void unlist_idle(file_store *f, hf__lock *l) {
    if (!l->idle) return;
    *(l->prev ? &l->prev->next : &f->idle_first) = l->next;
    *(l->next ? &l->next->prev : &f->idle_last) = l->prev;
    l->idle = false;
    f->idle--;
}

static void drop_lock(file_store *f, hf__lock *l) {
    unlist_idle(f, l);
    hf__lock_close(l, &f->peers);
    hf__map_remove(&f->locks, &l->mapped);
    hf__lock **link = &f->notify_list;
    while (*link && *link != l) link = &(*link)->next_to_notify;
    if (*link) *link = l->next_to_notify;
    hf__lock_fini(l);
    free(l);
}

/* Unused locks stay open for a while, because opening is the most expensive part. */
static void keep_idle(file_store *f, hf__lock *l) {
    bool used = hf__lock_used(l);
    if (used || l->idle) {
        if (used) unlist_idle(f, l);
        return;
    }
    l->idle = true;
    l->next = NULL;
    l->prev = f->idle_last;
    *(l->prev ? &l->prev->next : &f->idle_first) = l;
    f->idle_last = l;
    if (++f->idle > IDLE_MAX) drop_lock(f, f->idle_first);
}

/* The core must be notified of this lock: a contender was woken, or a hold must be verified. */
static void list_to_notify(file_store *f, hf__lock *l) {
    if (l->in_notify_list) return;
    l->in_notify_list = true;
    l->next_to_notify = f->notify_list;
    f->notify_list = l;
}

/* ---- ACQUIRE, RENEW, RELEASE ---- */

static void complete_op(file_store *f, hf__op *op, hf_result result) {
    op->result = result;
    hf__ops_push(&f->completed, op);
}

/* Descriptors or space have run out: close files that are open only for later use. True: some were
   closed. */
static bool free_idle(file_store *f) {
    bool some = f->idle_first || hf__peers_trim(&f->peers, 0);
    while (f->idle_first) drop_lock(f, f->idle_first);
    return some;
}

static void finish_use(file_store *f, hf__lock *l) {
    if (l->has_wake_pending) list_to_notify(f, l);
    if (l->retry_unlock) f->retry_unlocks = true;
    keep_idle(f, l);
}

static hf_result acquire_lock(file_store *f, hf__op *op, hf__time now) {
    hf__lock *l = find_lock(f, op, true);
    if (!l) return HF_NOMEM;
    unlist_idle(f, l);
    hf_result r = hf__lock_acquire(l, &f->peers, &f->self, op, now);
    if (r == HF_NOMEM && free_idle(f)) {
        free(op->detail);
        op->detail = NULL;
        r = hf__lock_acquire(l, &f->peers, &f->self, op, now);
    }
    finish_use(f, l);
    return r;
}

static hf_result renew_lock(file_store *f, hf__op *op, hf__time now) {
    hf__lock *l = find_lock(f, op, false);
    if (!l) return HF_LOST;
    hf_result r = hf__lock_renew(l, &f->peers, &f->self, op, now);
    finish_use(f, l);
    return r;
}

static hf_result release_lock(file_store *f, hf__op *op) {
    hf__lock *l = find_lock(f, op, false);
    if (!l) return HF_LOST;
    hf_result r = hf__lock_release(l, &f->peers, &f->self, op);
    finish_use(f, l);
    return r;
}

/* ---- INSPECT ---- */

static hf_result take_snapshot(file_store *f, hf__op *op, hf__file_snapshot *snapshot) {
    char key[HF__KEY_MAX];
    size_t length = make_key(f, key, op);
    hf__lockfile where;
    name_file(f, &where, key, length);
    return hf__file_inspect(&where, key, length, snapshot, &op->detail);
}

static void describe_waiters(const hf__file_snapshot *snapshot, hf__lock_info *s) {
    s->waiter_count = snapshot->waiter_count;
    for (uint32_t i = 0; i < s->waiter_count && i < HF__WAITERS_MAX; i++) {
        const hf__slot *slot = &snapshot->waiters[i];
        (void)snprintf(s->waiters[i].client, sizeof s->waiters[i].client, "%08x", slot->id);
        if (slot->acquire_id)
            hf__owner_text(s->waiters[i].owner, (hf__owner){slot->owner, slot->logical});
    }
}

/* An introduction is pid, program and label, separated by tabs. */
static void read_introduction(const file_store *f, uint32_t id, hf__identity *who) {
    char text[HF__INTRODUCTION_MAX], *rest = text;
    if (!hf__peers_read_introduction(&f->peers, id, text)) return;
    who->pid = strtol(strsep(&rest, "\t"), NULL, 10);
    hf__text_copy(who->program, sizeof who->program, rest ? strsep(&rest, "\t") : "");
    hf__text_copy(who->label, sizeof who->label, rest ? rest : "");
}

static void fill_host(hf__identity *who) {
    if (gethostname(who->host, sizeof who->host - 1) != 0) who->host[0] = '\0';
}

static void describe_mutex(const hf__record *record, hf__lock_info *s, hf__time now) {
    s->holders = 1;
    s->count = record->count;
    s->token = record->token;
    s->since_unix_ms = record->since_unix_ms;
    s->remaining_ms = record->until > now ? (record->until - now) / HF__MS : 0;
    hf__owner_text(s->owner, (hf__owner){record->owner, record->logical});
    hf__text_copy(s->identity.client, sizeof s->identity.client, record->client);
    s->identity.pid = record->pid;
    hf__text_copy(s->identity.program, sizeof s->identity.program, record->program);
    hf__text_copy(s->identity.label, sizeof s->identity.label, record->label);
}

static void describe_kinds(const file_store *f, const hf__file_snapshot *snapshot, hf__lock_info *s,
                           hf__time now) {
    const hf__slot *first = &snapshot->table.views[0].slot;
    s->holders = snapshot->holder_count;
    for (unsigned i = 0; i < snapshot->holder_count; i++) {
        const hf__slot *slot = &snapshot->table.views[i].slot;
        if (slot->kind != HF_PERMITS) continue;
        s->used += slot->permits;
        s->capacity = slot->capacity;
    }
    s->kind = snapshot->holder_count > 1 && first->kind == HF_UPGRADABLE ? HF_READ : first->kind;
    s->count = first->count;
    s->token = first->token;
    s->since_unix_ms = first->since_unix_ms;
    s->remaining_ms = first->until > now ? (first->until - now) / HF__MS : 0;
    hf__owner_text(s->owner, (hf__owner){first->owner, first->logical});
    read_introduction(f, first->id, &s->identity);
    hf__text_copy(s->identity.client, sizeof s->identity.client, first->client);
    s->identity.pid = first->pid;
}

static hf_result inspect_lock(file_store *f, hf__op *op, hf__time now) {
    hf__file_snapshot snapshot;
    hf__lock_info *s = op->lock_info;
    s->held = false;
    s->kind = s->used = s->capacity = s->holders = s->waiter_count = 0;
    hf_result r = take_snapshot(f, op, &snapshot);
    if (r) return r;
    describe_waiters(&snapshot, s);
    s->held = snapshot.held || snapshot.holder_count;
    if (snapshot.held)
        describe_mutex(&snapshot.head.record, s, now);
    else if (snapshot.holder_count)
        describe_kinds(f, &snapshot, s, now);
    if (s->held) fill_host(&s->identity);
    hf__file_inspect_end(&snapshot);
    return HF_OK;
}

/* ---- Latch and leader: see latch_leader.h ---- */

static hf_result execute_latch(file_store *f, hf__op *op) {
    char key[HF__KEY_MAX];
    size_t length = make_key(f, key, op);
    return hf__file_latch(f->directory, f->path, key, length, op);
}

/* Whether we hold the mutex under this token. It may be in the kinds table as the only holder. */
static bool hold_is_ours(const file_store *f, const hf__file_snapshot *snapshot, uint64_t token) {
    const hf__slot *holder = snapshot->holder_count ? &snapshot->table.views[0].slot : NULL;
    if (snapshot->held)
        return snapshot->head.record.token == token &&
               !strcmp(snapshot->head.record.client, f->self.client);
    return holder && holder->token == token && !strcmp(holder->client, f->self.client);
}

static hf_result set_leader_value(file_store *f, hf__op *op) {
    char key[HF__KEY_MAX];
    size_t length = make_key(f, key, op);
    hf__file_snapshot snapshot;
    hf_result r = take_snapshot(f, op, &snapshot);
    if (r) return r;
    bool ours = hold_is_ours(f, &snapshot, op->token);
    hf__file_inspect_end(&snapshot);
    return ours ? hf__file_proclaim(f->directory, f->path, key, length, op) : HF_LOST;
}

static hf_result read_leader_value(file_store *f, hf__op *op, hf__time now) {
    char key[HF__KEY_MAX];
    size_t length = make_key(f, key, op);
    hf_result r = inspect_lock(f, op, now);
    op->retry_ms = HF__LATCH_RETRY_MS;
    if (r) return r;
    r = op->lock_info->held
            ? hf__file_leader_value(f->directory, f->path, key, length, op->lock_info->token, op)
            : HF_NOT_HELD;
    op->lock_info->held = r == HF_OK;
    return r;
}

/* Only for a waiter: its client text is the id of a client of this directory. INSPECT has already
   described the holder. */
static hf_result describe_client(const file_store *f, hf__op *op) {
    hf__identity *who = &op->lock_info->identity;
    if (strlen(who->client) != ID_TEXT) return HF_OK;
    read_introduction(f, (uint32_t)strtoul(who->client, NULL, 16), who);
    fill_host(who);
    return HF_OK;
}

/* ---- BREAK: the holder is asked to end its hold, and does so itself ---- */

static void notify_holder(file_store *f, hf__op *op, uint32_t id, ino_t inode) {
    hf__lock *ours = find_lock(f, op, false);
    if (ours && id == f->peers.id) {
        ours->verify_hold = true;
        list_to_notify(f, ours);
    } else {
        hf__peers_request_break(&f->peers, id, inode);
    }
}

/* Whether a break of `token` applies to a hold under the token `held`; 0 applies to any hold. */
static bool token_matches(uint64_t token, uint64_t held) {
    return held && (!token || token == held);
}

/* Mark the holds to end, and notify their holders. Returns their number, or a negative errno. */
static int mark_broken(file_store *f, hf__op *op, const hf__file_snapshot *snapshot) {
    int marked = 0, error = 0;
    const hf__record *record = &snapshot->head.record;
    if (snapshot->held && token_matches(op->acquire_id, record->token)) {
        error = hf__lockfile_mark_broken(snapshot->fd, record->token);
        if (!error) notify_holder(f, op, record->id, snapshot->inode);
        marked++;
    }
    for (unsigned i = 0; !snapshot->held && !error && i < snapshot->holder_count; i++) {
        const hf__slot_view *view = &snapshot->table.views[i];
        if (!token_matches(op->acquire_id, view->slot.token)) continue;
        error = hf__slot_mark_broken(snapshot->fd, view->index, view->slot.token);
        if (!error) notify_holder(f, op, view->slot.id, snapshot->inode);
        marked++;
    }
    return error ? -error : marked;
}

/* During a BREAK, op->acquire_id is the requested token, and op->token is that of the first
   holder. */
static hf_result begin_break(file_store *f, hf__op *op) {
    hf__file_snapshot snapshot;
    op->acquire_id = op->token;
    op->token = 0;
    hf_result r = take_snapshot(f, op, &snapshot);
    if (r) return r;
    if (snapshot.held)
        op->token = snapshot.head.record.token;
    else if (snapshot.holder_count)
        op->token = snapshot.table.views[0].slot.token;
    int marked = mark_broken(f, op, &snapshot);
    bool unnamed = snapshot.held && !op->token;
    hf__file_inspect_end(&snapshot);
    if (marked < 0) {
        op->detail =
            hf__line("cannot write to the lock's file in %s: %s", f->path, strerror(-marked));
        return HF_REFUSED;
    }
    if (unnamed) {
        op->detail = hf__line("a process is acquiring the lock at this moment; try again");
        return HF_UNKNOWN_OUTCOME;
    }
    if (!marked) return HF_NOT_HELD;
    if (op->acquire_id) op->token = op->acquire_id;
    hf__ops_push(&f->breaking, op);
    return HF_OK;
}

/* The pid of a holder that was asked to end its hold and has not done so; 0: none; -1: unknown. */
static int64_t find_unbroken(file_store *f, hf__op *op) {
    hf__file_snapshot snapshot;
    int64_t pid = 0;
    if (take_snapshot(f, op, &snapshot) != HF_OK) return -1;
    if (snapshot.held && snapshot.head.record.token == op->token) pid = snapshot.head.record.pid;
    for (unsigned i = 0; !snapshot.held && i < snapshot.holder_count; i++) {
        const hf__slot *slot = &snapshot.table.views[i].slot;
        if (slot->broken == slot->token && token_matches(op->acquire_id, slot->token))
            pid = slot->pid;
    }
    hf__file_inspect_end(&snapshot);
    return pid;
}

/* True: the operation is completed, with HF_OK or HF_UNKNOWN_OUTCOME. */
static bool finish_break(file_store *f, hf__op *op, hf__time now) {
    int64_t pid = find_unbroken(f, op);
    free(op->detail);
    op->detail = NULL;
    if (!pid) {
        complete_op(f, op, HF_OK);
        return true;
    }
    if (now < op->not_after) return false; /* also if the state is unknown */
    op->detail =
        hf__line("the holder (process %d) did not release the lock in time: it is stopped or "
                 "very slow; the lock is released when it continues or is killed",
                 pid < 0 ? 0 : (int)pid);
    complete_op(f, op, HF_UNKNOWN_OUTCOME);
    return true;
}

static void check_breaks(file_store *f, hf__time now) {
    hf__ops breaking = f->breaking;
    f->breaking = (hf__ops){0};
    for (hf__op *op; (op = hf__ops_pop(&breaking));)
        if (!finish_break(f, op, now)) hf__ops_push(&f->breaking, op);
}

/* ---- Store table ---- */

static hf_result execute_op(file_store *f, hf__op *op, hf__time now) {
    switch (op->verb) {
    case HF__ACQUIRE: return acquire_lock(f, op, now);
    case HF__RENEW: return renew_lock(f, op, now);
    case HF__RELEASE: return release_lock(f, op);
    case HF__INSPECT: return inspect_lock(f, op, now);
    case HF__CLIENT_INFO: return describe_client(f, op);
    case HF__BREAK: return begin_break(f, op);
    case HF__LATCH_SET:
    case HF__LATCH_COUNT_DOWN:
    case HF__LATCH_GET: return execute_latch(f, op);
    case HF__PROCLAIM: return set_leader_value(f, op);
    case HF__LEADER: return read_leader_value(f, op, now);
    case HF__LIST: return hf__file_list(f->directory, f->path, f->url->prefix, op);
    case HF__EXPORT:
    case HF__EXTEND_EXPORTED:
    case HF__RAISE_TOKEN:
    case HF__UPTIME:
    case HF__CLUSTER_SLOTS:
    case HF__REGISTER:
    case HF__TOUCH:
    case HF__CONFIRM: break;
    }
    return HF_UNSUPPORTED;
}

/* These operations need space for a file, and can be repeated after a failure. */
static bool makes_files(uint32_t verb) {
    return verb == HF__ACQUIRE || verb == HF__LATCH_SET || verb == HF__PROCLAIM;
}

/* Other processes may use the space that we free, and may free space when we cannot. So try again,
   but only a few times if we can remove nothing. */
static hf_result retry_with_space(file_store *f, hf__op *op, hf__time now) {
    hf_result r = HF__NO_SPACE;
    hf__time end = hf__now() + HF__ENTRY_WAIT_MS * HF__MS;
    int futile = 0;
    for (int i = 0; r == HF__NO_SPACE && futile < FUTILE_TRIES && (!i || hf__now() < end); i++) {
        hf__queue_back_off(i);
        (void)free_idle(f); /* an open file keeps its inode */
        futile += !hf__sweep_idle(f->directory);
        free(op->detail);
        op->detail = NULL;
        r = execute_op(f, op, now);
    }
    if (r == HF__NO_SPACE) f->full_until = now + FULL_RETRY;
    return r;
}

static hf_result execute_with_space(file_store *f, hf__op *op, hf__time now) {
    hf_result r = execute_op(f, op, now);
    if (r == HF__NO_SPACE && makes_files(op->verb) && now >= f->full_until)
        r = retry_with_space(f, op, now);
    return r == HF__NO_SPACE ? HF_REFUSED : r;
}

static void file_submit(hf__store *store, hf__op *op, hf__time now) {
    file_store *f = (file_store *)store;
    op->sent_at = now;
    op->link = store->link;
    op->outcome_unknown = false;
    store->commands++;
    hf_result r = execute_with_space(f, op, now);
    if (op->verb == HF__BREAK && !r) return; /* completed once the holder has ended its hold */
    complete_op(f, op, r);
}

static hf__op *file_completed(hf__store *store) {
    return hf__ops_pop(&((file_store *)store)->completed);
}

static hf__local_contender *next_wake_pending(hf__lock *l) {
    hf__local_contender *local = &l->mutex;
    while (local && !local->wake_pending) local = local->next;
    return local;
}

/* A woken contender must acquire again: this store grants only on request. */
static bool file_next_notification(hf__store *store, hf__notification *out) {
    file_store *f = (file_store *)store;
    while (f->notify_list) {
        hf__lock *l = f->notify_list;
        hf__local_contender *local = next_wake_pending(l);
        if (local && !l->verify_hold) {
            local->wake_pending = false;
            *out = (hf__notification){.type = HF__GRANTED, .acquire_id = local->acquire_id};
            return true;
        }
        f->notify_list = l->next_to_notify;
        l->in_notify_list = l->has_wake_pending = false;
        if (!l->verify_hold) continue;
        l->verify_hold = false;
        for (; local; local = next_wake_pending(l)) local->wake_pending = false;
        size_t prefix = strlen(l->mapped.key) + 1;
        *out = (hf__notification){.type = HF__NAME_CHANGED,
                                  .name = l->mapped.key + prefix,
                                  .length = l->mapped.length - prefix};
        return true;
    }
    return false;
}

static void retry_unlocks(file_store *f) {
    bool all = true;
    for (hf__mapped *it = NULL; (it = hf__map_next(&f->locks, it));) {
        hf__lock *l = (hf__lock *)it;
        if (l->retry_unlock && !hf__queue_retry_unlock(l, &f->peers)) all = false;
        if (l->has_wake_pending) list_to_notify(f, l);
    }
    f->retry_unlocks = !all;
}

static void file_tick(hf__store *store, hf__time now) {
    file_store *f = (file_store *)store;
    if (now < f->recheck_at) return;
    f->recheck_at = now + RECHECK;
    if (f->retry_unlocks) retry_unlocks(f);
    if (f->breaking.last) check_breaks(f, now);
}

static hf__time file_due(const hf__store *store) {
    const file_store *f = (const file_store *)store;
    if (f->notify_list) return 0; /* set by an operation of our own: report it in the next run */
    return f->breaking.last || f->retry_unlocks ? f->recheck_at : HF__NEVER;
}

static bool file_flush(hf__store *store, pthread_mutex_t *mutex) {
    (void)store;
    (void)mutex;
    return false;
}

static int file_pollset(hf__store *store, struct pollfd *fds, bool reading) {
    return hf__peers_pollset(&((file_store *)store)->peers, fds, reading);
}

/* Mark the waiter with this acquire id; 0: all waiters with a ticket. */
static void mark_wake_pending(hf__lock *l, uint64_t acquire_id) {
    for (hf__local_contender *s = &l->mutex; s; s = s->next)
        if (acquire_id ? s->acquire_id == acquire_id && s->slot >= 0 : s->ticket >= 0)
            s->wake_pending = true;
}

/* A break request concerns holds; any other message concerns waiters. */
static void handle_message(file_store *f, ino_t inode, bool is_break, uint64_t acquire_id) {
    for (hf__mapped *it = NULL; (it = hf__map_next(&f->locks, it));) {
        hf__lock *l = (hf__lock *)it;
        if (l->inode != inode) continue;
        if (is_break) l->verify_hold = true;
        mark_wake_pending(l, acquire_id);
        list_to_notify(f, l);
    }
}

static bool is_watching(const hf__local_contender *s, uint32_t id) {
    for (unsigned i = 0; i < s->watched_count; i++)
        if (s->watched[i]->id == id) return true;
    return false;
}

static void handle_death(file_store *f, uint32_t id) {
    for (hf__mapped *it = NULL; (it = hf__map_next(&f->locks, it));) {
        hf__lock *l = (hf__lock *)it;
        for (hf__local_contender *s = &l->mutex; s; s = s->next) {
            if (!is_watching(s, id)) continue;
            s->wake_pending = true;
            list_to_notify(f, l);
        }
    }
}

static void file_ready(hf__store *store, const struct pollfd *fds, int count,
                       pthread_mutex_t *mutex) {
    file_store *f = (file_store *)store;
    (void)mutex; /* nothing here takes long */
    for (int i = 0; i < count; i++) {
        ino_t inode;
        uint32_t id;
        uint64_t acquire_id;
        if (!fds[i].revents) continue;
        while (hf__peers_next_message(&f->peers, fds[i].fd, &inode, &acquire_id))
            handle_message(f, inode, fds[i].fd == f->peers.life, acquire_id);
        if (fds[i].fd == f->peers.watch)
            while (hf__peers_next_death(&f->peers, &id)) handle_death(f, id);
    }
}

static bool file_read_blocking(hf__store *store, pthread_mutex_t *mutex) {
    (void)store;
    (void)mutex;
    return false;
}

static size_t file_in_flight(const hf__store *store) {
    (void)store;
    return 0;
}

static void file_shut(hf__store *store, hf__time now) {
    file_store *f = (file_store *)store;
    (void)now;
    store->up = false;
    for (hf__op *op; (op = hf__ops_pop(&f->breaking));) complete_op(f, op, HF_UNREACHABLE);
}

/* ---- Creation ---- */

static void file_free(hf__store *store, bool forked) {
    file_store *f = (file_store *)store;
    for (hf__mapped *it; (it = hf__map_next(&f->locks, NULL));) {
        hf__lock *l = (hf__lock *)it;
        hf__map_remove(&f->locks, it);
        if (!forked) hf__lock_close(l, &f->peers); /* in a child they were closed at the fork */
        hf__lock_fini(l);
        free(l);
    }
    hf__map_fini(&f->locks);
    hf__peers_fini(&f->peers, forked);
    if (!forked && f->directory >= 0)
        hf__sweep(f->directory, f->url->keep_ms ? f->url->keep_ms : KEEP_MS);
    if (f->directory >= 0) close(f->directory);
    free(f->path);
    free(f->store.down_detail);
    free(f);
}

static const hf__store_table file_table = {
    .free = file_free,
    .submit = file_submit,
    .completed = file_completed,
    .next_notification = file_next_notification,
    .tick = file_tick,
    .due = file_due,
    .flush = file_flush,
    .pollset = file_pollset,
    .ready = file_ready,
    .read_blocking = file_read_blocking,
    .in_flight = file_in_flight,
    .shut = file_shut,
};

static void set_identity(file_store *f, const hf__identity *who) {
    hf__record *self = &f->self;
    (void)snprintf(f->introduction, sizeof f->introduction, "%d\t%.120s\t%.128s", (int)who->pid,
                   who->program, who->label);
    self->pid = (int32_t)who->pid;
    hf__text_copy(self->client, sizeof self->client, who->client);
    hf__text_copy(self->program, sizeof self->program, who->program);
    hf__text_copy(self->label, sizeof self->label, who->label);
}

hf_result hf__file_new(const hf__url *url, const hf__identity *identity, hf__log *log,
                       hf__store **store) {
    file_store *f = calloc(1, sizeof *f);
    if (!f) return hf__fail(HF_NOMEM, "out of memory");
    f->store = (hf__store){.table = &file_table, .link = 1, .up = true};
    f->store.has_kinds = f->store.has_latch_leader = true;
    f->url = url;
    f->directory = -1;
    hf__map_init(&f->locks, hf__rand_seed());
    set_identity(f, identity);
    hf_result r = hf__directory_open(url->path, url->network_allowed, &f->directory, &f->path);
    hf__peers_init(&f->peers, f->directory, &f->store.pollset_version);
    f->peers.introduction = f->introduction;
    if (r) {
        file_free(&f->store, false);
        return r;
    }
    hf__sweep_dead(f->directory);
    if (!url->path) f->store.location = f->path;
    hf__log_add(log, HF_LOG_DEBUG, "locks are kept in %s", f->path);
    *store = &f->store;
    return HF_OK;
}
