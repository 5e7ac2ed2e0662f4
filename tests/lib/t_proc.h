/*
 * Other processes and other threads, each with a deadline.
 *
 * A t_proc child runs a function as a cmocka test of its own, so assert_… and t_fail work in it:
 * they end it with T_PROC_FAILED. What it prints comes back through a pipe and is shown when it
 * ended with neither 0 nor SIGKILL. It is killed with its parent. What it has to tell it writes to
 * memory from t_shared_new.
 *
 * Threads do not survive a fork: a child reaches a proxy or a fake of its parent by its port, but
 * cannot control it. Under ThreadSanitizer it can start no thread if its parent had any.
 *
 * Start children from the main thread: the kernel ties "killed with its parent" to the thread that
 * forked, and would kill the child when that thread ends.
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

/* The exit status, or 128 + the signal that ended it; frees the handle. A late one is killed, and
   the test fails. */
int t_proc_wait(t_proc *proc, int64_t deadline_ms);

/* Run a function in a child that must fail (t_fail, assert_…, abort) and say `text` as it does. */
void t_proc_expect_failure(t_proc_fn *fn, void *arg, const char *text);

/* Send a signal to a child of ours; after SIGSTOP wait until it has stopped. */
void t_proc_signal(pid_t pid, int signal_number);

/* In a child that was just forked: be killed when `parent` dies. False: it is dead already. */
bool t_proc_die_with(pid_t parent);
void t_proc_require_main_thread(const char *what);

/* Zeroed memory that forked children share; use atomics in it. */
void *t_shared_new(size_t size);
void t_shared_free(void *memory, size_t size);

/* n threads that run fn(0, arg) to fn(n - 1, arg), let go at once when all have started. */
typedef struct t_threads t_threads;
typedef void t_thread_fn(int index, void *arg);

t_threads *t_threads_start(int n, t_thread_fn *fn, void *arg);
void t_threads_join(t_threads *threads, int64_t deadline_ms); /* frees the handle */
void t_threads_run(int n, t_thread_fn *fn, void *arg, int64_t deadline_ms);

/* How many of them have ended by now. */
int t_threads_ended(t_threads *threads);

#endif
