/*
 * holdfast wait: wait until a lock is free, and take nothing. It looks again and again: who only looks
 * stands in no line, and is told nothing.
 */
#include "inspect/wait.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/time.h"
#include "common/args.h"
#include "common/common.h"
#include "common/exits.h"
#include "common/say.h"
#include "common/show.h"
#include "common/store.h"
#include "holdfast.h"

#define LOOK_FIRST_MS 20
#define LOOK_MOST_MS  500
#define OUTAGE_MS     10000 /* how long a store that is away is waited for */

typedef struct arguments {
    char *store;
    const char *name;
    int64_t wait_ms;
} arguments;

typedef struct watch {
    const arguments *args;
    const store *store;
    hf_client *client;
    hf__time until, trouble_since; /* 0: there is none */
    int64_t pause_ms;
    bool said;
} watch;

static void pause_ms(int64_t ms) {
    struct timespec span = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    while (nanosleep(&span, &span) != 0) continue;
}

/* A while that grows, but not past the end of the lease, which may be that of one who died. */
static void pause_between(watch *w, int64_t remaining_ms, hf__time now) {
    int64_t ms = w->pause_ms, left = w->until == HF__NEVER ? ms : (w->until - now) / HF__MS + 1;
    if (remaining_ms > 0 && remaining_ms < ms) ms = remaining_ms + 1;
    if (left < ms) ms = left;
    if (ms > 0) pause_ms(ms);
    if ((w->pause_ms *= 2) > LOOK_MOST_MS) w->pause_ms = LOOK_MOST_MS;
}

static int timed_out(const watch *w) {
    char command[SHOW_TEXT];
    show_command(command, sizeof command, "status", w->store, w->args->name);
    return fail(EXIT_CONFLICT, "%s was not free in time; who holds it: %s", w->args->name, command);
}

static void say_once(watch *w, const hf_info *info) {
    char who[SHOW_TEXT];
    if (w->said) return;
    w->said = true;
    show_holder(who, sizeof who, info);
    say_more("%s is held by %s", w->args->name, who);
}

/* ARGS_GO_ON: it is held, or that is not known at the moment. */
static int look(watch *w) {
    hf_info *info;
    int64_t remaining = 0;
    hf_result r = hf_inspect(w->client, w->args->name, &info);
    hf__time now = hf__now();
    if (!r) {
        bool held = info->held;
        remaining = info->remaining_ms;
        if (held) say_once(w, info);
        hf_info_free(info);
        w->trouble_since = 0;
        if (!held) return 0;
    } else {
        if (!w->trouble_since) w->trouble_since = now;
        bool over =
            r != HF_UNREACHABLE || now >= w->until || now - w->trouble_since > OUTAGE_MS * HF__MS;
        if (over)
            return fail(exit_of(r), "cannot look at %s: %s", w->args->name, hf_error_detail());
    }
    if (now >= w->until) return timed_out(w);
    pause_between(w, remaining, now);
    return ARGS_GO_ON;
}

static int wait_for(const arguments *a, const store *s) {
    watch w = {.args = a,
               .store = s,
               .until = hf__after_ms(hf__now(), a->wait_ms),
               .pause_ms = LOOK_FIRST_MS};
    int code = store_open(s, &w.client);
    if (code) return code;
    do code = look(&w);
    while (code == ARGS_GO_ON);
    hf_close(w.client);
    return code;
}

static int parse(arguments *a, int argc, char **argv) {
    static const struct option options[] = {{"store", required_argument, NULL, 'S'},
                                            {"wait", required_argument, NULL, 'w'},
                                            {"timeout", required_argument, NULL, 'w'},
                                            {"quiet", no_argument, NULL, 'q'},
                                            {"verbose", no_argument, NULL, COMMON_VERBOSE},
                                            {"help", no_argument, NULL, COMMON_HELP},
                                            {0}};
    int c, code = ARGS_GO_ON;
    while (code == ARGS_GO_ON && (c = getopt_long(argc, argv, ":S:w:qh", options, NULL)) != -1)
        code = c == 'w' ? common_wait("wait", optarg, &a->wait_ms)
                        : common_option("wait", c, argv, &a->store);
    return code == ARGS_GO_ON ? common_name("wait", argc, argv, &a->name) : code;
}

int wait_main(int argc, char **argv) {
    arguments a = {.wait_ms = HF_FOREVER};
    store s;
    int code = parse(&a, argc, argv);
    if (code != ARGS_GO_ON) return code;
    code = store_choose(&s, a.store);
    if (!code) code = wait_for(&a, &s);
    store_fini(&s);
    return code;
}
