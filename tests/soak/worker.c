/* SPDX-License-Identifier: Apache-2.0 */
/* See worker.h. */
#include "worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "leftovers.h"
#include "soak_thread.h"
#include "t_hf.h"
#include "t_proc.h"
#include "t_time.h"

enum {
    PAUSE_MS = 8000, /* between two visits, at most: the load stays modest */
    REOPEN_ONE_IN = 80,
    OBSERVE_ONE_IN = 4, /* of the processes: each change costs each of them a request */
    BEAT_MS = 1000,
    OPEN_RETRY_MS = 200,
    OPEN_MAX_MS = 60000,
    END_MS = 90000
};

typedef struct soak_worker {
    soak *s;
    int process;
    hf_client *clients[SOAK_CLIENTS];
    soak_thread threads[SOAK_THREADS];
    atomic_ullong led; /* the highest token of a leader that the observer has seen */
} soak_worker;

/* Of twelve clients seven use the store that keeps its data, three the other, and two files. */
static int store_of(int client) {
    return client < 7 ? SOAK_KEPT : client < 10 ? SOAK_WIPED : SOAK_FILE;
}

/* Retries, because a server may be away. */
static hf_client *open_client(soak *s, int client) {
    hf_client *opened = NULL;
    for (int64_t end_ms = t_now_ms() + OPEN_MAX_MS; t_now_ms() < end_ms;) {
        if (hf_open(s->urls[store_of(client)], NULL, &opened) == HF_OK) return opened;
        t_sleep_ms(OPEN_RETRY_MS);
    }
    t_fail("cannot open a client: %s", hf_error_detail());
}

/* ---- Leaders --------------------------------------------------------------------------------- */

/* Leaders are reported in order, and a value is never reported with the token of another leader. */
static void check_leader(const hf_leader_info *leader, void *arg) {
    soak_worker *w = arg;
    atomic_fetch_add(&w->s->counts.changes, 1);
    if (!leader) return;
    if (leader->token < atomic_load(&w->led))
        soak_violated(w->s, "observer of process %d: token %llu after a higher one", w->process,
                      (unsigned long long)leader->token);
    atomic_store(&w->led, leader->token);
    if (strcmp(leader->value, "new") != 0 && strtoull(leader->value, NULL, 10) != leader->token)
        soak_violated(w->s, "observer: `%s` was reported with token %llu", leader->value,
                      (unsigned long long)leader->token);
}

/* ---- Threads --------------------------------------------------------------------------------- */

/* Threads that own their client close it now and then, and open another. */
static void reopen_client(soak_worker *w, int index) {
    soak_thread *m = &w->threads[index];
    hf_close(m->client);
    m->client = w->clients[index] = open_client(w->s, index);
    atomic_fetch_add(&w->s->counts.reopened, 1);
}

static void run_thread(int index, void *arg) {
    soak_worker *w = arg;
    soak_thread *m = &w->threads[index];
    bool counts = index == 0 && w->process < SOAK_GATES;
    bool own = index >= SOAK_THREADS - SOAK_CLIENTS && index < SOAK_CLIENTS;
    while (!atomic_load(&w->s->stopping)) {
        t_sleep_ms(thread_chance(m, PAUSE_MS));
        if (counts) thread_count_round(m, w->process);
        thread_visit(m);
        if (own && !thread_chance(m, REOPEN_ONE_IN)) reopen_client(w, index);
    }
}

static void start_thread(soak_worker *w, int index) {
    int client = index % SOAK_CLIENTS, slot = w->process * SOAK_THREADS + index;
    w->threads[index] = (soak_thread){.s = w->s,
                                      .client = w->clients[client],
                                      .store = store_of(client),
                                      .process = w->process,
                                      .index = index,
                                      .slot = slot,
                                      .chance = w->s->seed * 7919U + (unsigned)slot * 104729U +
                                                (unsigned)t_now_us()};
}

/* ---- The process ----------------------------------------------------------------------------- */

/* Includes arenas of threads that have ended. */
static void report_heap(soak_worker *w) {
    soak_process *p = &w->s->processes[w->process];
    atomic_store(&p->heap, leftovers_heap());
    atomic_store(&p->beat_ms, t_now_ms());
    t_sleep_ms(BEAT_MS);
}

int worker_run(void *arg) {
    static soak_worker w;
    const worker_options *options = arg;
    hf_observer *observer = NULL;
    char name[SOAK_NAME_ROOM];
    w.s = options->s;
    w.process = options->process;
    atomic_store(&w.s->processes[w.process].closed, false);
    leftovers_begin();
    for (int i = 0; i < SOAK_CLIENTS; i++) w.clients[i] = open_client(w.s, i);
    for (int i = 0; i < SOAK_THREADS; i++) start_thread(&w, i);
    (void)soak_name(SOAK_KEPT, SOAK_LEAD, 0, name);
    if (w.process % OBSERVE_ONE_IN == 0)
        T_HF(HF_OK, hf_observe(w.clients[0], name, check_leader, &w, &observer));
    t_threads *threads = t_threads_start(SOAK_THREADS, run_thread, &w);
    while (t_threads_ended(threads) < SOAK_THREADS) report_heap(&w);
    t_threads_join(threads, END_MS);
    hf_unobserve(observer);
    for (int i = 0; i < SOAK_CLIENTS; i++) hf_close(w.clients[i]);
    for (int i = 0; i < SOAK_THREADS; i++) stay_forget(&w.threads[i]);
    leftovers_end(&w.s->processes[w.process]);
    return 0;
}
