/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the tests of the file store: a directory of locks for each test, and actors.
 *
 * An actor is a process with a client of its own. The test gives it one action at a time and gets
 * the result. The test can stop it, kill it, and look at the lock's file from outside (t_queue.h).
 * The test's own process has no client and no thread, so it may start actors at any time, under the
 * thread sanitizer too.
 *
 * A test's name begins with the number of the fault (F) or behaviour (B) that it shows. A program
 * takes an optional argument: the pattern of the tests to run.
 */
#ifndef HF_TEST_FILE_KIT_H
#define HF_TEST_FILE_KIT_H

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "t.h"

/* The lock that most tests use. */
#define LOCK "lock"

enum {
    SOON_MS = 10000, /* long enough for anything that must happen */
    ACTORS_MAX = 16,
    HOLDS_MAX = 8,
    PATH_SIZE = 2048,

    /* A waiter that gets no notification checks by itself, but not before LOOK_AGAIN_MS. A wait
       shorter than NOTIFIED_MS was notified. */
    LOOK_AGAIN_MS = 750,
    NOTIFIED_MS = 500,
    ROUNDS = 4 /* the quickest counts, because the machine may be busy */
};

#define UNTIL(condition) T_WAIT_UNTIL(condition, SOON_MS)

/* ---- A test's directory ---------------------------------------------------------------------- */

typedef struct actor actor;

typedef struct test_dir {
    char directory[64];
    char url[128];
    actor *actors[ACTORS_MAX];
} test_dir;

/* Set-up and tear-down of each test. */
int test_dir_set_up(void **state);
int test_dir_tear_down(void **state);

#define FILE_TEST(fn) cmocka_unit_test_setup_teardown(fn, test_dir_set_up, test_dir_tear_down)
#define FILE_MAIN(tests)                                      \
    int main(int argc, char **argv) {                         \
        file_begin(argc, argv);                               \
        return cmocka_run_group_tests(tests, file_all, NULL); \
    }
void file_begin(int argc, char **argv);
int file_all(void **state);

/* The path of a file in the directory, and of the file of a lock whose name needs no encoding. Each
   result has its own memory, valid for a few more calls. */
const char *path_of(const test_dir *p, const char *file);
const char *lock_path(const test_dir *p, const char *name);

/* The URL with options appended ("keep=1ms"); valid as long as a path. */
const char *url_with(const test_dir *p, const char *options);

/* Number of files whose name starts with `start`. */
int files_like(const test_dir *p, const char *start);

/* Removes the FIFOs of all clients. Running clients do not notice, because they have theirs
   open. */
void remove_fifos(const test_dir *p);

/* Removes a directory and everything in it. */
void remove_tree(const char *directory);

/* Skips the test, with a reason, if the process may not mount filesystems: only root may. */
void needs_mounts(void);

/* In a child: mounts that no other process sees, and a tmpfs there. */
void own_mounts(void);
void mount_tmpfs(const char *path, const char *options);

/* ---- Actions --------------------------------------------------------------------------------- */

typedef struct actor_state {
    hf_client *client;
    hf_hold *holds[HOLDS_MAX]; /* the last one is the one that most actions use */
    int held;
    hf_cancel *cancel; /* of every acquire; SIGUSR1 fires it */
} actor_state;

typedef struct actor_result {
    hf_result result;
    uint64_t token;
    int64_t number;
    int32_t lost; /* how often on_lost has been called */
    char detail[512];
} actor_result;

typedef struct actor_request actor_request;
typedef void actor_action(actor_state *me, const actor_request *q, actor_result *a);

struct actor_request {
    actor_action *action;
    char name[HF_NAME_MAX + 2];
    hf_options options; /* cancel and on_lost are the actor's own */
    uint64_t token;
    int64_t number;
};

/* hf_open (options.wait_ms: its command timeout), hf_close, hf_acquire, hf_release of the last
   hold, and so on. A release and a break begin after `number` microseconds. */
actor_action do_open, do_close, do_acquire, do_release, do_extend, do_inspect, do_break, do_stats;
actor_action do_held;  /* number: hf_held; lost */
actor_action do_until; /* wait until the last hold is lost and on_lost was called */

/* ---- Actors ---------------------------------------------------------------------------------- */

/* Starts an actor and opens its client. NULL: the URL of the test's directory. */
actor *actor_new(test_dir *p, const char *url);
pid_t actor_pid(const actor *a);

/* Starts an action; waits for its result. */
void actor_begin(actor *a, const actor_request *q);
actor_result actor_end(actor *a);
actor_result actor_do(actor *a, const actor_request *q);
bool actor_ended(actor *a);                       /* actor_end would not wait */
bool actor_survives(actor *a, actor_result *got); /* as actor_end; false: it was killed meanwhile */

/* With SIGKILL it also waits for the process to end. */
void actor_signal(actor *a, int signal_number);
void actor_kill(actor *a);

/* Waits until it ends by itself, with this status. */
void actor_leaves(actor *a, int status);

#define DO(a, fn, ...) actor_do((a), &(actor_request){.action = (fn), .name = LOCK, __VA_ARGS__})

/* The arguments are fields of hf_options. TAKES must succeed; TRIES returns the result. WAITS
   returns when the actor is queued; GETS waits for its grant. TAKES and GETS return the token. */
#define TRIES(a, ...) DO((a), do_acquire, .options = {__VA_ARGS__})
#define TAKES(a, ...) actor_takes((a), &(hf_options){__VA_ARGS__}, __FILE__, __LINE__)
#define WAITS(a, ...) actor_waits((a), &(hf_options){__VA_ARGS__})
#define GETS(a)       actor_gets((a), __FILE__, __LINE__)
#define FREES(a)      actor_says((a), do_release, HF_OK, __FILE__, __LINE__)

uint64_t actor_takes(actor *a, const hf_options *options, const char *file, int line);
void actor_waits(actor *a, const hf_options *options);
uint64_t actor_gets(actor *a, const char *file, int line);
void actor_says(actor *a, actor_action *what, hf_result expected, const char *file, int line);

/* Checks a result. Returns it. */
#define IS(expected, ...) answer_is((expected), (__VA_ARGS__), #__VA_ARGS__, __FILE__, __LINE__)
actor_result answer_is(hf_result expected, actor_result got, const char *what, const char *file,
                       int line);

/* Whether the actor's last hold is held. */
bool actor_holds(actor *a);

/* Checks that the loss was reported once in every way. Then releases the hold, which must return
   HF_LOST. */
void actor_lost(actor *a);

/* The detail is a message a user can act on, and contains `part`. */
void check_detail(const char *detail, const char *part);

#endif
