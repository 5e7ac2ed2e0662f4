/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lostupdate PLACE [SECONDS [SEED]]: five processes update a register under one lock with a lease
 * of 2 s. Each is stopped about every 5 s for longer than the lease (F2, F3). After Jepsen's test
 * of etcd's locks.
 *
 * Each process reads the register, checks that it holds the lock, computes for a while, and writes.
 * A process that was stopped in between writes late, over updates that others made meanwhile: no
 * lease can prevent that. A register that checks tokens refuses the late write.
 *
 * The run fails if the checking register loses an acknowledged update, if two processes were inside
 * at once by their own deadlines, or if tokens do not grow.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "run.h"
#include "t.h"

enum {
    EVERY_MS = 5000,
    FOR_MS = LEASE_MS + 500, /* at least */
    FOR_MORE_MS = 3000,
    END_MS = 60000
};

static const place *chosen;
static int seconds = 120;
static unsigned seed;

/* ---- Stopping -------------------------------------------------------------------------------- */

typedef struct stop_victim {
    t_proc *process;
    bool stopped;
    int64_t next_ms; /* when to stop it, or to continue it */
    int stops;
} stop_victim;

static int64_t random_around(int ms) {
    return ms / 2 + rand() % ms;
}

static void stop_or_continue(stop_victim *v, int64_t now) {
    if (now < v->next_ms) return;
    v->stopped = !v->stopped;
    v->stops += v->stopped;
    t_proc_kill(v->process, v->stopped ? SIGSTOP : SIGCONT);
    v->next_ms = now + (v->stopped ? FOR_MS + rand() % FOR_MORE_MS : random_around(EVERY_MS));
}

/* Returns how many times a process was stopped. */
static int stop_and_go(stop_victim *victims, int64_t until_ms) {
    int stops = 0;
    for (int64_t now; (now = t_now_ms()) < until_ms; t_sleep_ms(5))
        for (int i = 0; i < CLIENTS; i++) stop_or_continue(&victims[i], now);
    for (int i = 0; i < CLIENTS; i++) {
        if (victims[i].stopped) t_proc_kill(victims[i].process, SIGCONT);
        stops += victims[i].stops;
    }
    return stops;
}

/* ---- Results --------------------------------------------------------------------------------- */

static int by_begin(const void *a, const void *b) {
    const hold_span *x = a, *y = b;
    return (x->from_us > y->from_us) - (x->from_us < y->from_us);
}

/* The holds of all clients in order; freed by the caller. */
static hold_span *all_stays(const shared *s, int *count) {
    int n = 0;
    for (int i = 0; i < CLIENTS; i++) n += s->visitors[i].stays;
    hold_span *all = calloc((size_t)n + 1, sizeof *all);
    if (!all) t_fail("out of memory");
    *count = 0;
    for (int i = 0; i < CLIENTS; i++) {
        memcpy(all + *count, s->visitors[i].stay, (size_t)s->visitors[i].stays * sizeof *all);
        *count += s->visitors[i].stays;
    }
    qsort(all, (size_t)n, sizeof *all, by_begin);
    return all;
}

typedef struct figures {
    int holds, overlaps, backwards, lost, troubled, unsure, stops;
    uint32_t acknowledged[REGISTERS], missing[REGISTERS], refused;
} figures;

static void look_at_stays(const shared *s, figures *f) {
    hold_span *all = all_stays(s, &f->holds);
    int64_t end = 0;
    for (int i = 0; i < f->holds; i++) {
        f->overlaps += all[i].from_us < end;
        f->backwards += i > 0 && all[i].token <= all[i - 1].token;
        if (all[i].to_us > end) end = all[i].to_us;
    }
    free(all);
}

static figures figures_of(const shared *s, int stops) {
    figures f = {.stops = stops, .refused = s->registers[FENCED].refused};
    look_at_stays(s, &f);
    for (int i = 0; i < REGISTERS; i++) {
        f.acknowledged[i] = s->registers[i].versions;
        f.missing[i] = resource_lost(&s->registers[i]);
    }
    for (int i = 0; i < CLIENTS; i++) {
        f.lost += s->visitors[i].lost;
        f.troubled += s->visitors[i].troubled;
        f.unsure += s->visitors[i].unsure;
    }
    return f;
}

/* Prints one line that a script can parse. */
static void print_figures(const figures *f) {
    printf("place=%s seconds=%d seed=%u stops=%d holds=%d lost_holds=%d unsure=%d troubled=%d "
           "open_acknowledged=%u open_lost=%u fenced_acknowledged=%u fenced_lost=%u refused=%u "
           "overlaps=%d backwards=%d\n",
           chosen->name, seconds, seed, f->stops, f->holds, f->lost, f->unsure, f->troubled,
           f->acknowledged[OPEN], f->missing[OPEN], f->acknowledged[FENCED], f->missing[FENCED],
           f->refused, f->overlaps, f->backwards);
}

/* ---- The run --------------------------------------------------------------------------------- */

static shared *prepare_run(void) {
    shared *s = t_shared_new(sizeof *s);
    snprintf(s->url, sizeof s->url, "%s", chosen->start());
    for (int i = 0; i < CLIENTS; i++)
        T_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, s->sockets[i]) == 0);
    return s;
}

static void close_sockets(const shared *s) {
    for (int i = 0; i < CLIENTS; i++) {
        close(s->sockets[i][0]);
        close(s->sockets[i][1]);
    }
}

static figures run_place(shared *s) {
    static client_arg args[CLIENTS];
    stop_victim victims[CLIENTS];
    t_proc *resource = t_proc_start(resource_main, s);
    for (int i = 0; i < CLIENTS; i++) {
        args[i] = (client_arg){s, i};
        victims[i] = (stop_victim){.process = t_proc_start(client_main, &args[i]),
                                   .next_ms = t_now_ms() + random_around(EVERY_MS)};
    }
    close_sockets(s);
    int stops = stop_and_go(victims, t_now_ms() + 1000 * (int64_t)seconds);
    atomic_store(&s->over, true);
    for (int i = 0; i < CLIENTS; i++) assert_int_equal(t_proc_wait(victims[i].process, END_MS), 0);
    assert_int_equal(t_proc_wait(resource, END_MS), 0);
    return figures_of(s, stops);
}

static void F02_F03_no_update_is_lost_where_tokens_are_checked(void **state) {
    (void)state;
    shared *s = prepare_run();
    figures f = run_place(s);
    print_figures(&f);
    t_shared_free(s, sizeof *s);
    chosen->end();
    assert_true(f.stops > 0 && f.acknowledged[FENCED] > 0);
    assert_int_equal(f.missing[FENCED], 0);
    assert_int_equal(f.overlaps, 0);
    assert_int_equal(f.backwards, 0);
}

static void print_usage(void) {
    fprintf(stderr, "usage: lostupdate PLACE [SECONDS [SEED]]\nPLACE:");
    for (int i = 0; places[i].name; i++) fprintf(stderr, " %s", places[i].name);
    fprintf(stderr, "\n");
    exit(64);
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 0; argc > 1 && places[i].name; i++)
        if (!strcmp(argv[1], places[i].name)) chosen = &places[i];
    if (!chosen) print_usage();
    if (argc > 2) seconds = atoi(argv[2]);
    seed = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : (unsigned)time(NULL);
    srand(seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(F02_F03_no_update_is_lost_where_tokens_are_checked)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
