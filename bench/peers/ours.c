/*
 * libholdfast, driven as bench/peers/README.md says. One client for all threads of the process, as its
 * documentation advises, unless clients=each; holds are renewed by its keeper. With calls=async the workers are no
 * threads but calls that do not block, each of which begins the next.
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
    int64_t asking, acquired, releasing, released;
} turn;

typedef struct worker {
    const options *o;
    hf_client *client;
    int number;
    int64_t until;
    char name[NAME_MAX_BYTES];
    turn *turns;
    size_t count, room;
    pthread_t thread;
    turn now;    /* of calls that do not block */
    sem_t *done; /* told by those, at the end */
} worker;

static void fail(const char *what) {
    fprintf(stderr, "ours: %s\n", what);
    exit(1);
}

static hf_client *open_client(const options *o) {
    hf_client *client;
    if (hf_open(o->url, NULL, &client) != HF_OK) fail(hf_error_detail());
    return client;
}

static hf_hold *acquire(hf_client *client, const char *name) {
    hf_hold *hold;
    if (hf_lock(client, name, &hold) != HF_OK) fail(hf_error_detail());
    return hold;
}

static void release(hf_hold *hold) {
    if (hf_release(hold) != HF_OK) fail(hf_error_detail());
}

static void note(worker *w, turn t) {
    if (w->count == w->room) {
        w->room = w->room ? 2 * w->room : 4096;
        w->turns = realloc(w->turns, w->room * sizeof *w->turns);
        if (!w->turns) fail("out of memory");
    }
    w->turns[w->count++] = t;
}

/* A hold is up to a quarter longer than said, by what the clock says at the time. */
static void hold_for(int ms) {
    if (ms) usleep((useconds_t)ms * 1000 + (useconds_t)(b_now() / 1000 % (250 * ms)));
}

/* ---- Workers that are threads ---- */

static void *work(void *arg) {
    worker *w = arg;
    const options *o = w->o;
    while (b_now() < w->until) {
        turn t = {.asking = b_now()};
        hf_hold *hold = acquire(w->client, w->name);
        t.acquired = b_now();
        hold_for(o->hold_ms);
        t.releasing = b_now();
        release(hold);
        t.released = b_now();
        note(w, t);
        if (o->pause_ms) usleep((useconds_t)o->pause_ms * 1000);
    }
    return NULL;
}

static void run_threads(worker *crew, int count) {
    for (int i = 0; i < count; i++)
        if (pthread_create(&crew[i].thread, NULL, work, &crew[i])) fail("no more threads");
    for (int i = 0; i < count; i++) pthread_join(crew[i].thread, NULL);
}

/* ---- Workers that are calls, one after the other: neither hold nor pause ---- */

static void on_acquired(hf_result result, hf_hold *hold, void *arg);

static void begin_turn(worker *w) {
    const hf_options forever = {.wait_ms = HF_FOREVER};
    w->now = (turn){.asking = b_now()};
    if (w->now.asking >= w->until)
        sem_post(w->done);
    else if (hf_acquire_async(w->client, w->name, &forever, on_acquired, w) != HF_OK)
        fail(hf_error_detail());
}

static void on_released(hf_result result, void *arg) {
    worker *w = arg;
    if (result != HF_OK) fail(hf_error_detail());
    w->now.released = b_now();
    note(w, w->now);
    begin_turn(w);
}

static void on_acquired(hf_result result, hf_hold *hold, void *arg) {
    worker *w = arg;
    if (result != HF_OK) fail(hf_error_detail());
    w->now.acquired = w->now.releasing = b_now();
    if (hf_release_async(hold, on_released, w) != HF_OK) fail(hf_error_detail());
}

static void run_calls(worker *crew, int count) {
    sem_t done;
    sem_init(&done, 0, 0);
    for (int i = 0; i < count; i++) {
        crew[i].done = &done;
        begin_turn(&crew[i]);
    }
    for (int i = 0; i < count; i++) sem_wait(&done);
}

/* ---- What they have done ---- */

static void write_down(const options *o, const worker *crew) {
    FILE *out = fopen(o->out, "w");
    if (!out) fail("cannot write the records");
    for (int i = 0; i < o->workers; i++)
        for (size_t k = 0; k < crew[i].count; k++) {
            turn t = crew[i].turns[k];
            fprintf(out, "%d %lld %lld %lld %lld\n", i, (long long)t.asking, (long long)t.acquired,
                    (long long)t.releasing, (long long)t.released);
        }
    if (fclose(out)) fail("cannot write the records");
}

/* The workers, each with the client it is to use. */
static worker *assemble(const options *o, hf_client *client) {
    worker *crew = calloc((size_t)o->workers, sizeof *crew);
    if (!crew) fail("out of memory");
    for (int i = 0; i < o->workers; i++) {
        worker *w = &crew[i];
        *w =
            (worker){.o = o, .client = i && o->clients_each ? open_client(o) : client, .number = i};
        if (o->one_name)
            snprintf(w->name, sizeof w->name, "%s", o->name);
        else
            snprintf(w->name, sizeof w->name, "%s:%d", o->name, i);
    }
    return crew;
}

static void run(const options *o, worker *crew) {
    int64_t until = b_now() + (int64_t)(o->seconds * 1e9);
    for (int i = 0; i < o->workers; i++) crew[i].until = until;
    (o->async ? run_calls : run_threads)(crew, o->workers);
    write_down(o, crew);
}

static void next_line(void) {
    char line[64];
    if (!fgets(line, sizeof line, stdin)) exit(0);
}

static void say(const char *word) {
    puts(word);
    fflush(stdout);
}

static void hold_many(const options *o, hf_client *client) {
    char name[NAME_MAX_BYTES];
    for (int i = 0; i < o->locks; i++) {
        snprintf(name, sizeof name, "%s:%d", o->name, i);
        acquire(client, name);
    }
    say("held");
    next_line();
}

/* One word of the command line: key=value. */
static void understand(options *o, const char *word) {
    const char *value = strchr(word, '=');
    if (!value) fail("usage: peer key=value...");
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
    for (int i = 1; i < argc; i++) understand(&o, argv[i]);
    hf_client *client = open_client(&o);
    worker *crew = assemble(&o, client);
    snprintf(warm, sizeof warm, "warm:%ld", (long)getpid());
    release(acquire(client, warm));
    say("ready");
    next_line();
    if (o.holds)
        hold_many(&o, client);
    else
        run(&o, crew);
    fflush(stdout);
    _exit(0);
}
