/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs code in other processes and threads, each with a deadline.
 *
 * A t_proc child runs a function as a cmocka test of its own. So assert_… and t_fail work in it:
 * they end it with T_PROC_FAILED. Its output comes back through a pipe, and is shown unless the
 * child ended with 0 or by SIGKILL. A child is killed when its parent dies. It returns results in
 * memory from t_shared_new.
 *
 * Threads do not survive a fork. A child can use its parent's proxy or fake server through its
 * port, but cannot control it. Under ThreadSanitizer a child cannot start threads if its parent has
 * any.
 *
 * Start children from the main thread. The kernel kills the child when the thread that forked it
 * ends.
 */
#ifndef T_PROC_H
#define T_PROC_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define T_PROC_FAILED 99

typedef struct t_proc t_proc;
typedef int t_proc_fn(void *arg); /* the exit status, 0 to 98 */

t_proc *t_proc_start(t_proc_fn *fn, void *arg);
pid_t t_proc_pid(const t_proc *proc);

/* After SIGSTOP it returns once the child has stopped. */
void t_proc_kill(t_proc *proc, int signal_number);

/* The exit status, or 128 + the signal that ended it. Frees the handle. At the deadline the
   child is killed, and the test fails. */
int t_proc_wait(t_proc *proc, int64_t deadline_ms);

/* Run a function in a child that must fail (t_fail, assert_…, abort) and print `text`. */
void t_proc_expect_failure(t_proc_fn *fn, void *arg, const char *text);

/* Send a signal to a child of this process. After SIGSTOP, wait until it has stopped. */
void t_proc_signal(pid_t pid, int signal_number);

/* For a child that was just forked: be killed when `parent` dies. False: it has already died. */
bool t_proc_die_with(pid_t parent);
void t_proc_require_main_thread(const char *what);

/* Zeroed memory that forked children share; use atomics in it. */
void *t_shared_new(size_t size);
void t_shared_free(void *memory, size_t size);

/* n threads that run fn(0, arg) to fn(n - 1, arg). They begin together, when all have started. */
typedef struct t_threads t_threads;
typedef void t_thread_fn(int index, void *arg);

t_threads *t_threads_start(int n, t_thread_fn *fn, void *arg);
void t_threads_join(t_threads *threads, int64_t deadline_ms); /* frees the handle */
void t_threads_run(int n, t_thread_fn *fn, void *arg, int64_t deadline_ms);

/* How many of the threads have ended. */
int t_threads_ended(t_threads *threads);

#endif
