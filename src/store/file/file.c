/*
 * The store's table over the locks of a directory. Every operation is done at once, in a few system
 * calls, but for a break, which waits for the holder to obey.
 */
#include "store/file/file.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "store/file/directory.h"
#include "store/file/kept.h"
#include "store/file/lock.h"
#include "store/file/sweep.h"

#define KEEP_MS  INT64_C(86400000) /* a day past the last use, as everywhere */
#define IDLE_MAX 64                /* locks kept open though not in use: likely to be used again */
#define ID_TEXT  8                 /* digits of a client's id */
#define LOOK     (5 * HF__MS)      /* how often to see whether a broken holder has let go */

typedef struct file {
    hf__store store;
    const hf__url *url;
    int directory;
    char *path;
    hf__record self; /* who we are, in every record we write */
    char introduction[HF__WHO_LINE];
    hf__peers peers;
    hf__map locks;
    hf__lock *idle_first, *idle_last;
    unsigned idle;
    hf__lock *heard;
    hf__op *first, *last; /* completed */
    hf__op *breaking;     /* marked, not obeyed yet */
    hf__time look_at;
} file;

/* ---- Locks by name ---- */

static size_t key_of(const file *f, char key[HF__KEY_MAX], const hf__op *op) {
    size_t prefix = strlen(f->url->prefix) + 1;
    memcpy(key, f->url->prefix, prefix);
    memcpy(key + prefix, op->name, op->name_length);
    return prefix + op->name_length;
}

static void name_file(const file *f, hf__lockfile *out, const char *key, size_t length) {
    out->directory = f->directory;
    out->path = f->path;
    hf__filename(out->name, key, length);
}

static hf__lock *find(file *f, const hf__op *op, bool make) {
    char key[HF__KEY_MAX];
    size_t length = key_of(f, key, op);
    hf__mapped *found = hf__map_find(&f->locks, key, length);
    if (found || !make) return (hf__lock *)found;
    hf__lock *l = calloc(1, sizeof *l + length);
    if (!l) return NULL;
    l->fd = -1;
    l->mapped.key = memcpy(l + 1, key, length);
    l->mapped.length = length;
    name_file(f, &l->file, key, length);
    hf__map_add(&f->locks, &l->mapped);
    return l;
}

static void unlist_idle(file *f, hf__lock *l) {
    if (!l->idle) return;
    *(l->prev ? &l->prev->next : &f->idle_first) = l->next;
    *(l->next ? &l->next->prev : &f->idle_last) = l->prev;
    l->idle = false;
    f->idle--;
}

static void drop(file *f, hf__lock *l) {
    unlist_idle(f, l);
    hf__lock_close(l, &f->peers);
    hf__map_remove(&f->locks, &l->mapped);
    hf__lock **link = &f->heard;
    while (*link && *link != l) link = &(*link)->next_heard;
    if (*link) *link = l->next_heard;
    free(l);
}

/* What is not in use stays open for a while: opening is dearer than all the rest. */
static void rest(file *f, hf__lock *l) {
    bool used = l->held || l->standing;
    if (used || l->idle) {
        if (used) unlist_idle(f, l);
        return;
    }
    l->idle = true;
    l->next = NULL;
    l->prev = f->idle_last;
    *(l->prev ? &l->prev->next : &f->idle_first) = l;
    f->idle_last = l;
    if (++f->idle > IDLE_MAX) drop(f, f->idle_first);
}

/* ---- The verbs ---- */

static void complete(file *f, hf__op *op, hf_result result) {
    op->result = result;
    op->next = NULL;
    *(f->last ? &f->last->next : &f->first) = op;
    f->last = op;
}

/* Descriptors are out, and we have some that are only kept in case. */
static bool give_back(file *f) {
    bool some = f->idle_first || hf__peers_trim(&f->peers, 0);
    while (f->idle_first) drop(f, f->idle_first);
    return some;
}

static hf_result ask(file *f, hf__op *op, hf__time now) {
    hf__lock *l = find(f, op, true);
    if (!l) return HF_NOMEM;
    unlist_idle(f, l);
    hf_result r = hf__lock_ask(l, &f->peers, &f->self, op, now);
    if (r == HF_NOMEM && give_back(f)) {
        free(op->detail);
        op->detail = NULL;
        r = hf__lock_ask(l, &f->peers, &f->self, op, now);
    }
    rest(f, l);
    return r;
}

static hf_result renew(file *f, hf__op *op, hf__time now) {
    hf__lock *l = find(f, op, false);
    if (!l) return HF_LOST;
    return hf__lock_renew(l, op, now);
}

static hf_result release(file *f, hf__op *op) {
    hf__lock *l = find(f, op, false);
    if (!l) return HF_LOST;
    hf_result r = hf__lock_release(l, &f->peers, op);
    rest(f, l);
    return r;
}

/* ---- Looking ---- */

static hf_result look(file *f, hf__op *op, int *fd, ino_t *inode, hf__head *head) {
    char key[HF__KEY_MAX];
    size_t length = key_of(f, key, op);
    hf__lockfile where;
    name_file(f, &where, key, length);
    return hf__lock_look(&where, key, length, fd, inode, head, &op->detail);
}

static void see_line(const file *f, hf__op *op) {
    char key[HF__KEY_MAX];
    uint32_t ids[HF__LINE_SEEN];
    hf__lockfile where;
    name_file(f, &where, key, key_of(f, key, op));
    op->sight->waiting = hf__lock_line(&where, ids, HF__LINE_SEEN);
    for (uint32_t i = 0; i < op->sight->waiting && i < HF__LINE_SEEN; i++)
        (void)snprintf(op->sight->line[i].client, sizeof op->sight->line[i].client, "%08x", ids[i]);
}

static hf_result inspect(file *f, hf__op *op, hf__time now) {
    hf__head head;
    hf__sight *s = op->sight;
    see_line(f, op);
    hf_result r = look(f, op, NULL, NULL, &head);
    s->held = r == HF_OK;
    if (r == HF_NOT_HELD) return HF_OK;
    if (r) return r;
    const hf__record *record = &head.record;
    s->count = record->count;
    s->token = record->token;
    s->since_unix_ms = record->since_unix_ms;
    s->remaining_ms = record->until > now ? (record->until - now) / HF__MS : 0;
    hf__owner_text(s->owner, (hf__owner){record->owner, record->logical});
    hf__text_copy(s->who.client, sizeof s->who.client, record->client);
    s->who.pid = record->pid;
    hf__text_copy(s->who.program, sizeof s->who.program, record->program);
    hf__text_copy(s->who.label, sizeof s->who.label, record->label);
    if (gethostname(s->who.host, sizeof s->who.host - 1) != 0) s->who.host[0] = '\0';
    return HF_OK;
}

/* As the client has introduced itself: pid, program, label, a tab between them. */
static hf_result who(const file *f, hf__op *op) {
    hf__identity *who = &op->sight->who;
    char text[HF__WHO_LINE], *rest = text;
    unsigned long id = strtoul(who->client, NULL, 16);
    if (strlen(who->client) != ID_TEXT || !hf__peers_who(&f->peers, (uint32_t)id, text))
        return HF_OK;
    who->pid = strtol(strsep(&rest, "\t"), NULL, 10);
    hf__text_copy(who->program, sizeof who->program, rest ? strsep(&rest, "\t") : "");
    hf__text_copy(who->label, sizeof who->label, rest ? rest : "");
    if (gethostname(who->host, sizeof who->host - 1) != 0) who->host[0] = '\0';
    return HF_OK;
}

/* ---- Breaking: the holder is asked to let go, and does so itself ---- */

static void hear(file *f, hf__lock *l) {
    if (l->heard) return;
    l->heard = true;
    l->next_heard = f->heard;
    f->heard = l;
}

static void tell_holder(file *f, hf__op *op, uint32_t id, ino_t inode) {
    hf__lock *ours = find(f, op, false);
    if (ours && ours->held && id == f->peers.id)
        hear(f, ours);
    else
        hf__peers_order(&f->peers, id, inode);
}

static hf_result begin_break(file *f, hf__op *op) {
    hf__head head;
    ino_t inode;
    int fd;
    uint64_t wanted = op->token;
    hf_result r = look(f, op, &fd, &inode, &head);
    if (r) {
        op->token = 0;
        return r;
    }
    op->token = head.record.token;
    bool fits = head.record.token && (!wanted || wanted == head.record.token);
    int error = fits ? hf__lockfile_break(fd, head.record.token) : 0;
    hf__kept_close(fd);
    if (error) {
        op->detail =
            hf__line("cannot write to the lock's file in %s: %s", f->path, strerror(error));
        return HF_REFUSED;
    }
    if (!fits && !head.record.token) {
        op->detail = hf__line("somebody is just taking the lock; try again");
        return HF_UNKNOWN_OUTCOME;
    }
    if (!fits) return HF_NOT_HELD;
    tell_holder(f, op, head.record.id, inode);
    op->next = f->breaking;
    f->breaking = op;
    return HF_OK;
}

/* True: it is over, one way or the other. */
static bool obeyed(file *f, hf__op *op, hf__time now) {
    hf__head head;
    hf_result r = look(f, op, NULL, NULL, &head);
    free(op->detail);
    op->detail = NULL;
    if (r == HF_NOT_HELD || (r == HF_OK && head.record.token != op->token)) {
        complete(f, op, HF_OK);
        return true;
    }
    if (now < op->not_after) return false; /* also when it could not be seen */
    op->detail = hf__line("the holder (process %d) did not let go in time: it is stopped, or very "
                          "slow; it will let go when it goes on, or when it is killed",
                          r ? 0 : head.record.pid);
    complete(f, op, HF_UNKNOWN_OUTCOME);
    return true;
}

static void look_at_breaks(file *f, hf__time now) {
    if (!f->breaking || now < f->look_at) return;
    f->look_at = now + LOOK;
    for (hf__op **link = &f->breaking; *link;) {
        hf__op *op = *link, *next = op->next;
        if (obeyed(f, op, now))
            *link = next;
        else
            link = &op->next;
    }
}

/* ---- The table ---- */

static void submit(hf__store *store, hf__op *op, hf__time now) {
    file *f = (file *)store;
    op->asked_at = now;
    op->link = store->link;
    op->maybe = false;
    store->commands++;
    hf_result r = HF_OK;
    switch (op->verb) {
    case HF__ASK: r = ask(f, op, now); break;
    case HF__RENEW: r = renew(f, op, now); break;
    case HF__RELEASE: r = release(f, op); break;
    case HF__INSPECT: r = inspect(f, op, now); break;
    case HF__WHO: r = who(f, op); break;
    case HF__BREAK:
        r = begin_break(f, op);
        if (!r) return; /* completed when the holder has obeyed */
        break;
    case HF__RAISE:
    case HF__AGE:
    case HF__REGISTER: r = HF_UNSUPPORTED; break;
    }
    complete(f, op, r);
}

static hf__op *completed(hf__store *store) {
    file *f = (file *)store;
    hf__op *op = f->first;
    if (!op) return NULL;
    f->first = op->next;
    if (!f->first) f->last = NULL;
    return op;
}

static bool news(hf__store *store, hf__news *out) {
    file *f = (file *)store;
    hf__lock *l = f->heard;
    if (!l) return false;
    f->heard = l->next_heard;
    l->heard = false;
    size_t prefix = strlen(l->mapped.key) + 1;
    *out = (hf__news){
        .what = HF__HEARD_OF, .name = l->mapped.key + prefix, .length = l->mapped.length - prefix};
    return true;
}

static void tick(hf__store *store, hf__time now) {
    look_at_breaks((file *)store, now);
}

static hf__time due(const hf__store *store) {
    const file *f = (const file *)store;
    return f->breaking ? f->look_at : HF__NEVER;
}

static bool flush(hf__store *store, pthread_mutex_t *mutex) {
    (void)store;
    (void)mutex;
    return false;
}

static int pollset(hf__store *store, struct pollfd *fds, bool reading) {
    return hf__peers_pollset(&((file *)store)->peers, fds, reading);
}

static void hear_of_inode(file *f, ino_t inode) {
    for (hf__mapped *it = NULL; (it = hf__map_next(&f->locks, it));)
        if (((hf__lock *)it)->inode == inode) hear(f, (hf__lock *)it);
}

static void hear_of_death(file *f, uint32_t id) {
    for (hf__mapped *it = NULL; (it = hf__map_next(&f->locks, it));) {
        hf__lock *l = (hf__lock *)it;
        if (l->ahead && l->ahead->id == id) hear(f, l);
    }
}

static void ready(hf__store *store, const struct pollfd *fds, int count, pthread_mutex_t *mutex) {
    file *f = (file *)store;
    (void)mutex; /* nothing here takes long */
    for (int i = 0; i < count; i++) {
        ino_t inode;
        uint32_t id;
        if (!fds[i].revents) continue;
        while (hf__peers_message(&f->peers, fds[i].fd, &inode)) hear_of_inode(f, inode);
        if (fds[i].fd == f->peers.watch)
            while (hf__peers_death(&f->peers, &id)) hear_of_death(f, id);
    }
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
    file *f = (file *)store;
    (void)now;
    store->up = false;
    while (f->breaking) {
        hf__op *op = f->breaking;
        f->breaking = op->next;
        complete(f, op, HF_UNREACHABLE);
    }
}

/* ---- Making ---- */

static void file_free(hf__store *store, bool forked) {
    file *f = (file *)store;
    for (hf__mapped *it; (it = hf__map_next(&f->locks, NULL));) {
        hf__lock *l = (hf__lock *)it;
        hf__map_remove(&f->locks, it);
        if (!forked) hf__lock_close(l, &f->peers); /* a child's were closed when it was forked */
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

static const hf__store_table table = {
    .free = file_free,
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

static void introduce(file *f, const hf__identity *who) {
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
    file *f = calloc(1, sizeof *f);
    if (!f) return hf__fail(HF_NOMEM, "out of memory");
    f->store = (hf__store){.table = &table, .link = 1, .up = true};
    f->url = url;
    f->directory = -1;
    hf__map_init(&f->locks, hf__rand_seed());
    introduce(f, identity);
    hf_result r = hf__directory_open(url->path, url->network_allowed, &f->directory, &f->path);
    hf__peers_init(&f->peers, f->directory, &f->store.polls);
    f->peers.introduction = f->introduction;
    if (r) {
        file_free(&f->store, false);
        return r;
    }
    hf__log_add(log, HF_LOG_DEBUG, "locks are kept in %s", f->path);
    *store = &f->store;
    return HF_OK;
}
