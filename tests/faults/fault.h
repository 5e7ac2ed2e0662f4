/*
 * What the tests of faults share. Each test runs on a real server of its own, through holdfast.h
 * alone, and looks at the server behind the library's back. Tests begin with the number of the
 * fault (F) or behaviour (B) that they show.
 *
 * Times: what a test waits for has a deadline that is only there to give up (T_WAIT_UNTIL). A
 * lease that must last is stretched by t_patience, as those deadlines are, so that a slow machine
 * does not lose it; what is asserted of time itself is only "not before".
 *
 * A program takes an optional argument, the pattern of the tests to run.
 */
#ifndef HF_FAULT_H
#define HF_FAULT_H

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "front.h"
#include "t.h"

/* The lock that most tests are about, and its keys. */
#define LOCK  "lock"
#define KEY   "hf:{lock}"
#define FENCE "hf:{lock}:f"

enum {
    SOON_MS = 5000,  /* whatever must happen has happened by then */
    BED_CLIENTS = 8, /* at once, of one test */
    BED_ATTEMPTS = 8
};

#define UNTIL(condition) T_WAIT_UNTIL(condition, SOON_MS)

/* ---- A test's server, network and clients ---------------------------------------------------- */

typedef struct loss {
    atomic_int calls; /* of on_lost */
} loss;

/* An acquire in a thread, and so of an owner, of its own. */
typedef struct attempt {
    hf_client *client;
    const char *name;
    hf_options options;
    const hf_hold *rival; /* NULL, or a hold that must be over when this one is granted */
    t_threads *thread;
    /* after attempt_end */
    hf_result result;
    hf_hold *hold;
    int32_t rival_held; /* as the acquire returned */
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

/* For the tables of tests: around each test. The state it begins with is a t_redis_options, NULL
   for the defaults; BED_BARE starts no server. */
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

/* Clients, closed at the end of the test unless bed_close did it before. NULL options: the
   defaults. */
hf_client *bed_open(bed *b, const char *url, const hf_client_options *options);
hf_client *bed_direct(bed *b);
void bed_close(bed *b, hf_client *client);

/* Through the proxy, which is started at need. The server knows the scripts by then, and has
   answered all that the client has sent: the next answer is to what the test does. */
hf_client *bed_through(bed *b, const hf_client_options *options);

/* An option behind a URL. Lives until the next call. */
const char *with_option(const char *url, const char *format, ...) T_PRINTF(2, 3);

/* Put it in an acquire's on_lost, with &bed->loss. */
void count_loss(hf_hold *hold, void *arg);

void set_config(bed *b, const char *name, const char *value);

/* A script that runs until it is killed. For `silent_ms` the server answers nobody, then -BUSY. */
t_threads *slow_script_start(bed *b, int64_t silent_ms);
void slow_script_kill(bed *b, t_threads *script);

/* ---- Acquiring and releasing ----------------------------------------------------------------- */

/* Acquire LOCK, which must succeed; the options are those of hf_options. */
#define TAKE(client, ...) take((client), LOCK, &(hf_options){__VA_ARGS__}, __FILE__, __LINE__)
hf_hold *take(hf_client *client, const char *name, const hf_options *options, const char *file,
              int line);

#define FREE(hold) T_HF(HF_OK, hf_release(hold))

/* The result of an acquire of LOCK that must not succeed. */
#define REFUSED(expected, client, ...)                                                       \
    do {                                                                                     \
        hf_hold *refused_ = NULL;                                                            \
        T_HF((expected), hf_acquire((client), LOCK, &(hf_options){__VA_ARGS__}, &refused_)); \
        assert_null(refused_);                                                               \
    } while (0)

/* Acquire LOCK in a thread; attempt_sent returns once the proxy has its request. A rival must live
   until attempt_end. */
attempt *attempt_start(bed *b, hf_client *client, const hf_options *options);
attempt *attempt_against(bed *b, hf_client *client, const hf_options *options,
                         const hf_hold *rival);
attempt *attempt_sent(bed *b, hf_client *client, const hf_options *options);

/* Wait for its end, which must be so. Returns its hold. */
hf_hold *attempt_end(attempt *a, hf_result expected);

/* ---- Looking --------------------------------------------------------------------------------- */

hf_stats stats_of(hf_client *client);

/* What the server has of LOCK: whether it is held, under which token, for how long. */
bool on_server(bed *b);
uint64_t server_token(bed *b);
int64_t server_ttl_ms(bed *b);

/* True once the server's lease is longer than when it was last asked: it was renewed meanwhile. */
bool ttl_grew(bed *b, int64_t *last_ms);

/* How often the server was called with a command, within scripts too, since calls_reset. */
int64_t calls(bed *b, const char *command);
void calls_reset(bed *b);

/* Whether a descriptor becomes readable in time. */
bool becomes_readable(int fd);
bool readable(int fd);

/* The hold is good, here and on the server, under the token it was taken with. */
void check_held(bed *b, const hf_hold *hold);

/* Told in every way there is, and told once; then released, which says HF_LOST. `why` is part of
   it. */
void check_lost(bed *b, hf_hold *hold, const char *why);

/* The last failure's detail has this in it. */
void check_detail(const char *part);

#endif
