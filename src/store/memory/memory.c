/*
 * The store of one process, and the reference for what a store does: it says in C what the Redis
 * scripts say in Lua, over a map instead of keys, and answers at once.
 *
 * A space is shared by the clients that name it and lives as long as the last of them. Each lock of a
 * space is kept for good once used, because its last token must be remembered.
 */
#include "store/memory/memory.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/map.h"
#include "base/url.h"

#define KEY_MAX  (HF__PREFIX_MAX + 1 + HF_NAME_MAX)
#define RETRY_MS 20 /* how long a waiter waits before it asks again */

typedef struct lock {
    hf__mapped mapped; /* key: prefix, NUL, name; in this same allocation */
    uint64_t last_token;
    hf__time expires; /* held while in the future; the rest is then of the holder */
    uint64_t number, token;
    hf__owner owner;
    uint32_t count;
    int64_t since_unix_ms;
    struct member *holder;
} lock;

/* A client of a space. */
typedef struct member {
    struct member *next;
    hf__identity who;
} member;

typedef struct space {
    struct space *next;
    char *name;
    unsigned refs;
    hf__map locks;
    member *members;
} space;

typedef struct memory {
    hf__store store;
    space *space;
    member *self;
    char *prefix;
    hf__op *first, *last; /* completed */
} memory;

/* Guards all spaces: no call under it takes longer than a look into a map. */
static pthread_mutex_t spaces_mutex = PTHREAD_MUTEX_INITIALIZER;
static space *spaces;

/* ---- Locks ---- */

static lock *find(const memory *m, const hf__op *op, bool make) {
    char key[KEY_MAX];
    size_t prefix = strlen(m->prefix) + 1, length = prefix + op->name_length;
    memcpy(key, m->prefix, prefix);
    memcpy(key + prefix, op->name, op->name_length);
    hf__mapped *found = hf__map_find(&m->space->locks, key, length);
    if (found || !make) return (lock *)found;
    lock *l = calloc(1, sizeof *l + length);
    if (!l) return NULL;
    l->mapped.key = memcpy(l + 1, key, length);
    l->mapped.length = length;
    hf__map_add(&m->space->locks, &l->mapped);
    return l;
}

static bool held(const lock *l, hf__time now) {
    return l->holder && now < l->expires;
}

static bool held_by(const lock *l, const memory *m, uint64_t number, hf__time now) {
    return held(l, now) && l->holder == m->self && l->number == number;
}

static int64_t unix_us(void) {
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

/* ---- The verbs: see store.h for what each means ---- */

static void grant(lock *l, const memory *m, hf__op *op, hf__time now) {
    uint64_t now_us = (uint64_t)unix_us(), token = l->last_token + 1;
    if (token < now_us) token = now_us;
    if (token <= op->token) token = op->token + 1;
    l->last_token = l->token = token;
    l->holder = m->self;
    l->number = op->number;
    l->owner = op->owner;
    l->count = op->count;
    l->since_unix_ms = (int64_t)(now_us / 1000);
    l->expires = now + op->lease_ms * HF__MS;
}

static hf_result ask(const memory *m, hf__op *op, hf__time now) {
    lock *l = find(m, op, true);
    if (!l) return HF_NOMEM;
    if (now > op->not_after) return HF_TIMEOUT;
    if (held(l, now) && (l->holder != m->self || l->number > op->number)) {
        int64_t left = (l->expires - now) / HF__MS + 1;
        op->retry_ms = left < RETRY_MS ? left : RETRY_MS;
        return HF_BUSY;
    }
    if (!held_by(l, m, op->number, now)) grant(l, m, op, now);
    l->expires = hf__later(l->expires, now + op->lease_ms * HF__MS);
    op->token = l->token;
    return HF_OK;
}

static hf_result renew(const memory *m, hf__op *op, hf__time now) {
    lock *l = find(m, op, false);
    if (!l || !held_by(l, m, op->number, now)) return HF_LOST;
    l->count = op->count;
    l->expires = hf__later(l->expires, now + op->lease_ms * HF__MS);
    return HF_OK;
}

static hf_result release(const memory *m, hf__op *op, hf__time now) {
    lock *l = find(m, op, false);
    if (!l || !held(l, now) || l->holder != m->self || l->number > op->number) return HF_LOST;
    l->holder = NULL;
    return HF_OK;
}

static hf_result inspect(const memory *m, hf__op *op, hf__time now) {
    lock *l = find(m, op, false);
    hf__sight *s = op->sight;
    s->held = l && held(l, now);
    if (!s->held) return HF_OK;
    s->count = l->count;
    s->token = l->token;
    s->since_unix_ms = l->since_unix_ms;
    s->remaining_ms = (l->expires - now) / HF__MS;
    hf__owner_text(s->owner, l->owner);
    memcpy(s->who.client, l->holder->who.client, sizeof s->who.client);
    return HF_OK;
}

static hf_result who(const memory *m, hf__op *op) {
    hf__sight *s = op->sight;
    for (const member *it = m->space->members; it; it = it->next)
        if (!strcmp(it->who.client, s->who.client)) s->who = it->who;
    return HF_OK;
}

static hf_result break_hold(const memory *m, hf__op *op, hf__time now) {
    lock *l = find(m, op, false);
    uint64_t wanted = op->token;
    op->token = l && held(l, now) ? l->token : 0;
    if (!op->token || (wanted && wanted != op->token)) return HF_NOT_HELD;
    l->holder = NULL;
    return HF_OK;
}

static hf_result execute(const memory *m, hf__op *op, hf__time now) {
    switch (op->verb) {
    case HF__ASK: return ask(m, op, now);
    case HF__RENEW: return renew(m, op, now);
    case HF__RELEASE: return release(m, op, now);
    case HF__INSPECT: return inspect(m, op, now);
    case HF__WHO: return who(m, op);
    case HF__BREAK: return break_hold(m, op, now);
    case HF__REGISTER: break;
    }
    return HF_UNSUPPORTED;
}

/* ---- The table ---- */

static void submit(hf__store *store, hf__op *op, hf__time now) {
    memory *m = (memory *)store;
    op->asked_at = now;
    op->link = store->link;
    op->maybe = false;
    pthread_mutex_lock(&spaces_mutex);
    op->result = execute(m, op, now);
    pthread_mutex_unlock(&spaces_mutex);
    store->commands++;
    op->next = NULL;
    if (m->last)
        m->last->next = op;
    else
        m->first = op;
    m->last = op;
}

static hf__op *completed(hf__store *store) {
    memory *m = (memory *)store;
    hf__op *op = m->first;
    if (!op) return NULL;
    m->first = op->next;
    if (!m->first) m->last = NULL;
    return op;
}

static void tick(hf__store *store, hf__time now) {
    (void)store;
    (void)now;
}

static hf__time due(const hf__store *store) {
    (void)store;
    return HF__NEVER;
}

static bool flush(hf__store *store, pthread_mutex_t *mutex) {
    (void)store;
    (void)mutex;
    return false;
}

static int pollset(hf__store *store, struct pollfd *fds, bool reading) {
    (void)store;
    (void)fds;
    (void)reading;
    return 0;
}

static void ready(hf__store *store, const struct pollfd *fds, int count, pthread_mutex_t *mutex) {
    (void)store;
    (void)fds;
    (void)count;
    (void)mutex;
}

static bool wait_for_answer(hf__store *store, pthread_mutex_t *mutex) {
    (void)store;
    (void)mutex;
    return false;
}

static size_t in_flight(const hf__store *store) {
    (void)store;
    return 0;
}

static void shut(hf__store *store, hf__time now) {
    (void)now;
    store->up = false;
}

/* ---- Spaces ---- */

static space *space_new(const char *name) {
    space *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->name = strdup(name);
    if (!s->name) {
        free(s);
        return NULL;
    }
    hf__map_init(&s->locks, hf__rand_seed());
    s->next = spaces;
    spaces = s;
    return s;
}

static space *space_join(const char *name, member *self) {
    space *s = spaces;
    while (s && strcmp(s->name, name) != 0) s = s->next;
    if (!s) s = space_new(name);
    if (!s) return NULL;
    s->refs++;
    self->next = s->members;
    s->members = self;
    return s;
}

static void space_free(space *s) {
    space **link = &spaces;
    while (*link != s) link = &(*link)->next;
    *link = s->next;
    for (hf__mapped *it; (it = hf__map_next(&s->locks, NULL));) {
        hf__map_remove(&s->locks, it);
        free(it);
    }
    hf__map_fini(&s->locks);
    free(s->name);
    free(s);
}

/* What a member still holds ends with it. */
static void space_leave(space *s, member *self) {
    for (hf__mapped *it = NULL; (it = hf__map_next(&s->locks, it));)
        if (((lock *)it)->holder == self) ((lock *)it)->holder = NULL;
    member **link = &s->members;
    while (*link != self) link = &(*link)->next;
    *link = self->next;
    free(self);
    if (!--s->refs) space_free(s);
}

static void memory_free(hf__store *store, bool forked) {
    memory *m = (memory *)store;
    if (m->space && !forked) { /* in a child the spaces may be in the middle of a change */
        pthread_mutex_lock(&spaces_mutex);
        space_leave(m->space, m->self);
        pthread_mutex_unlock(&spaces_mutex);
    }
    free(m->prefix);
    free(m->store.down_detail);
    free(m);
}

static const hf__store_table table = {
    .free = memory_free,
    .submit = submit,
    .completed = completed,
    .tick = tick,
    .due = due,
    .flush = flush,
    .pollset = pollset,
    .ready = ready,
    .wait = wait_for_answer,
    .in_flight = in_flight,
    .shut = shut,
};

/* A child is another process: it begins with no spaces, whatever its parent was in the middle of. */
static void in_child(void) {
    pthread_mutex_init(&spaces_mutex, NULL);
    spaces = NULL;
}

static void watch_forks(void) {
    pthread_atfork(NULL, NULL, in_child);
}

hf__store *hf__memory_new(const char *name, const char *prefix, const hf__identity *identity) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    memory *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    m->store = (hf__store){.table = &table, .link = 1, .up = true, .forgets = true};
    m->prefix = strdup(prefix);
    member *self = m->prefix ? calloc(1, sizeof *self) : NULL;
    if (self) {
        self->who = *identity;
        pthread_mutex_lock(&spaces_mutex);
        m->space = space_join(name, self);
        pthread_mutex_unlock(&spaces_mutex);
    }
    if (!m->space) {
        free(self);
        memory_free(&m->store, false);
        return NULL;
    }
    m->self = self;
    return &m->store;
}
