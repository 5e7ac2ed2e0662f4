/*
 * The store of one process, and the reference for what a store does: it says in C what the Redis
 * scripts say in Lua, over a map instead of keys, and answers at once. Here are the spaces, the map and the
 * table; store/lock_state has who holds a lock and who waits for it, and what the operations do to that.
 *
 * A space is shared by the clients that name it and lives as long as the last of them. Each lock of a
 * space is kept for good once used, because its last token must be remembered.
 */
#include "store/memory/memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/event.h"
#include "base/map.h"
#include "base/url.h"
#include "store/lock_state/operations.h"
#include "store/memory/beside.h"

#define KEY_MAX (HF__PREFIX_MAX + 1 + HF_NAME_MAX)

typedef struct lock {
    hf__mapped mapped; /* key: prefix, NUL, name; in this same allocation */
    hf__lock_state state;
    hf__beside beside;
} lock;

/* A client of a space. */
typedef struct member {
    hf__store_client base; /* first */
    struct member *next;
    hf__identity who;
    int bell; /* readable: it may be its turn somewhere; -1: none to be had */
    bool rung;
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
    bool heard;
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

/* ---- Operations ---- */

static hf_result who(const memory *m, hf__op *op) {
    hf__sight *s = op->sight;
    for (const member *it = m->space->members; it; it = it->next)
        if (!strcmp(it->who.client, s->who.client)) s->who = it->who;
    return HF_OK;
}

static hf_result execute_on(hf__lock_state *state, const hf__store_client *self, hf__op *op,
                            hf__time now) {
    hf__lock_state_expire(state, now);
    switch (op->verb) {
    case HF__ASK: return hf__lock_state_acquire(state, self, op, now);
    case HF__RENEW: return hf__lock_state_renew(state, self, op, now);
    case HF__RELEASE: return hf__lock_state_release(state, self, op);
    case HF__BREAK: return hf__lock_state_break(state, op, now);
    case HF__INSPECT: hf__lock_state_inspect(state, op->sight, now); return HF_OK;
    default: return HF_UNSUPPORTED;
    }
}

/* Tell those whose turn it is. Who is told already has yet to look. */
static void ring(const hf__lock_state *state) {
    size_t turns = state->waiters ? hf__lock_state_count_grantable(state) : 0;
    for (const hf__waiter *it = state->waiters; turns--; it = it->next) {
        member *m = (member *)it->contender.client;
        if (!m->rung) hf__event_set(m->bell);
        m->rung = true;
    }
}

/* Names are found in their order: each step has the first of those behind the last. */
static void find_name(hf__listing *found, const char *name, size_t length) {
    char text[HF_NAME_MAX + 1];
    memcpy(text, name, length);
    text[length] = '\0';
    if (strcmp(text, found->last) <= 0) return;
    uint32_t at = found->count;
    while (at && strcmp(text, found->names[at - 1].name) < 0) at--;
    if (at == HF__LISTED) return;
    uint32_t behind = (found->count < HF__LISTED ? found->count++ : HF__LISTED - 1) - at;
    memmove(&found->names[at + 1], &found->names[at], behind * sizeof found->names[0]);
    found->names[at].by_line = false;
    memcpy(found->names[at].name, text, length + 1);
}

static hf_result list(const memory *m, hf__listing *found, hf__time now) {
    size_t prefix = strlen(m->prefix) + 1;
    found->count = 0;
    for (hf__mapped *it = NULL; (it = hf__map_next(&m->space->locks, it));) {
        hf__lock_state *state = &((lock *)it)->state;
        if (strcmp(it->key, m->prefix) != 0) continue;
        hf__lock_state_expire(state, now);
        if (state->holders || state->waiters)
            find_name(found, it->key + prefix, it->length - prefix);
    }
    found->over = found->count < HF__LISTED;
    if (found->count)
        hf__text_copy(found->last, sizeof found->last, found->names[found->count - 1].name);
    return HF_OK;
}

/* Only asking, and setting a latch, makes a lock: for all else one that was never used is an empty one. */
static hf_result execute(const memory *m, hf__op *op, hf__time now) {
    if (op->verb == HF__WHO) return who(m, op);
    if (op->verb == HF__LIST) return list(m, op->listing, now);
    lock unused = {0};
    bool make = op->verb == HF__ASK || op->verb == HF__LATCH_SET;
    lock *l = find(m, op, make);
    if (!l && make) return HF_NOMEM;
    if (!l) l = &unused;
    hf_result r = execute_on(&l->state, &m->self->base, op, now);
    ring(&l->state);
    return r == HF_UNSUPPORTED ? hf__beside_execute(&l->beside, &l->state, &m->self->base, op, now)
                               : r;
}

/* ---- The table ---- */

static void submit(hf__store *store, hf__op *op, hf__time now) {
    memory *m = (memory *)store;
    op->asked_at = now;
    op->link = store->link;
    op->maybe = op->crowded = op->placed = false;
    op->told_token = 0;
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

static bool news(hf__store *store, hf__news *out) {
    memory *m = (memory *)store;
    if (!m->heard) return false;
    m->heard = false;
    *out = (hf__news){.what = HF__ASK_AGAIN};
    return true;
}

static int pollset(hf__store *store, struct pollfd *fds, bool reading) {
    const member *self = ((const memory *)store)->self;
    (void)reading;
    if (self->bell < 0) return 0;
    fds[0] = (struct pollfd){.fd = self->bell, .events = POLLIN};
    return 1;
}

static void ready(hf__store *store, const struct pollfd *fds, int count, pthread_mutex_t *mutex) {
    memory *m = (memory *)store;
    (void)mutex;
    if (count < 1 || !fds[0].revents) return;
    pthread_mutex_lock(&spaces_mutex);
    hf__event_clear(m->self->bell);
    m->self->rung = false;
    pthread_mutex_unlock(&spaces_mutex);
    m->heard = true;
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

static member *member_new(const hf__identity *who) {
    member *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    m->who = *who;
    memcpy(m->base.uuid, who->client, sizeof m->base.uuid);
    m->bell = hf__event_new();
    m->base.is_notified = m->bell >= 0;
    return m;
}

static void member_free(member *m) {
    if (m) hf__event_free(m->bell);
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
        hf__lock_state_remove_client(&((lock *)it)->state, NULL);
        free(((lock *)it)->beside.word);
        free(it);
    }
    hf__map_fini(&s->locks);
    free(s->name);
    free(s);
}

/* What a member still holds or waits for ends with it. */
static void space_leave(space *s, member *self) {
    for (hf__mapped *it = NULL; (it = hf__map_next(&s->locks, it));) {
        hf__lock_state_remove_client(&((lock *)it)->state, &self->base);
        ring(&((lock *)it)->state);
    }
    member **link = &s->members;
    while (*link != self) link = &(*link)->next;
    *link = self->next;
    member_free(self);
    if (!--s->refs) space_free(s);
}

static void memory_free(hf__store *store, bool forked) {
    memory *m = (memory *)store;
    if (m->space && !forked) { /* in a child the spaces may be in the middle of a change */
        pthread_mutex_lock(&spaces_mutex);
        space_leave(m->space, m->self);
        pthread_mutex_unlock(&spaces_mutex);
    }
    if (m->self && forked) hf__event_free(m->self->bell);
    free(m->prefix);
    free(m->store.down_detail);
    free(m);
}

static const hf__store_table table = {
    .free = memory_free,
    .submit = submit,
    .completed = completed,
    .news = news,
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
    m->store.has_kinds = m->store.has_beside = true;
    m->prefix = strdup(prefix);
    member *self = m->prefix ? member_new(identity) : NULL;
    if (self) {
        pthread_mutex_lock(&spaces_mutex);
        m->space = space_join(name, self);
        pthread_mutex_unlock(&spaces_mutex);
    }
    if (!m->space) {
        member_free(self);
        memory_free(&m->store, false);
        return NULL;
    }
    m->self = self;
    return &m->store;
}
