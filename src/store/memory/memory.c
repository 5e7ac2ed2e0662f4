/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store within one process. It is also the reference implementation: it does in C over a map
 * what the Redis scripts do in Lua over keys. This file has the spaces, the map of locks and the
 * store table. store/lock_state has the state of a lock and the operations on it.
 *
 * A space is shared by all clients that name it, and is freed with the last of them. A lock that
 * was used stays in its space, because its last token must be remembered.
 */
#include "store/memory/memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/event.h"
#include "base/map.h"
#include "base/url.h"
#include "store/lock_state/operations.h"
#include "store/memory/latch_leader.h"

#define KEY_MAX (HF__PREFIX_MAX + 1 + HF_NAME_MAX)

/* A waiter repeats its acquire after this, or sooner if it is not notified. */
#define NOTIFIED_RETRY_MS 400
#define RETRY_MS          20
#define WAITER_TIMEOUT    HF__SEC

typedef struct memory_lock {
    hf__mapped mapped; /* key: prefix, NUL, name; part of this allocation */
    hf__lock_state state;
    hf__latch_leader latch_leader;
} memory_lock;

typedef struct memory_client {
    hf__mapped mapped; /* key: `id` */
    hf__client_id id;
    hf__identity who;
    int event_fd; /* readable: one of its waiters may be granted; -1: not available */
    bool is_signalled;
} memory_client;

typedef struct space {
    struct space *next;
    char *name;
    unsigned refs;
    hf__map locks, clients;
} space;

typedef struct memory_store {
    hf__store store;
    space *space;
    memory_client *self;
    char *prefix;
    hf__ops completed;
    bool wake_pending;
} memory_store;

/* Guards all spaces. It is held only for short map operations. */
static pthread_mutex_t spaces_mutex = PTHREAD_MUTEX_INITIALIZER;
static space *spaces;

/* ---- Locks ---- */

static memory_lock *find_lock(const memory_store *m, const hf__op *op, bool make) {
    char key[KEY_MAX];
    size_t prefix = strlen(m->prefix) + 1, length = prefix + op->name_length;
    memcpy(key, m->prefix, prefix);
    memcpy(key + prefix, op->name, op->name_length);
    hf__mapped *found = hf__map_find(&m->space->locks, key, length);
    if (found || !make) return (memory_lock *)found;
    memory_lock *l = calloc(1, sizeof *l + length);
    if (!l) return NULL;
    l->mapped.key = memcpy(l + 1, key, length);
    l->mapped.length = length;
    hf__map_add(&m->space->locks, &l->mapped);
    return l;
}

/* ---- Operations ---- */

static memory_client *find_client(const space *s, hf__client_id id) {
    return (memory_client *)hf__map_find(&s->clients, (const char *)&id, sizeof id);
}

static hf_result describe_client(const memory_store *m, hf__op *op) {
    hf__identity *identity = &op->lock_info->identity;
    const memory_client *found = find_client(m->space, hf__client_id_of_uuid(identity->client));
    if (found) *identity = found->who;
    return HF_OK;
}

static hf__lock_env env_at(const memory_client *self, hf__time now) {
    return (hf__lock_env){.now = now,
                          .waiter_timeout = WAITER_TIMEOUT,
                          .queued_retry_ms = self->event_fd >= 0 ? NOTIFIED_RETRY_MS : RETRY_MS};
}

/* Signal the clients of waiters that can be granted. A client that is already signalled has not
   looked at its waiters since then. */
static void notify_grantable(const space *s, const hf__lock_state *state) {
    for (const hf__waiter *it = state->waiters; it && it->can_be_granted; it = it->next) {
        memory_client *m = find_client(s, it->contender.client);
        if (!m->is_signalled) hf__event_set(m->event_fd);
        m->is_signalled = true;
    }
}

/* Names are listed in order: each step returns the first ones after `found->last`. */
static void insert_name(hf__list_walk *found, const char *name, size_t length) {
    char text[HF_NAME_MAX + 1];
    memcpy(text, name, length);
    text[length] = '\0';
    if (strcmp(text, found->last) <= 0) return;
    uint32_t at = found->count;
    while (at && strcmp(text, found->names[at - 1].name) < 0) at--;
    if (at == HF__LIST_BATCH) return;
    uint32_t behind = (found->count < HF__LIST_BATCH ? found->count++ : HF__LIST_BATCH - 1) - at;
    memmove(&found->names[at + 1], &found->names[at], behind * sizeof found->names[0]);
    found->names[at].from_queue = false;
    memcpy(found->names[at].name, text, length + 1);
}

static hf_result list_names(const memory_store *m, hf__list_walk *found, hf__time now) {
    hf__lock_env env = env_at(m->self, now);
    size_t prefix = strlen(m->prefix) + 1;
    found->count = 0;
    for (hf__mapped *it = NULL; (it = hf__map_next(&m->space->locks, it));) {
        hf__lock_state *state = &((memory_lock *)it)->state;
        if (strcmp(it->key, m->prefix) != 0) continue;
        hf__lock_state_expire(state, &env);
        if (state->holders || state->waiters)
            insert_name(found, it->key + prefix, it->length - prefix);
    }
    found->finished = found->count < HF__LIST_BATCH;
    if (found->count)
        hf__text_copy(found->last, sizeof found->last, found->names[found->count - 1].name);
    return HF_OK;
}

/* Only ACQUIRE and LATCH_SET create a lock. For any other operation, a lock that does not exist is
   a free one. */
static hf_result execute_op(const memory_store *m, hf__op *op, hf__time now) {
    if (op->verb == HF__CLIENT_INFO) return describe_client(m, op);
    if (op->verb == HF__LIST) return list_names(m, op->list_walk, now);
    memory_lock unused = {0};
    bool make = op->verb == HF__ACQUIRE || op->verb == HF__LATCH_SET;
    memory_lock *l = find_lock(m, op, make);
    if (!l && make) return HF_NOMEM;
    if (!l) l = &unused;
    hf__lock_env env = env_at(m->self, now);
    if (op->verb == HF__ACQUIRE) env.unix_us = env.token_clock = hf__unix_us();
    hf_result r = hf__lock_state_apply(&l->state, &env, m->self->id, op);
    notify_grantable(m->space, &l->state);
    return r == HF_UNSUPPORTED
               ? hf__latch_leader_execute(&l->latch_leader, &l->state, m->self->id, op, now)
               : r;
}

/* ---- Store table ---- */

static void memory_submit(hf__store *store, hf__op *op, hf__time now) {
    memory_store *m = (memory_store *)store;
    op->sent_at = now;
    op->link = store->link;
    op->outcome_unknown = op->has_waiters = op->queued = false;
    op->holder_token = 0;
    pthread_mutex_lock(&spaces_mutex);
    op->result = execute_op(m, op, now);
    pthread_mutex_unlock(&spaces_mutex);
    store->commands++;
    hf__ops_push(&m->completed, op);
}

static hf__op *memory_completed(hf__store *store) {
    return hf__ops_pop(&((memory_store *)store)->completed);
}

static void memory_tick(hf__store *store, hf__time now) {
    (void)store;
    (void)now;
}

static hf__time memory_due(const hf__store *store) {
    (void)store;
    return HF__NEVER;
}

static bool memory_flush(hf__store *store, pthread_mutex_t *mutex) {
    (void)store;
    (void)mutex;
    return false;
}

static bool memory_next_notification(hf__store *store, hf__notification *out) {
    memory_store *m = (memory_store *)store;
    if (!m->wake_pending) return false;
    m->wake_pending = false;
    *out = (hf__notification){.type = HF__NOTIFICATIONS_MISSED};
    return true;
}

static int memory_pollset(hf__store *store, struct pollfd *fds, bool reading) {
    const memory_client *self = ((const memory_store *)store)->self;
    (void)reading;
    if (self->event_fd < 0) return 0;
    fds[0] = (struct pollfd){.fd = self->event_fd, .events = POLLIN};
    return 1;
}

static void memory_ready(hf__store *store, const struct pollfd *fds, int count,
                         pthread_mutex_t *mutex) {
    memory_store *m = (memory_store *)store;
    (void)mutex;
    if (count < 1 || !fds[0].revents) return;
    pthread_mutex_lock(&spaces_mutex);
    hf__event_clear(m->self->event_fd);
    m->self->is_signalled = false;
    pthread_mutex_unlock(&spaces_mutex);
    m->wake_pending = true;
}

static bool memory_read_blocking(hf__store *store, pthread_mutex_t *mutex) {
    (void)store;
    (void)mutex;
    return false;
}

static size_t memory_in_flight(const hf__store *store) {
    (void)store;
    return 0;
}

static void memory_shut(hf__store *store, hf__time now) {
    (void)now;
    store->up = false;
}

/* ---- Spaces ---- */

static memory_client *client_new(const hf__identity *who) {
    memory_client *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    m->who = *who;
    m->id = hf__client_id_of_uuid(who->client);
    m->mapped.key = (const char *)&m->id;
    m->mapped.length = sizeof m->id;
    m->event_fd = hf__event_new();
    return m;
}

static void client_free(memory_client *m) {
    if (m) hf__event_free(m->event_fd);
    free(m);
}

static space *space_new(const char *name) {
    space *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->name = strdup(name);
    if (!s->name) {
        free(s);
        return NULL;
    }
    hf__map_init(&s->locks, hf__rand_seed());
    hf__map_init(&s->clients, hf__rand_seed());
    s->next = spaces;
    spaces = s;
    return s;
}

static space *space_join(const char *name, memory_client *self) {
    space *s = spaces;
    while (s && strcmp(s->name, name) != 0) s = s->next;
    if (!s) s = space_new(name);
    if (!s) return NULL;
    s->refs++;
    hf__map_add(&s->clients, &self->mapped);
    return s;
}

static void space_free(space *s) {
    space **link = &spaces;
    while (*link != s) link = &(*link)->next;
    *link = s->next;
    for (hf__mapped *it; (it = hf__map_next(&s->locks, NULL));) {
        hf__map_remove(&s->locks, it);
        hf__lock_state_fini(&((memory_lock *)it)->state);
        free(((memory_lock *)it)->latch_leader.value);
        free(it);
    }
    hf__map_fini(&s->locks);
    hf__map_fini(&s->clients);
    free(s->name);
    free(s);
}

/* A client that leaves ends its holds and waits. */
static void space_leave(space *s, memory_client *self) {
    hf__lock_env env = {0};
    for (hf__mapped *it = NULL; (it = hf__map_next(&s->locks, it));) {
        hf__lock_state *state = &((memory_lock *)it)->state;
        hf__lock_state_remove_client(state, self->id);
        hf__lock_state_mark_grantable(state, &env);
        notify_grantable(s, state);
    }
    hf__map_remove(&s->clients, &self->mapped);
    client_free(self);
    if (!--s->refs) space_free(s);
}

static void memory_free(hf__store *store, bool forked) {
    memory_store *m = (memory_store *)store;
    if (m->space && !forked) { /* in a forked child the spaces may be inconsistent */
        pthread_mutex_lock(&spaces_mutex);
        space_leave(m->space, m->self);
        pthread_mutex_unlock(&spaces_mutex);
    }
    if (m->self && forked) hf__event_free(m->self->event_fd);
    free(m->prefix);
    free(m->store.down_detail);
    free(m);
}

static const hf__store_table memory_table = {
    .free = memory_free,
    .submit = memory_submit,
    .completed = memory_completed,
    .next_notification = memory_next_notification,
    .tick = memory_tick,
    .due = memory_due,
    .flush = memory_flush,
    .pollset = memory_pollset,
    .ready = memory_ready,
    .read_blocking = memory_read_blocking,
    .in_flight = memory_in_flight,
    .shut = memory_shut,
};

/* A child starts without spaces, because fork may have interrupted a change in the parent. */
static void reset_in_child(void) {
    pthread_mutex_init(&spaces_mutex, NULL);
    spaces = NULL;
}

static void register_fork_handlers(void) {
    pthread_atfork(NULL, NULL, reset_in_child);
}

hf__store *hf__memory_new(const char *name, const char *prefix, const hf__identity *identity) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_fork_handlers);
    memory_store *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    m->store = (hf__store){.table = &memory_table, .link = 1, .up = true, .expires = true};
    m->store.has_kinds = m->store.has_latch_leader = true;
    m->prefix = strdup(prefix);
    memory_client *self = m->prefix ? client_new(identity) : NULL;
    if (self) {
        pthread_mutex_lock(&spaces_mutex);
        m->space = space_join(name, self);
        pthread_mutex_unlock(&spaces_mutex);
    }
    if (!m->space) {
        client_free(self);
        memory_free(&m->store, false);
        return NULL;
    }
    m->self = self;
    return &m->store;
}
