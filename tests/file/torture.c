/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random operations for a while. Processes acquire with all kinds of options, cancel, re-enter,
 * fork, break, open and close. Meanwhile some are killed or stopped, and files are swept. At the
 * end: no two processes held a lock at once, tokens grew, and nobody is stuck.
 *
 * A process that was stopped cannot know whether it was inside. Instead each process records spans.
 * It reads the clock after the acquire, and hf_held must then be true. Later it reads the clock
 * again, and hf_held must still be true. Between the two times the lock was its own, however long
 * it was stopped before or after. Spans of one lock must not overlap.
 *
 * Another run also reads, writes, upgrades and takes permits. There, spans may overlap if their
 * kinds may.
 *
 * Further runs stop no process. There, a free lock with waiters must be taken immediately, even if
 * processes are killed.
 *
 * $HOLDFAST_TEST_SEED repeats a run as far as the kernel does. $HOLDFAST_TEST_SECONDS sets its
 * length.
 */
#include "kit.h"

#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum {
    WORKERS = 8,
    NAMES = 3,
    SECONDS = 7,
    CALM_SECONDS = 2,
    SPANS_MAX = 200000,
    CAPACITY = 3,
    ENOUGH = 200,    /* number of spans that a run needs; a busy machine takes longer */
    STUCK_MS = 20000 /* far longer than any of their waits */
};

typedef struct held_span {
    int name;
    uint32_t kind, permits;
    uint64_t token;
    _Atomic int64_t from, to; /* 0: not held */
} held_span;

typedef struct torture {
    char url[PATH_SIZE];
    bool calm;  /* one lock that all wait for; nobody is stopped */
    bool kinds; /* all kinds, not only the mutex */
    atomic_int over;
    atomic_int spanned;
    atomic_long results[32];
    held_span spans[SPANS_MAX];
} torture;

typedef struct torture_worker {
    torture *t;
    uint64_t rand;
    hf_client *client;
} torture_worker;

static uint64_t draw_number(uint64_t *rand, uint64_t below) {
    *rand ^= *rand << 13;
    *rand ^= *rand >> 7;
    *rand ^= *rand << 17;
    return (*rand >> 11) % below;
}

static bool draw_chance(torture_worker *w, int percent) {
    return draw_number(&w->rand, 100) < (uint64_t)percent;
}

static int64_t draw_between(torture_worker *w, int64_t low, int64_t high) {
    return low + (int64_t)draw_number(&w->rand, (uint64_t)(high - low + 1));
}

/* ---- A worker's hold ------------------------------------------------------------------------- */

static void note_span(torture *t, int name, const hf_options *o, hf_hold *hold, int64_t stay_us) {
    int64_t now = t_now_us(), until = now + stay_us;
    if (!hf_held(hold)) return;
    int n = atomic_fetch_add(&t->spanned, 1);
    if (n >= SPANS_MAX) return;
    held_span *s = &t->spans[n];
    s->name = name;
    s->kind = o->kind;
    s->permits = o->permits;
    s->token = hf_fence(hold);
    atomic_store(&s->to, now);
    atomic_store(&s->from, now);
    do {
        now = t_now_us();
        if (!hf_held(hold)) return;
        atomic_store(&s->to, now);
    } while (now < until);
}

static void fork_child(torture_worker *w, hf_hold *hold) {
    pid_t pid = fork();
    if (pid) return;
    bool nothing = !hf_held(hold) && hf_release(hold) == HF_FORKED;
    t_sleep_ms(draw_between(w, 0, 50)); /* it may outlive its parent */
    _exit(nothing ? 0 : 1);
}

static void reenter_lock(torture_worker *w, const char *name, const hf_options *o, hf_hold *hold) {
    hf_hold *again = NULL;
    hf_options options = {.owner = o->owner, .kind = o->kind};
    if (o->kind == HF_PERMITS) return; /* permits cannot be re-entered */
    hf_result r = hf_acquire(w->client, name, &options, &again);
    if (r != HF_OK) { /* unless the first was lost meanwhile */
        T_CHECK(!hf_held(hold));
        return;
    }
    T_CHECK(hf_fence(again) >= hf_fence(hold) || o->kind == HF_READ);
    (void)hf_release(again);
}

static void extend_hold(torture_worker *w, hf_hold *hold) {
    hf_result r = hf_extend(hold, draw_between(w, 300, 1000));
    if (r != HF_OK && r != HF_LOST) t_fail("the extension returned %s", hf_result_name(r));
}

/* A process may be stopped while it has the entry lock. Then there is no answer. */
static bool may_be(const torture_worker *w, hf_result r) {
    return w->t->kinds && (r == HF_UNREACHABLE || r == HF_UNKNOWN_OUTCOME);
}

/* The worker itself may have been stopped for longer than the command timeout. */
static bool came_late(const torture_worker *w, hf_result r) {
    return !w->t->calm && r == HF_UNKNOWN_OUTCOME;
}

static void upgrade_hold(torture_worker *w, int n, const hf_options *o, hf_hold *hold) {
    hf_options writing = *o;
    writing.kind = HF_WRITE;
    hf_result r = hf_upgrade(hold, draw_between(w, 0, 30));
    if (r != HF_OK) return;
    note_span(w->t, n, &writing, hold, draw_between(w, 0, 300));
    r = hf_downgrade(hold);
    if (r != HF_OK && r != HF_LOST && !may_be(w, r))
        t_fail("the second read lock returned %s", hf_result_name(r));
}

static void be_inside(torture_worker *w, int n, const char *name, const hf_options *o,
                      hf_hold *hold) {
    note_span(w->t, n, o, hold, draw_between(w, 0, w->t->calm ? 200 : 1500));
    if (draw_chance(w, 10)) reenter_lock(w, name, o, hold);
    if (o->kind == HF_UPGRADABLE && draw_chance(w, 50)) upgrade_hold(w, n, o, hold);
    if (draw_chance(w, 5)) fork_child(w, hold);
    if (draw_chance(w, 10)) extend_hold(w, hold);
    if (!w->t->calm && draw_chance(w, 3)) t_sleep_ms(draw_between(w, 1, 120));
    note_span(w->t, n, o, hold, draw_between(w, 0, 300));
    hf_result r = hf_release(hold);
    if (r != HF_OK && r != HF_LOST && !may_be(w, r))
        t_fail("the release returned %s", hf_result_name(r));
}

/* ---- A worker's wait ------------------------------------------------------------------------- */

static hf_cancel *volatile cancel_on_alarm;

static void fire_cancel(int number) {
    (void)number;
    hf_cancel_fire(cancel_on_alarm);
}

static void cancel_after(int64_t us) {
    struct itimerval timer = {.it_value = {.tv_usec = (suseconds_t)us}};
    (void)setitimer(ITIMER_REAL, &timer, NULL);
}

static hf_options draw_kind(torture_worker *w, hf_options o) {
    if (w->t->kinds) o.kind = (uint32_t)draw_number(&w->rand, 5);
    if (o.kind == HF_PERMITS) o.capacity = CAPACITY;
    if (o.kind == HF_PERMITS) o.permits = (uint32_t)draw_between(w, 1, CAPACITY);
    return o;
}

static hf_options draw_options(torture_worker *w) {
    static const int64_t waits[] = {0, 0, 1, 5, 30, 300, 2000};
    if (w->t->calm)
        return draw_kind(
            w, (hf_options){.wait_ms = draw_chance(w, 20) ? draw_between(w, 1, 5) : HF_FOREVER});
    hf_options o = {.wait_ms = waits[draw_number(&w->rand, sizeof waits / sizeof *waits)],
                    .lease_ms = draw_between(w, 200, 1500)};
    if (draw_chance(w, 15)) o.flags |= HF_NO_RENEW;
    if (draw_chance(w, 10)) o.max_hold_ms = draw_between(w, 50, 300);
    if (draw_chance(w, 10)) o.owner = (uint64_t)draw_between(w, 1, 2);
    return draw_kind(w, o);
}

static void acquire_once(torture_worker *w) {
    hf_options o = draw_options(w);
    hf_hold *hold = NULL;
    char name[8];
    int n = w->t->calm ? 0 : (int)draw_number(&w->rand, NAMES);
    snprintf(name, sizeof name, "n%d", n);
    if (draw_chance(w, 25)) {
        o.wait_ms = HF_FOREVER;
        o.cancel = cancel_on_alarm = hf_cancel_new();
        cancel_after(draw_between(w, 1, 60000));
    }
    hf_result r = hf_acquire(w->client, name, &o, &hold);
    cancel_after(0);
    atomic_fetch_add(&w->t->results[r], 1);
    if (r == HF_OK)
        be_inside(w, n, name, &o, hold);
    else if (r != HF_BUSY && r != HF_TIMEOUT && r != HF_CANCELLED && !may_be(w, r) &&
             !came_late(w, r))
        t_fail("the acquire returned %s: %s", hf_result_name(r), hf_error_detail());
    hf_cancel_free(o.cancel);
}

static void break_one(torture_worker *w) {
    hf_info *info = NULL;
    char name[8];
    snprintf(name, sizeof name, "n%d", (int)draw_number(&w->rand, NAMES));
    T_HF(HF_OK, hf_inspect(w->client, name, &info));
    hf_result r = info->token ? hf_break(w->client, name, info->token) : HF_OK;
    if (r != HF_OK && r != HF_NOT_HELD && r != HF_UNKNOWN_OUTCOME)
        t_fail("the break returned %s: %s", hf_result_name(r), hf_error_detail());
    hf_info_free(info);
}

static void open_client(torture_worker *w) {
    T_HF(HF_OK, hf_open(w->t->url, &(hf_client_options){.command_timeout_ms = 200}, &w->client));
}

static int run_worker(void *arg) {
    torture_worker *w = arg;
    (void)signal(SIGALRM, fire_cancel);
    (void)signal(SIGCHLD, SIG_IGN);
    open_client(w);
    while (!atomic_load(&w->t->over)) {
        acquire_once(w);
        if (!w->t->calm && draw_chance(w, 2)) break_one(w);
        if (draw_chance(w, 5)) {
            hf_close(w->client);
            open_client(w);
        }
    }
    hf_close(w->client);
    return 0;
}

/* ---- Faults ---------------------------------------------------------------------------------- */

typedef struct worker_slot {
    torture_worker worker;
    t_proc *proc;
    int64_t stopped_until; /* 0: it runs */
} worker_slot;

static void start_worker(torture *t, worker_slot *c, uint64_t *rand) {
    c->worker = (torture_worker){.t = t, .rand = draw_number(rand, UINT64_MAX) | 1};
    c->proc = t_proc_start(run_worker, &c->worker);
    c->stopped_until = 0;
}

static void kill_worker(torture *t, worker_slot *c, uint64_t *rand) {
    t_proc_kill(c->proc, SIGKILL);
    int status = t_proc_wait(c->proc, STUCK_MS);
    c->proc = NULL;
    if (status != 128 + SIGKILL) t_fail("a worker ended with status %d", status);
    start_worker(t, c, rand);
}

static void resume_worker(worker_slot *c) {
    t_proc_kill(c->proc, SIGCONT);
    c->stopped_until = 0;
}

static void wake_up(worker_slot *cells) {
    for (int i = 0; i < WORKERS; i++)
        if (cells[i].stopped_until && t_now_ms() >= cells[i].stopped_until)
            resume_worker(&cells[i]);
}

static void torment_worker(torture *t, worker_slot *c, uint64_t *rand) {
    uint64_t what = draw_number(rand, 1000);
    if (what < 12) {
        kill_worker(t, c, rand);
    } else if (!t->calm && what < 18 && !c->stopped_until) {
        /* Usually for a moment, sometimes past a lease. */
        t_proc_kill(c->proc, SIGSTOP);
        c->stopped_until = t_now_ms() + (int64_t)draw_number(rand, what < 13 ? 2000 : 60);
    }
}

static void end_workers(torture *t, worker_slot *cells) {
    atomic_store(&t->over, 1);
    for (int i = 0; i < WORKERS; i++)
        if (cells[i].stopped_until) resume_worker(&cells[i]);
    int failed = 0;
    for (int i = 0; i < WORKERS; i++) failed += t_proc_wait(cells[i].proc, STUCK_MS) != 0;
    assert_int_equal(failed, 0);
}

/* ---- Checks ---------------------------------------------------------------------------------- */

static int by_time(const void *a, const void *b) {
    const held_span *x = a, *y = b;
    if (x->name != y->name) return x->name - y->name;
    return x->from < y->from ? -1 : x->from > y->from;
}

static int span_count(const torture *t) {
    int count = atomic_load(&t->spanned);
    return count < SPANS_MAX ? count : SPANS_MAX;
}

static bool is_reader(const held_span *s) {
    return s->kind == HF_READ || s->kind == HF_UPGRADABLE;
}

static bool may_overlap(const held_span *a, const held_span *b) {
    if (a->kind == HF_PERMITS) return b->kind == HF_PERMITS;
    return is_reader(a) && is_reader(b) && (a->kind == HF_READ || b->kind == HF_READ);
}

static bool is_exclusive(const held_span *s) {
    return s->kind == HF_MUTEX || s->kind == HF_WRITE;
}

/* Spans that began before `s` and have not ended when it begins. */
typedef struct overlap {
    const held_span *spans[4 * WORKERS];
    int count;
    uint64_t last; /* the highest token of the exclusive ones */
} overlap;

static void check_span(overlap *b, const held_span *s) {
    uint32_t permits = s->kind == HF_PERMITS ? s->permits : 0;
    int kept = 0;
    for (int i = 0; i < b->count; i++) {
        const held_span *other = b->spans[i];
        /* over, or of the same hold */
        if (other->to <= s->from || other->token == s->token) continue;
        if (!may_overlap(s, other)) t_fail("two clients held n%d at the same time", s->name);
        permits += other->permits;
        b->spans[kept++] = other;
    }
    if (s->kind == HF_PERMITS && permits > CAPACITY)
        t_fail("more permits of n%d are held than there are", s->name);
    if (is_exclusive(s) && b->last > s->token)
        t_fail("a token of n%d is lower than an earlier one", s->name);
    if (is_exclusive(s)) b->last = s->token;
    T_CHECK(kept < 4 * WORKERS);
    b->spans[kept] = s;
    b->count = kept + 1;
}

static int check_spans(torture *t) {
    int count = span_count(t), held = 0;
    qsort(t->spans, (size_t)count, sizeof *t->spans, by_time);
    overlap b = {.count = 0};
    for (int i = 0; i < count; i++) {
        const held_span *s = &t->spans[i];
        if (!s->from) continue; /* killed before it wrote the span */
        if (b.count && b.spans[b.count - 1]->name != s->name) b = (overlap){.count = 0};
        check_span(&b, s);
        held++;
    }
    return held;
}

static void check_nobody_is_stuck(test_dir *p) {
    actor *fresh = actor_new(p, NULL);
    for (int i = 0; i < NAMES; i++) {
        actor_request q = {.action = do_acquire};
        snprintf(q.name, sizeof q.name, "n%d", i);
        assert_int_equal(t_queue_length(lock_path(p, q.name)), 0);
        IS(HF_OK, actor_do(fresh, &q));
    }
}

/* Counts how often the lock was free for as long as a waiter takes to check by itself. */
static int count_gaps(const torture *t) {
    int64_t last = 0;
    int gaps = 0;
    for (int i = 0; i < span_count(t); i++) { /* sorted by now */
        if (!t->spans[i].from) continue;
        gaps += last && t->spans[i].from - last >= LOOK_AGAIN_MS * 1000;
        if (t->spans[i].to > last) last = t->spans[i].to;
    }
    return gaps;
}

static uint64_t number_from(const char *variable, uint64_t otherwise) {
    const char *text = getenv(variable);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

static void run_torture(test_dir *p, torture *t, int64_t seconds) {
    worker_slot cells[WORKERS];
    uint64_t rand = number_from("HOLDFAST_TEST_SEED", (uint64_t)time(NULL)) | 1;
    printf("HOLDFAST_TEST_SEED=%llu\n", (unsigned long long)rand);
    alarm((unsigned)(seconds + t_patience(STUCK_MS) / 500));
    snprintf(t->url, sizeof t->url, "%s", url_with(p, "keep=20ms"));
    for (int i = 0; i < WORKERS; i++) start_worker(t, &cells[i], &rand);
    for (int64_t until = t_now_ms() + 1000 * seconds; t_now_ms() < until || span_count(t) < ENOUGH;
         t_sleep_ms(1)) {
        torment_worker(t, &cells[draw_number(&rand, WORKERS)], &rand);
        wake_up(cells);
    }
    end_workers(t, cells);
    int held = check_spans(t);
    printf("%d holds; %ld busy, %ld timeouts, %ld cancelled\n", held, t->results[HF_BUSY],
           t->results[HF_TIMEOUT], t->results[HF_CANCELLED]);
    assert_true(held > ENOUGH / 2);
    check_nobody_is_stuck(p);
}

static void B08_torture(void **state) {
    torture *t = t_shared_new(sizeof *t);
    run_torture(*state, t, (int64_t)number_from("HOLDFAST_TEST_SECONDS", SECONDS));
    t_shared_free(t, sizeof *t);
}

static void B16_torture_of_all_kinds(void **state) {
    torture *t = t_shared_new(sizeof *t);
    t->kinds = true;
    run_torture(*state, t, (int64_t)number_from("HOLDFAST_TEST_SECONDS", SECONDS));
    t_shared_free(t, sizeof *t);
}

/* The machine may be busy with other work once or twice. */
static void B20_killed_clients_cost_no_wake_up(void **state) {
    torture *t = t_shared_new(sizeof *t);
    t->calm = true;
    run_torture(*state, t, (int64_t)number_from("HOLDFAST_TEST_SECONDS", CALM_SECONDS));
    assert_in_range(count_gaps(t), 0, 2);
    t_shared_free(t, sizeof *t);
}

static void B20_killed_clients_of_any_kind_cost_no_wake_up(void **state) {
    torture *t = t_shared_new(sizeof *t);
    t->calm = t->kinds = true;
    run_torture(*state, t, (int64_t)number_from("HOLDFAST_TEST_SECONDS", CALM_SECONDS));
    assert_in_range(count_gaps(t), 0, 2);
    t_shared_free(t, sizeof *t);
}

static const struct CMUnitTest tests[] = {
    FILE_TEST(B08_torture),
    FILE_TEST(B16_torture_of_all_kinds),
    FILE_TEST(B20_killed_clients_cost_no_wake_up),
    FILE_TEST(B20_killed_clients_of_any_kind_cost_no_wake_up),
};

FILE_MAIN(tests)
