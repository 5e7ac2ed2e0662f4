/* SPDX-License-Identifier: Apache-2.0 */
#include "watch.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conformance.h"
#include "t_exempt.h"

/* ---- Clients and objects ---- */

enum { CLIENTS_MAX = 64, OBJECTS_MAX = 65536, ANY_KIND = 255 };

typedef struct seen_client {
    hf_client *client;
    bool same; /* its locks are checked */
} seen_client;

typedef enum tracked_kind { HOLD, INFO, LEADER, CANCEL, OBSERVER } tracked_kind;

typedef struct tracked_object {
    void *at; /* NULL: not in use */
    tracked_kind object_kind;
    unsigned refs;
    hf_client *client;
    char name[128]; /* "": not checked */
    uint32_t kind;  /* ANY_KIND: it has changed, and is not checked */
    bool is_ending; /* or its client is being closed */
} tracked_object;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool stopped; /* the case is over: its threads may not begin another call */
static seen_client clients[CLIENTS_MAX];
static tracked_object *objects;
static size_t used;
static const char *main_url;
static hf_client *witness;
static atomic_bool meddled; /* a case took a lock from its holder, which may not know yet */

_Noreturn void watch_violation(const char *what, const char *name) {
    fprintf(stderr, "VIOLATION: %s: %s\n", name, what);
    fflush(NULL);
    _exit(WATCH_VIOLATION);
}

/* The same space: the same URL, or with options that do not change the space. */
static bool is_same_space(const char *url) {
    size_t length = main_url ? strlen(main_url) : 0;
    if (!url || !main_url || strncmp(url, main_url, length) != 0) return false;
    return !url[length] || (strchr("?&", url[length]) && !strstr(url, "prefix="));
}

static bool is_checked(hf_client *client) {
    for (size_t i = 0; i < CLIENTS_MAX; i++)
        if (clients[i].client == client) return clients[i].same;
    return false;
}

static tracked_object *find_object(const void *at) {
    for (size_t i = 0; i < used; i++)
        if (objects[i].at == at) return &objects[i];
    return NULL;
}

static tracked_object *add_object(void *at, tracked_kind what) {
    size_t i = 0;
    while (i < used && objects[i].at) i++;
    if (i == OBJECTS_MAX) abort();
    if (i == used) used++;
    objects[i] = (tracked_object){.at = at, .object_kind = what, .refs = 1};
    return &objects[i];
}

static void note_object(void *at, tracked_kind what) {
    pthread_mutex_lock(&mutex);
    add_object(at, what);
    pthread_mutex_unlock(&mutex);
}

static void drop_object(const void *at) {
    pthread_mutex_lock(&mutex);
    tracked_object *t = at ? find_object(at) : NULL;
    if (t && --t->refs == 0) t->at = NULL;
    pthread_mutex_unlock(&mutex);
}

/* ---- Invariants ---- */

#define REAL(type, name, parameters) \
    type __real_##name parameters;   \
    type __wrap_##name parameters

REAL(hf_result, hf_inspect, (hf_client * client, const char *name, hf_info **info));
REAL(void, hf_info_free, (hf_info * info));

static bool is_exclusive(uint32_t kind) {
    return kind == HF_MUTEX || kind == HF_WRITE;
}

static bool is_sure(const tracked_object *t) {
    return t->at && t->object_kind == HOLD && t->name[0] && t->kind != ANY_KIND && !t->is_ending;
}

/* Whether the other ownership excludes this one and is held. Call it with the mutex locked. */
static bool conflicts_with(const tracked_object *a, const tracked_object *b) {
    if (!is_sure(b) || a == b || strcmp(a->name, b->name) != 0) return false;
    if (!is_exclusive(a->kind) && !is_exclusive(b->kind)) return false;
    return hf_fence(a->at) != hf_fence(b->at) && hf_held(b->at) && hf_held(a->at);
}

/* Compares with the store's view of the lock, which was held the whole time. */
static void check_witness(const char *name, uint32_t kind, const hf_hold *hold) {
    hf_info *info = NULL;
    t_exempt_begin();
    hf_result r = __real_hf_inspect(witness, name, &info);
    bool there = r || (info->held && (!is_exclusive(kind) || info->token == hf_fence(hold)));
    if (!r) __real_hf_info_free(info);
    t_exempt_end();
    if (!there && hf_held(hold) && !atomic_load(&meddled))
        watch_violation("held, but the store does not know the hold", name);
}

static void note_hold(hf_client *client, const char *name, uint32_t kind, hf_hold *hold) {
    bool checked = name && strlen(name) < sizeof objects->name;
    pthread_mutex_lock(&mutex);
    tracked_object *t = add_object(hold, HOLD);
    t->client = client;
    t->kind = kind;
    checked = checked && is_checked(client);
    if (checked) snprintf(t->name, sizeof t->name, "%s", name);
    bool clash = false;
    for (size_t i = 0; checked && i < used && !clash; i++) clash = conflicts_with(t, &objects[i]);
    pthread_mutex_unlock(&mutex);
    if (clash && !atomic_load(&meddled)) watch_violation("two clients hold it at once", name);
    if (checked) check_witness(name, kind, hold);
}

/* ---- Calls that return an object ---- */

REAL(hf_result, hf_open_v,
     (const char *url, const hf_client_options *options, size_t size, hf_client **client));
REAL(void, hf_close, (hf_client * client));
REAL(hf_result, hf_acquire_v,
     (hf_client * client, const char *name, const hf_options *options, size_t size,
      hf_hold **hold));
REAL(hf_result, hf_lock, (hf_client * client, const char *name, hf_hold **hold));
REAL(hf_result, hf_try_lock, (hf_client * client, const char *name, hf_hold **hold));
REAL(hf_result, hf_acquire_all_v,
     (hf_client * client, const hf_request *requests, size_t count, size_t request_size,
      const hf_options *options, size_t size, hf_hold **hold));
REAL(hf_result, hf_adopt_v,
     (hf_client * client, const char *text, const hf_options *options, size_t size,
      hf_hold **hold));
REAL(hf_result, hf_campaign_v,
     (hf_client * client, const char *name, const void *value, size_t length,
      const hf_options *options, size_t size, hf_hold **hold));
REAL(hf_result, hf_acquire_async_v,
     (hf_client * client, const char *name, const hf_options *options, size_t size,
      hf_acquired_fn *fn, void *arg));
REAL(hf_hold *, hf_ref, (hf_hold * hold));
REAL(hf_result, hf_leader, (hf_client * client, const char *name, hf_leader_info **info));
REAL(hf_cancel *, hf_cancel_new, (void));
REAL(hf_result, hf_observe,
     (hf_client * client, const char *name, hf_leader_fn *fn, void *arg, hf_observer **observer));

hf_result __wrap_hf_open_v(const char *url, const hf_client_options *options, size_t size,
                           hf_client **client) {
    if (atomic_load(&stopped)) return HF_CLOSED;
    hf_result r = __real_hf_open_v(url, options, size, client);
    size_t i = 0;
    if (r) return r;
    pthread_mutex_lock(&mutex);
    while (i < CLIENTS_MAX && clients[i].client) i++;
    if (i < CLIENTS_MAX) clients[i] = (seen_client){*client, is_same_space(url)};
    pthread_mutex_unlock(&mutex);
    return r;
}

void __wrap_hf_close(hf_client *client) {
    pthread_mutex_lock(&mutex);
    for (size_t i = 0; i < used; i++)
        if (client && objects[i].client == client) objects[i].is_ending = true;
    for (size_t i = 0; i < CLIENTS_MAX; i++)
        if (clients[i].client == client) clients[i] = (seen_client){0};
    pthread_mutex_unlock(&mutex);
    __real_hf_close(client);
}

static uint32_t kind_of(const hf_options *options, size_t size) {
    return options && size >= sizeof *options ? options->kind : HF_MUTEX;
}

hf_result __wrap_hf_acquire_v(hf_client *client, const char *name, const hf_options *options,
                              size_t size, hf_hold **hold) {
    if (atomic_load(&stopped)) return HF_CLOSED;
    hf_result r = __real_hf_acquire_v(client, name, options, size, hold);
    if (!r) note_hold(client, name, kind_of(options, size), *hold);
    return r;
}

hf_result __wrap_hf_lock(hf_client *client, const char *name, hf_hold **hold) {
    if (atomic_load(&stopped)) return HF_CLOSED;
    hf_result r = __real_hf_lock(client, name, hold);
    if (!r) note_hold(client, name, HF_MUTEX, *hold);
    return r;
}

hf_result __wrap_hf_try_lock(hf_client *client, const char *name, hf_hold **hold) {
    if (atomic_load(&stopped)) return HF_CLOSED;
    hf_result r = __real_hf_try_lock(client, name, hold);
    if (!r) note_hold(client, name, HF_MUTEX, *hold);
    return r;
}

hf_result __wrap_hf_acquire_all_v(hf_client *client, const hf_request *requests, size_t count,
                                  size_t request_size, const hf_options *options, size_t size,
                                  hf_hold **hold) {
    if (atomic_load(&stopped)) return HF_CLOSED;
    hf_result r =
        __real_hf_acquire_all_v(client, requests, count, request_size, options, size, hold);
    if (!r) note_hold(client, NULL, ANY_KIND, *hold);
    return r;
}

hf_result __wrap_hf_adopt_v(hf_client *client, const char *text, const hf_options *options,
                            size_t size, hf_hold **hold) {
    if (atomic_load(&stopped)) return HF_CLOSED;
    hf_result r = __real_hf_adopt_v(client, text, options, size, hold);
    if (!r) note_hold(client, NULL, ANY_KIND, *hold);
    return r;
}

hf_result __wrap_hf_campaign_v(hf_client *client, const char *name, const void *value,
                               size_t length, const hf_options *options, size_t size,
                               hf_hold **hold) {
    if (atomic_load(&stopped)) return HF_CLOSED;
    hf_result r = __real_hf_campaign_v(client, name, value, length, options, size, hold);
    if (!r) note_hold(client, name, HF_MUTEX, *hold);
    return r;
}

typedef struct async_acquire {
    hf_client *client;
    char name[HF_NAME_MAX + 1];
    uint32_t kind;
    hf_acquired_fn *fn;
    void *arg;
} async_acquire;

static void on_acquired(hf_result r, hf_hold *hold, void *arg) {
    async_acquire *a = arg;
    if (!r) note_hold(a->client, a->name, a->kind, hold);
    a->fn(r, hold, a->arg);
    free(a);
}

hf_result __wrap_hf_acquire_async_v(hf_client *client, const char *name, const hf_options *options,
                                    size_t size, hf_acquired_fn *fn, void *arg) {
    if (atomic_load(&stopped)) return HF_CLOSED;
    if (!fn) return __real_hf_acquire_async_v(client, name, options, size, fn, arg);
    async_acquire *a = calloc(1, sizeof *a);
    if (!a) abort();
    *a = (async_acquire){.client = client, .kind = kind_of(options, size), .fn = fn, .arg = arg};
    snprintf(a->name, sizeof a->name, "%s", name ? name : "");
    hf_result r = __real_hf_acquire_async_v(client, name, options, size, on_acquired, a);
    if (r) free(a);
    return r;
}

hf_hold *__wrap_hf_ref(hf_hold *hold) {
    pthread_mutex_lock(&mutex);
    tracked_object *t = find_object(hold);
    if (t) t->refs++;
    pthread_mutex_unlock(&mutex);
    return __real_hf_ref(hold);
}

hf_result __wrap_hf_inspect(hf_client *client, const char *name, hf_info **info) {
    if (atomic_load(&stopped)) return HF_CLOSED;
    hf_result r = __real_hf_inspect(client, name, info);
    if (!r) note_object(*info, INFO);
    return r;
}

hf_result __wrap_hf_leader(hf_client *client, const char *name, hf_leader_info **info) {
    if (atomic_load(&stopped)) return HF_CLOSED;
    hf_result r = __real_hf_leader(client, name, info);
    if (!r) note_object(*info, LEADER);
    return r;
}

hf_cancel *__wrap_hf_cancel_new(void) {
    hf_cancel *cancel = __real_hf_cancel_new();
    if (cancel) note_object(cancel, CANCEL);
    return cancel;
}

/* An observer may end itself before the call that created it has returned. */
static hf_observer *ended_early;

hf_result __wrap_hf_observe(hf_client *client, const char *name, hf_leader_fn *fn, void *arg,
                            hf_observer **observer) {
    if (atomic_load(&stopped)) return HF_CLOSED;
    hf_result r = __real_hf_observe(client, name, fn, arg, observer);
    if (r) return r;
    pthread_mutex_lock(&mutex);
    if (ended_early != *observer) add_object(*observer, OBSERVER);
    ended_early = NULL;
    pthread_mutex_unlock(&mutex);
    return r;
}

/* ---- Calls that a thread may be about to begin ---- */

REAL(hf_result, hf_latch_wait_v,
     (hf_client * client, const char *name, const hf_options *options, size_t size));
REAL(hf_result, hf_latch_count_down,
     (hf_client * client, const char *name, uint32_t by, uint32_t *left));
REAL(hf_result, hf_stats_get_v, (hf_client * client, hf_stats *stats, size_t size));

hf_result __wrap_hf_latch_wait_v(hf_client *client, const char *name, const hf_options *options,
                                 size_t size) {
    if (atomic_load(&stopped)) return HF_CLOSED;
    return __real_hf_latch_wait_v(client, name, options, size);
}

hf_result __wrap_hf_latch_count_down(hf_client *client, const char *name, uint32_t by,
                                     uint32_t *left) {
    if (atomic_load(&stopped)) return HF_CLOSED;
    return __real_hf_latch_count_down(client, name, by, left);
}

hf_result __wrap_hf_stats_get_v(hf_client *client, hf_stats *stats, size_t size) {
    if (atomic_load(&stopped)) return HF_CLOSED;
    return __real_hf_stats_get_v(client, stats, size);
}

/* ---- Calls that free an object ---- */

REAL(hf_result, hf_release, (hf_hold * hold));
REAL(hf_result, hf_release_async, (hf_hold * hold, hf_released_fn *fn, void *arg));
REAL(void, hf_unref, (hf_hold * hold));
REAL(hf_result, hf_export, (hf_hold * hold, char *text, size_t size));
REAL(hf_result, hf_upgrade, (hf_hold * hold, int64_t wait_ms));
REAL(hf_result, hf_downgrade, (hf_hold * hold));
REAL(hf_result, hf_break, (hf_client * client, const char *name, uint64_t token));
REAL(void, hf_leader_free, (hf_leader_info * info));
REAL(void, hf_cancel_free, (hf_cancel * cancel));
REAL(void, hf_unobserve, (hf_observer * observer));
REAL(void, cf_section_check, (cf_section * section, long visits));

/* Called before the library releases the hold. */
static void note_release(const hf_hold *hold, bool kind_changes) {
    pthread_mutex_lock(&mutex);
    tracked_object *t = hold ? find_object(hold) : NULL;
    if (t && kind_changes) t->kind = ANY_KIND;
    if (t && !kind_changes) t->is_ending = true;
    pthread_mutex_unlock(&mutex);
}

hf_result __wrap_hf_release(hf_hold *hold) {
    note_release(hold, false);
    drop_object(hold);
    return __real_hf_release(hold);
}

hf_result __wrap_hf_release_async(hf_hold *hold, hf_released_fn *fn, void *arg) {
    note_release(hold, false);
    /* the object may be freed when the call returns, and its address reused */
    pthread_mutex_lock(&mutex);
    tracked_object *t = hold ? find_object(hold) : NULL, kept = t ? *t : (tracked_object){0};
    pthread_mutex_unlock(&mutex);
    drop_object(hold);
    hf_result r = __real_hf_release_async(hold, fn, arg);
    if ((r != HF_NOMEM && r != HF_INVALID) || !kept.at) return r;
    pthread_mutex_lock(&mutex);
    t = find_object(hold);
    if (t)
        t->refs++;
    else
        *add_object(hold, HOLD) =
            (tracked_object){.at = hold, .object_kind = HOLD, .refs = 1, .is_ending = true};
    pthread_mutex_unlock(&mutex);
    return r;
}

void __wrap_hf_unref(hf_hold *hold) {
    note_release(hold, false);
    drop_object(hold);
    __real_hf_unref(hold);
}

hf_result __wrap_hf_export(hf_hold *hold, char *text, size_t size) {
    note_release(hold, false);
    hf_result r = __real_hf_export(hold, text, size);
    if (r == HF_OK) drop_object(hold);
    return r;
}

hf_result __wrap_hf_upgrade(hf_hold *hold, int64_t wait_ms) {
    note_release(hold, true);
    return __real_hf_upgrade(hold, wait_ms);
}

hf_result __wrap_hf_downgrade(hf_hold *hold) {
    note_release(hold, true);
    return __real_hf_downgrade(hold);
}

hf_result __wrap_hf_break(hf_client *client, const char *name, uint64_t token) {
    if (atomic_load(&stopped)) return HF_CLOSED;
    atomic_store(&meddled, true);
    return __real_hf_break(client, name, token);
}

void __wrap_hf_info_free(hf_info *info) {
    drop_object(info);
    __real_hf_info_free(info);
}

void __wrap_hf_leader_free(hf_leader_info *info) {
    drop_object(info);
    __real_hf_leader_free(info);
}

void __wrap_hf_cancel_free(hf_cancel *cancel) {
    drop_object(cancel);
    __real_hf_cancel_free(cancel);
}

void __wrap_hf_unobserve(hf_observer *observer) {
    pthread_mutex_lock(&mutex);
    if (observer && !find_object(observer)) ended_early = observer;
    pthread_mutex_unlock(&mutex);
    drop_object(observer);
    __real_hf_unobserve(observer);
}

void __wrap_cf_section_check(cf_section *section, long visits) {
    if (atomic_load(&section->collisions))
        watch_violation("two were inside", "the critical section");
    __real_cf_section_check(section, visits);
}

/* ---- Around a case ---- */

void watch_begin(const char *url, hf_client *looks, bool meddles) {
    atomic_store(&meddled, meddles);
    main_url = url;
    witness = looks;
    objects = calloc(OBJECTS_MAX, sizeof *objects);
    if (!objects) abort();
}

void watch_stop(void) {
    atomic_store(&stopped, true);
}

static void give_back(tracked_object *t) {
    for (unsigned i = 0; t->object_kind == HOLD && i < t->refs; i++) __real_hf_unref(t->at);
    if (t->object_kind == INFO) __real_hf_info_free(t->at);
    if (t->object_kind == LEADER) __real_hf_leader_free(t->at);
    if (t->object_kind == CANCEL) __real_hf_cancel_free(t->at);
    if (t->object_kind == OBSERVER) __real_hf_unobserve(t->at);
}

void watch_end(void) {
    for (size_t i = 0; i < used; i++)
        if (objects[i].at) give_back(&objects[i]);
    free(objects);
    objects = NULL;
    used = 0;
}
