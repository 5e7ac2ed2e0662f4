/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the tests of faults. Each test uses only holdfast.h, on a real server of its own. It
 * also checks the server directly. A test's name begins with the number of the fault (F) or
 * behaviour (B) that it shows.
 *
 * Times: every wait has a deadline, whose only purpose is to give up (T_WAIT_UNTIL). Leases that
 * must last are stretched by t_patience, as those deadlines are, so a slow machine does not lose
 * them. Assertions about time say "not before"; the few that say "before" allow several seconds.
 *
 * A program takes an optional argument: the pattern of the tests to run.
 */
#ifndef HF_FAULT_H
#define HF_FAULT_H

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "front.h"
#include "t.h"

/* The lock that most tests use, and its keys. */
#define LOCK  "lock"
#define KEY   "hf:{lock}"
#define FENCE "hf:{lock}:f"

enum {
    SOON_MS = 5000,  /* long enough for anything that must happen */
    BED_CLIENTS = 8, /* open at the same time, per test */
    BED_ATTEMPTS = 8
};

#define UNTIL(condition) T_WAIT_UNTIL(condition, SOON_MS)

/* ---- A test's server, network and clients ---------------------------------------------------- */

typedef struct loss {
    atomic_int calls; /* of on_lost */
} loss;

/* An acquire in its own thread, and so with its own owner. */
typedef struct attempt {
    hf_client *client;
    const char *name;
    hf_options options;
    const hf_hold *rival; /* NULL, or a hold that must have ended when this one is granted */
    t_threads *thread;
    /* after attempt_end */
    hf_result result;
    hf_hold *hold;
    int32_t rival_held; /* when the acquire returned */
    int64_t took_ms;
    char detail[256];
} attempt;

typedef struct bed {
    t_redis *redis;
    t_proxy *proxy; /* NULL before the first bed_through */
    t_fake *fake;
    hf_client *clients[BED_CLIENTS];
    attempt attempts[BED_ATTEMPTS];
    int attempted;
    loss loss;
} bed;

/* Set-up and tear-down of each test. The initial state is a t_redis_options, NULL for the defaults;
   BED_BARE starts no server. */
int bed_up(void **state);
int bed_down(void **state);
extern const t_redis_options BED_BARE;

#define FAULT_TEST(fn) \
    { #fn, fn, bed_up, bed_down, NULL }
#define FAULT_TEST_ON(fn, options) \
    { #fn, fn, bed_up, bed_down, (void *)(uintptr_t)(options) }

#define FAULT_MAIN(tests)                                         \
    int main(int argc, char **argv) {                             \
        fault_begin(argc, argv);                                  \
        return cmocka_run_group_tests(tests, fault_chosen, NULL); \
    }
void fault_begin(int argc, char **argv);
int fault_chosen(void **state);

/* Clients are closed at the end of the test, unless bed_close did it before. NULL options: the
   defaults. */
hf_client *bed_open(bed *b, const char *url, const hf_client_options *options);
hf_client *bed_direct(bed *b);
void bed_close(bed *b, hf_client *client);

/* A client through the proxy, which is started on first use. When this returns, the server knows
   the scripts and has answered everything the client sent. So the next answer belongs to the test's
   request. */
hf_client *bed_through(bed *b, const hf_client_options *options);

/* Appends an option to a URL. Valid until the next call. */
const char *with_option(const char *url, const char *format, ...) T_PRINTF(2, 3);

/* A callback for an acquire's on_lost, with &bed->loss. */
void count_loss(hf_hold *hold, void *arg);

void set_config(bed *b, const char *name, const char *value);

/* Runs a script until it is killed. The server answers nothing for `silent_ms`, then -BUSY. */
t_threads *slow_script_start(bed *b, int64_t silent_ms);
void slow_script_kill(bed *b, t_threads *script);

/* ---- Acquiring and releasing ----------------------------------------------------------------- */

/* Acquires LOCK, which must succeed. The arguments are fields of hf_options. */
#define TAKE(client, ...) \
    acquire_or_fail((client), LOCK, &(hf_options){__VA_ARGS__}, __FILE__, __LINE__)
hf_hold *acquire_or_fail(hf_client *client, const char *name, const hf_options *options,
                         const char *file, int line);

#define FREE(hold) T_HF(HF_OK, hf_release(hold))

/* Acquires LOCK, which must fail with `expected`. */
#define REFUSED(expected, client, ...)                                                       \
    do {                                                                                     \
        hf_hold *refused_ = NULL;                                                            \
        T_HF((expected), hf_acquire((client), LOCK, &(hf_options){__VA_ARGS__}, &refused_)); \
        assert_null(refused_);                                                               \
    } while (0)

/* Acquires LOCK in a thread. attempt_sent returns once the proxy has the request. A rival must live
   until attempt_end. */
attempt *attempt_start(bed *b, hf_client *client, const hf_options *options);
attempt *attempt_against(bed *b, hf_client *client, const hf_options *options,
                         const hf_hold *rival);
attempt *attempt_sent(bed *b, hf_client *client, const hf_options *options);

/* Waits until it returns, with the expected result. Returns its hold. */
hf_hold *attempt_end(attempt *a, hf_result expected);

/* ---- Observing ------------------------------------------------------------------------------- */

hf_stats stats_of(hf_client *client);

/* The server's view of LOCK: whether it is held, its token, its remaining time. */
bool on_server(bed *b);
uint64_t server_token(bed *b);
int64_t server_ttl_ms(bed *b);

/* True if the server's lease is longer than at the last call, which means it was renewed. */
bool ttl_grew(bed *b, int64_t *last_ms);

/* How often the server ran a command since calls_reset, including calls from scripts. */
int64_t call_count(bed *b, const char *command);
void calls_reset(bed *b);

/* Whether the descriptor becomes readable in time. */
bool becomes_readable(int fd);
bool is_readable(int fd);

/* The hold is valid, here and on the server, under its original token. */
void check_held(bed *b, const hf_hold *hold);

/* Checks that the loss was reported once in every way, with `why` in the reason. Then releases the
   hold, which must return HF_LOST. */
void check_lost(bed *b, hf_hold *hold, const char *why);

/* The detail of the last failure contains `part`. */
void check_detail(const char *part);

#endif
