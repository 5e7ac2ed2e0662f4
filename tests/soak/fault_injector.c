/* SPDX-License-Identifier: Apache-2.0 */
/* See fault_injector.h. Choices come from rand(), seeded with the run's seed. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "fault_injector.h"
#include "worker.h"

enum { AWAY_MS = 2000, STOP_MS = 2500, CLIENT_STOP_MS = 8000, END_MS = 20000 };

static int draw_number(int below) {
    return rand() % below;
}

T_PRINTF(2, 3) static void log_fault(fault_injector *d, const char *format, ...) {
    va_list args;
    fprintf(d->log, "%9.1f s  ", (double)(t_now_ms() - d->began_ms) / 1000);
    va_start(args, format);
    vfprintf(d->log, format, args);
    va_end(args);
    fprintf(d->log, "\n");
    fflush(d->log);
}

static const char *name_of(int store) {
    return store == SOAK_KEPT ? "kept" : "wiped";
}

/* ---- Servers --------------------------------------------------------------------------------- */

static void wipe_begins(fault_injector *d, int store) {
    if (store == SOAK_WIPED) atomic_fetch_add(&d->s->wipes[store], 1);
}

static void wipe_ended(fault_injector *d, int store) {
    if (store == SOAK_WIPED) atomic_fetch_add(&d->s->wipes[store], 1);
}

/* F22, F23 */
static void kill_server(fault_injector *d, int store) {
    int ms = draw_number(2) ? draw_number(AWAY_MS) : 0;
    log_fault(d, "%s: killed, back in %d ms", name_of(store), ms);
    wipe_begins(d, store);
    t_redis_kill9(d->servers[store]);
    t_sleep_ms(ms);
    t_redis_restart(d->servers[store]);
    wipe_ended(d, store);
}

/* F17, F30 */
static void stop_server(fault_injector *d, int store) {
    int ms = 50 + draw_number(STOP_MS);
    log_fault(d, "%s: stopped for %d ms", name_of(store), ms);
    t_redis_stop(d->servers[store]);
    t_sleep_ms(ms);
    t_redis_cont(d->servers[store]);
}

/* F29 */
static void forget_scripts(fault_injector *d, int store) {
    log_fault(d, "%s: SCRIPT FLUSH", name_of(store));
    freeReplyObject(t_redis_cmd(d->servers[store], "SCRIPT FLUSH"));
}

/* F12, F14, F56 */
static void end_connections(fault_injector *d, int store) {
    const char *type = draw_number(2) ? "normal" : "pubsub";
    int64_t ended = t_redis_int(d->servers[store], "CLIENT KILL TYPE %s SKIPME yes", type);
    log_fault(d, "%s: ended %d connections of type %s", name_of(store), (int)ended, type);
}

/* F25: flush the server that may lose its data; stop the other one. */
static void flush_server(fault_injector *d, int store) {
    if (store != SOAK_WIPED) {
        stop_server(d, store);
        return;
    }
    log_fault(d, "%s: FLUSHALL", name_of(store));
    wipe_begins(d, store);
    freeReplyObject(t_redis_cmd(d->servers[store], "FLUSHALL"));
    wipe_ended(d, store);
}

/* ---- Processes ------------------------------------------------------------------------------- */

static void set_dead(fault_injector *d, int process, bool dead) {
    for (int i = 0; i < SOAK_THREADS; i++) {
        int slot = process * SOAK_THREADS + i;
        ledger_set_dead(&d->s->ledger, slot, dead);
        atomic_store(&d->s->waiting_since_ms[slot], 0);
    }
}

void fault_start_worker(fault_injector *d, int process) {
    static worker_options options;
    options = (worker_options){.s = d->s, .process = process};
    set_dead(d, process, false);
    atomic_store(&d->s->processes[process].beat_ms, t_now_ms());
    d->workers[process] = t_proc_start(worker_run, &options);
}

/* F46: a process that will be killed is removed from the ledger first; its files are free at
   once. */
static void kill_worker(fault_injector *d, int store) {
    int process = SOAK_PROCESSES - 1 - draw_number(SOAK_MORTAL);
    (void)store;
    log_fault(d, "process %d: killed and replaced", process);
    set_dead(d, process, true);
    t_proc_kill(d->workers[process], SIGKILL);
    (void)t_proc_wait(d->workers[process], END_MS);
    fault_start_worker(d, process);
}

/* F3: sometimes for longer than a lease. */
static void stop_worker(fault_injector *d, int store) {
    int process = draw_number(SOAK_PROCESSES), ms = 100 + draw_number(CLIENT_STOP_MS);
    (void)store;
    log_fault(d, "process %d: stopped for %d ms", process, ms);
    t_proc_kill(d->workers[process], SIGSTOP);
    t_sleep_ms(ms);
    t_proc_kill(d->workers[process], SIGCONT);
}

typedef void deed_fn(fault_injector *d, int store);

void fault_inject(fault_injector *d) {
    static deed_fn *const all[] = {kill_server,     kill_server,     stop_server,  forget_scripts,
                                   end_connections, end_connections, flush_server, kill_worker,
                                   kill_worker,     stop_worker,     stop_worker};
    all[draw_number((int)(sizeof all / sizeof *all))](d, draw_number(2));
    d->done++;
}
