/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libholdfast, driven as bench/peers/README.md says. All threads of the process share one client,
 * as the documentation advises, unless clients=each. The background thread renews holds. With
 * calls=async the workers are not threads but async calls, each of which starts the next.
 */
#include <holdfast.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "b_time.h"

#define NAME_MAX_BYTES 128

typedef struct options {
    const char *url, *name, *out;
    int workers, locks, hold_ms, pause_ms;
    bool holds, one_name, clients_each, async;
    double seconds;
} options;

typedef struct turn {
    int64_t requested, acquired, releasing, released;
} turn;

typedef struct peer_worker {
    const options *o;
    hf_client *client;
    int number;
    int64_t until;
    char name[NAME_MAX_BYTES];
    turn *turns;
    size_t count, room;
    pthread_t thread;
    turn now;    /* async calls only */
    sem_t *done; /* posted by async calls at the end */
} peer_worker;

static void fail_with(const char *what) {
    fprintf(stderr, "ours: %s\n", what);
    exit(1);
}

static hf_client *open_client(const options *o) {
    hf_client *client;
    if (hf_open(o->url, NULL, &client) != HF_OK) fail_with(hf_error_detail());
    return client;
}

static hf_hold *acquire_lock(hf_client *client, const char *name) {
    hf_hold *hold;
    if (hf_lock(client, name, &hold) != HF_OK) fail_with(hf_error_detail());
    return hold;
}

static void release_lock(hf_hold *hold) {
    if (hf_release(hold) != HF_OK) fail_with(hf_error_detail());
}

static void record_turn(peer_worker *w, turn t) {
    if (w->count == w->room) {
        w->room = w->room ? 2 * w->room : 4096;
        w->turns = realloc(w->turns, w->room * sizeof *w->turns);
        if (!w->turns) fail_with("out of memory");
    }
    w->turns[w->count++] = t;
}

/* A hold is up to a quarter longer than given; the clock serves as the random source. */
static void hold_for(int ms) {
    if (ms) usleep((useconds_t)ms * 1000 + (useconds_t)(b_now() / 1000 % (250 * ms)));
}

/* ---- Workers that are threads ---- */

static void *worker_main(void *arg) {
    peer_worker *w = arg;
    const options *o = w->o;
    while (b_now() < w->until) {
        turn t = {.requested = b_now()};
        hf_hold *hold = acquire_lock(w->client, w->name);
        t.acquired = b_now();
        hold_for(o->hold_ms);
        t.releasing = b_now();
        release_lock(hold);
        t.released = b_now();
        record_turn(w, t);
        if (o->pause_ms) usleep((useconds_t)o->pause_ms * 1000);
    }
    return NULL;
}

static void run_threads(peer_worker *crew, int count) {
    for (int i = 0; i < count; i++)
        if (pthread_create(&crew[i].thread, NULL, worker_main, &crew[i]))
            fail_with("no more threads");
    for (int i = 0; i < count; i++) pthread_join(crew[i].thread, NULL);
}

/* ---- Workers that are async calls, without hold or pause ---- */

static void on_acquired(hf_result result, hf_hold *hold, void *arg);

static void begin_turn(peer_worker *w) {
    const hf_options forever = {.wait_ms = HF_FOREVER};
    w->now = (turn){.requested = b_now()};
    if (w->now.requested >= w->until)
        sem_post(w->done);
    else if (hf_acquire_async(w->client, w->name, &forever, on_acquired, w) != HF_OK)
        fail_with(hf_error_detail());
}

static void on_released(hf_result result, void *arg) {
    peer_worker *w = arg;
    if (result != HF_OK) fail_with(hf_error_detail());
    w->now.released = b_now();
    record_turn(w, w->now);
    begin_turn(w);
}

static void on_acquired(hf_result result, hf_hold *hold, void *arg) {
    peer_worker *w = arg;
    if (result != HF_OK) fail_with(hf_error_detail());
    w->now.acquired = w->now.releasing = b_now();
    if (hf_release_async(hold, on_released, w) != HF_OK) fail_with(hf_error_detail());
}

static void run_calls(peer_worker *crew, int count) {
    sem_t done;
    sem_init(&done, 0, 0);
    for (int i = 0; i < count; i++) {
        crew[i].done = &done;
        begin_turn(&crew[i]);
    }
    for (int i = 0; i < count; i++) sem_wait(&done);
}

/* ---- Records ---- */

static void write_down(const options *o, const peer_worker *crew) {
    FILE *out = fopen(o->out, "w");
    if (!out) fail_with("cannot write the records");
    for (int i = 0; i < o->workers; i++)
        for (size_t k = 0; k < crew[i].count; k++) {
            turn t = crew[i].turns[k];
            fprintf(out, "%d %lld %lld %lld %lld\n", i, (long long)t.requested,
                    (long long)t.acquired, (long long)t.releasing, (long long)t.released);
        }
    if (fclose(out)) fail_with("cannot write the records");
}

/* Creates the workers, each with the client it uses. */
static peer_worker *make_workers(const options *o, hf_client *client) {
    peer_worker *crew = calloc((size_t)o->workers, sizeof *crew);
    if (!crew) fail_with("out of memory");
    for (int i = 0; i < o->workers; i++) {
        peer_worker *w = &crew[i];
        *w = (peer_worker){
            .o = o, .client = i && o->clients_each ? open_client(o) : client, .number = i};
        if (o->one_name)
            snprintf(w->name, sizeof w->name, "%s", o->name);
        else
            snprintf(w->name, sizeof w->name, "%s:%d", o->name, i);
    }
    return crew;
}

static void run_workers(const options *o, peer_worker *crew) {
    int64_t until = b_now() + (int64_t)(o->seconds * 1e9);
    for (int i = 0; i < o->workers; i++) crew[i].until = until;
    (o->async ? run_calls : run_threads)(crew, o->workers);
    write_down(o, crew);
}

static void next_line(void) {
    char line[64];
    if (!fgets(line, sizeof line, stdin)) exit(0);
}

static void print_word(const char *word) {
    puts(word);
    fflush(stdout);
}

static void hold_many(const options *o, hf_client *client) {
    char name[NAME_MAX_BYTES];
    for (int i = 0; i < o->locks; i++) {
        snprintf(name, sizeof name, "%s:%d", o->name, i);
        acquire_lock(client, name);
    }
    print_word("held");
    next_line();
}

/* Parses one word of the command line: key=value. */
static void parse_word(options *o, const char *word) {
    const char *value = strchr(word, '=');
    if (!value) fail_with("usage: peer key=value...");
    size_t length = (size_t)(value++ - word);
#define IS(key) (length == sizeof(key) - 1 && !memcmp(word, key, length))
    if (IS("url")) o->url = value;
    if (IS("name")) o->name = value;
    if (IS("out")) o->out = value;
    if (IS("mode")) o->holds = !strcmp(value, "hold");
    if (IS("names")) o->one_name = !strcmp(value, "one");
    if (IS("calls")) o->async = !strcmp(value, "async");
    if (IS("clients")) o->clients_each = !strcmp(value, "each");
    if (IS("workers")) o->workers = (int)strtol(value, NULL, 10);
    if (IS("locks")) o->locks = (int)strtol(value, NULL, 10);
    if (IS("hold_ms")) o->hold_ms = (int)strtol(value, NULL, 10);
    if (IS("pause_ms")) o->pause_ms = (int)strtol(value, NULL, 10);
    if (IS("seconds")) o->seconds = strtod(value, NULL);
#undef IS
}

int main(int argc, char **argv) {
    options o = {0};
    char warm[NAME_MAX_BYTES];
    for (int i = 1; i < argc; i++) parse_word(&o, argv[i]);
    hf_client *client = open_client(&o);
    peer_worker *crew = make_workers(&o, client);
    snprintf(warm, sizeof warm, "warm:%ld", (long)getpid());
    release_lock(acquire_lock(client, warm));
    print_word("ready");
    next_line();
    if (o.holds)
        hold_many(&o, client);
    else
        run_workers(&o, crew);
    fflush(stdout);
    _exit(0);
}
