/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fixture of a case and the helpers that cases share: see conformance.h.
 *
 * A failed assertion leaves a case by longjmp while its threads may still wait. So all memory that
 * a thread uses is on the fixture's list of blocks. The end of a case closes the clients (which
 * ends every wait), joins the threads, and only then frees the blocks.
 */
#include "conformance.h"

#include <poll.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

struct cf_thread {
    cf_thread *next;
    pthread_t id;
    int joined;
    void (*fn)(void *);
    void *arg;
};

struct cf_block {
    struct cf_block *next;
    max_align_t bytes[];
};

/* SIGALRM ends a case that hangs; cmocka has printed its name by then. */
enum { HANG_MS = 45000 };

/* ---- Setup and teardown ---------------------------------------------------------------------- */

static atomic_bool over;

bool cf_over(void) {
    return atomic_load(&over);
}

int cf_setup(void **state) {
    cf *f = calloc(1, sizeof *f);
    if (!f) return -1;
    f->test = *state;
    *state = f;
    atomic_store(&over, false);
    alarm((unsigned)(t_patience(HANG_MS) / 1000));
    f->name = cf_name(f, "");
    f->a = cf_open(f);
    f->b = cf_open(f);
    return 0;
}

static int join_within(cf_thread *thread, int64_t ms) {
    if (thread->joined) return 1;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += t_patience(ms) / 1000;
    thread->joined = pthread_timedjoin_np(thread->id, NULL, &until) == 0;
    return thread->joined;
}

static int join_all(cf_thread *threads) {
    int all = 1;
    for (cf_thread *t = threads; t; t = t->next) all &= join_within(t, CF_WATCHDOG_MS);
    return all;
}

bool cf_threads_end(cf *f, int64_t ms) {
    bool all;
    int64_t until = t_now_ms() + ms;
    atomic_store(&over, true);
    do {
        all = true;
        for (cf_thread *t = f->threads; t; t = t->next) {
            if (!t->joined) t->joined = pthread_tryjoin_np(t->id, NULL) == 0;
            if (!t->joined) all = false;
        }
        if (!all) t_sleep_ms(1);
    } while (!all && t_now_ms() < until);
    return all;
}

int cf_teardown(void **state) {
    cf *f = *state;
    atomic_store(&over, true);
    for (size_t i = 0; i < CF_CLIENTS_MAX; i++) hf_close(f->clients[i]);
    if (!join_all(f->threads)) return -1; /* a thread still runs and uses this memory */
    alarm(0);
    while (f->blocks) {
        struct cf_block *block = f->blocks;
        f->blocks = block->next;
        free(block);
    }
    free(f);
    return 0;
}

void *cf_new(cf *f, size_t size) {
    struct cf_block *block = calloc(1, sizeof *block + size);
    assert_non_null(block);
    block->next = f->blocks;
    f->blocks = block;
    return block->bytes;
}

const char *cf_name(cf *f, const char *suffix) {
    size_t size = strlen(f->test->name) + strlen(suffix) + 1;
    char *name = cf_new(f, size);
    snprintf(name, size, "%s%s", f->test->name, suffix);
    return name;
}

const char *cf_url_with(cf *f, const char *options) {
    size_t size = strlen(cf_url()) + strlen(options) + 2;
    char *url = cf_new(f, size);
    snprintf(url, size, "%s%c%s", cf_url(), strchr(cf_url(), '?') ? '&' : '?', options);
    return url;
}

hf_client *cf_open(cf *f) {
    return cf_open_url(f, cf_url(), NULL);
}

hf_client *cf_open_url(cf *f, const char *url, const hf_client_options *options) {
    size_t slot = 0;
    while (slot < CF_CLIENTS_MAX && f->clients[slot]) slot++;
    assert_in_range(slot, 0, CF_CLIENTS_MAX - 1);
    CF_IS(HF_OK, hf_open(url, options, &f->clients[slot]));
    assert_non_null(f->clients[slot]);
    return f->clients[slot];
}

void cf_close(cf *f, hf_client *client) {
    for (size_t i = 0; i < CF_CLIENTS_MAX; i++) {
        if (f->clients[i] == client) f->clients[i] = NULL;
    }
    hf_close(client);
}

hf_cancel *cf_cancel(void) {
    hf_cancel *cancel = hf_cancel_new();
    assert_non_null(cancel);
    return cancel;
}

/* ---- Assertions ------------------------------------------------------------------------------ */

void cf_is(hf_result expected, hf_result got, const char *what, const char *file, int line) {
    if (got == expected) return;
    print_error("%s\n    is %s, not %s (last failure: %s)\n", what, hf_result_name(got),
                hf_result_name(expected), hf_error_detail());
    _fail(file, line);
}

/* Every result except HF_OK must set the out parameter to NULL, so start with another value. */
static hf_hold *const POISON = (hf_hold *)(uintptr_t)0x5a5a;

hf_hold *cf_take(hf_client *client, const char *name, const hf_options *options, const char *file,
                 int line) {
    hf_hold *hold = NULL;
    cf_is(HF_OK, hf_acquire(client, name, options, &hold), "acquire", file, line);
    if (!hold) _fail(file, line);
    return hold;
}

void cf_refused(hf_result expected, hf_client *client, const char *name, const hf_options *options,
                const char *file, int line) {
    hf_hold *hold = POISON;
    cf_is(expected, hf_acquire(client, name, options, &hold), "acquire", file, line);
    if (hold || !*hf_error_detail()) {
        print_error("refused, but with hold %p and detail \"%s\"\n", (void *)hold,
                    hf_error_detail());
        _fail(file, line);
    }
}

/* ---- Inspecting ------------------------------------------------------------------------------ */

hf_stats cf_stats(hf_client *client) {
    hf_stats stats;
    memset(&stats, 0x5a, sizeof stats);
    CF_IS(HF_OK, hf_stats_get(client, &stats));
    return stats;
}

hf_info *cf_inspect(hf_client *client, const char *name) {
    hf_info *info = NULL;
    CF_IS(HF_OK, hf_inspect(client, name, &info));
    assert_non_null(info);
    return info;
}

uint32_t cf_count(hf_client *client, const char *name) {
    hf_info *info = cf_inspect(client, name);
    uint32_t count = info->count;
    hf_info_free(info);
    return count;
}

uint64_t cf_token(hf_client *client, const char *name) {
    hf_info *info = cf_inspect(client, name);
    uint64_t token = info->token;
    hf_info_free(info);
    return token;
}

int cf_readable(int fd) {
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    return poll(&polled, 1, 0) == 1 && (polled.revents & POLLIN) != 0;
}

void cf_on_lost(hf_hold *hold, void *arg) {
    cf_lost *lost = arg;
    atomic_store(&lost->token, hf_fence(hold));
    atomic_fetch_add(&lost->calls, 1);
}

/* ---- Threads --------------------------------------------------------------------------------- */

static void *run_thread(void *arg) {
    cf_thread *thread = arg;
    thread->fn(thread->arg);
    return NULL;
}

cf_thread *cf_spawn(cf *f, void (*fn)(void *), void *arg) {
    cf_thread *thread = cf_new(f, sizeof *thread);
    *thread = (cf_thread){.next = f->threads, .fn = fn, .arg = arg};
    assert_int_equal(pthread_create(&thread->id, NULL, run_thread, thread), 0);
    f->threads = thread;
    return thread;
}

void cf_join(cf_thread *thread) {
    if (!join_within(thread, CF_WATCHDOG_MS)) fail_msg("a thread did not end");
}

pthread_t cf_thread_id(const cf_thread *thread) {
    return thread->id;
}

static void run_attempt(void *arg) {
    cf_attempt *a = arg;
    int64_t started = t_now_ms();
    a->result = hf_acquire(a->client, a->name, &a->options, &a->hold);
    a->took_ms = t_now_ms() - started;
    snprintf(a->detail, sizeof a->detail, "%s", a->result == HF_OK ? "" : hf_error_detail());
}

cf_attempt *cf_start(cf *f, hf_client *client, const char *name, const hf_options *options) {
    cf_attempt *a = cf_new(f, sizeof *a);
    a->client = client;
    a->name = name;
    if (options) a->options = *options;
    a->thread = cf_spawn(f, run_attempt, a);
    return a;
}

void cf_crowd(cf *f, int clients, int threads, void (*fn)(void *), void *arg) {
    cf_thread **all = cf_new(f, (size_t)(clients * threads) * sizeof *all);
    hf_client *client = NULL;
    for (int i = 0; i < clients * threads; i++) {
        cf_visitor *v = cf_new(f, sizeof *v);
        if (i % threads == 0) client = cf_open(f);
        *v = (cf_visitor){arg, client, i};
        all[i] = cf_spawn(f, fn, v);
    }
    for (int i = 0; i < clients * threads; i++) cf_join(all[i]);
}

cf_attempt *cf_queue(cf *f, hf_client *client, const char *name, const hf_options *options) {
    uint64_t before = cf_stats(client).waiting;
    cf_attempt *a = cf_start(f, client, name, options);
    CF_UNTIL(cf_stats(client).waiting == before + 1);
    return a;
}

hf_hold *cf_granted(cf_attempt *a) {
    if (!join_within(a->thread, CF_GRANT_MS)) fail_msg("the lock was not granted in time");
    CF_ENDED(HF_OK, a);
    assert_non_null(a->hold);
    return a->hold;
}

hf_result cf_acquire_in_thread(cf *f, hf_client *client, const char *name,
                               const hf_options *options, hf_hold **hold) {
    cf_attempt *a = cf_start(f, client, name, options);
    cf_join(a->thread);
    if (hold) *hold = a->hold;
    return a->result;
}

static void run_release(void *arg) {
    cf_attempt *a = arg;
    a->result = hf_release(a->hold);
}

hf_result cf_release_in_thread(cf *f, hf_hold *hold) {
    cf_attempt *a = cf_new(f, sizeof *a);
    a->hold = hold;
    cf_join(cf_spawn(f, run_release, a));
    return a->result;
}

/* ---- Kinds ----------------------------------------------------------------------------------- */

uint32_t cf_queued(hf_client *client, const char *name) {
    hf_info *info = cf_inspect(client, name);
    uint32_t waiting = info->waiting;
    hf_info_free(info);
    return waiting;
}

uint32_t cf_holders(hf_client *client, const char *name) {
    hf_info *info = cf_inspect(client, name);
    uint32_t holders = info->holders;
    hf_info_free(info);
    return holders;
}

uint32_t cf_used(hf_client *client, const char *name) {
    hf_info *info = cf_inspect(client, name);
    uint32_t used = info->used;
    hf_info_free(info);
    return used;
}

bool cf_are_queued(hf_client *client, const char *name, uint32_t count) {
    hf_info *info = cf_inspect(client, name);
    bool all = info->waiting == count && cf_all_subscribed(info, name);
    hf_info_free(info);
    return all;
}

cf_attempt *cf_arrive(cf *f, hf_client *client, const char *name, const hf_options *options) {
    uint32_t before = cf_queued(client, name);
    cf_attempt *a = cf_queue(f, client, name, options);
    CF_UNTIL(cf_are_queued(client, name, before + 1));
    return a;
}

bool cf_can_acquire(hf_client *client, const char *name, const hf_options *options) {
    hf_hold *hold = NULL;
    hf_result result = hf_acquire(client, name, options, &hold);
    if (result == HF_BUSY) return false;
    CF_IS(HF_OK, result);
    CF_FREE(hold);
    return true;
}

/* ---- Exclusion ------------------------------------------------------------------------------- */

static void stay_inside(cf_section *section) {
    if (atomic_fetch_add(&section->inside, 1) != 0) atomic_fetch_add(&section->collisions, 1);
    long seen = atomic_load(&section->visits);
    sched_yield();
    atomic_store(&section->visits, seen + 1);
    atomic_fetch_sub(&section->inside, 1);
}

void cf_visit(cf_section *section, hf_client *client, const char *name, int rounds) {
    for (int i = 0; i < rounds; i++) {
        hf_hold *hold;
        if (hf_lock(client, name, &hold) != HF_OK) {
            atomic_fetch_add(&section->failures, 1);
            continue;
        }
        stay_inside(section);
        if (hf_release(hold) != HF_OK) atomic_fetch_add(&section->failures, 1);
    }
}

void cf_section_check(cf_section *section, long visits) {
    assert_int_equal(atomic_load(&section->failures), 0);
    assert_int_equal(atomic_load(&section->collisions), 0);
    assert_int_equal(atomic_load(&section->visits), visits);
}
