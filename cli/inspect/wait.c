/* SPDX-License-Identifier: Apache-2.0 */
/*
 * holdfast wait: wait until a lock is free, without taking it. It polls, because a client that is
 * not in the queue gets no notification.
 */
#include "inspect/wait.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/time.h"
#include "common/exit_codes.h"
#include "common/message.h"
#include "common/options.h"
#include "common/show.h"
#include "common/store.h"
#include "holdfast.h"

#define POLL_FIRST_MS 20
#define POLL_MOST_MS  500
#define OUTAGE_MS     10000 /* how long to wait for a store that cannot be reached */

typedef struct wait_args {
    char *store;
    const char *name;
    int64_t wait_ms;
} wait_args;

typedef struct wait_state {
    const wait_args *args;
    const store *store;
    hf_client *client;
    hf__time until, trouble_since; /* 0: there is none */
    int64_t pause_ms;
    bool announced;
} wait_state;

static void sleep_ms(int64_t ms) {
    struct timespec interval = {.tv_sec = (time_t)(ms / 1000),
                                .tv_nsec = (long)(ms % 1000) * 1000000};
    while (nanosleep(&interval, &interval) != 0) continue;
}

/* Sleeps longer each time, but not past the end of the lease: if the holder is dead, the lock is
   free then. */
static void sleep_between_polls(wait_state *w, int64_t remaining_ms, hf__time now) {
    int64_t ms = w->pause_ms, left = w->until == HF__NEVER ? ms : (w->until - now) / HF__MS + 1;
    if (remaining_ms > 0 && remaining_ms < ms) ms = remaining_ms + 1;
    if (left < ms) ms = left;
    if (ms > 0) sleep_ms(ms);
    if ((w->pause_ms *= 2) > POLL_MOST_MS) w->pause_ms = POLL_MOST_MS;
}

static int fail_timed_out(const wait_state *w) {
    char command[SHOW_TEXT];
    show_command(command, sizeof command, "status", w->store, w->args->name);
    return fail(EXIT_CONFLICT, "%s was not free in time; to see who holds it, run: %s",
                w->args->name, command);
}

static void print_holder_once(wait_state *w, const hf_info *info) {
    char who[SHOW_TEXT];
    if (w->announced) return;
    w->announced = true;
    show_holder(who, sizeof who, info);
    print_verbose("%s is held by %s", w->args->name, who);
}

/* Returns ARGS_CONTINUE while the lock is held or its state is unknown. */
static int check_lock(wait_state *w) {
    hf_info *info;
    int64_t remaining = 0;
    hf_result r = hf_inspect(w->client, w->args->name, &info);
    hf__time now = hf__now();
    if (!r) {
        bool held = info->held;
        remaining = info->remaining_ms;
        if (held) print_holder_once(w, info);
        hf_info_free(info);
        w->trouble_since = 0;
        if (!held) return 0;
    } else {
        if (!w->trouble_since) w->trouble_since = now;
        bool over =
            r != HF_UNREACHABLE || now >= w->until || now - w->trouble_since > OUTAGE_MS * HF__MS;
        if (over)
            return fail(exit_code_of(r), "cannot inspect %s: %s", w->args->name, hf_error_detail());
    }
    if (now >= w->until) return fail_timed_out(w);
    sleep_between_polls(w, remaining, now);
    return ARGS_CONTINUE;
}

static int wait_until_free(const wait_args *a, const store *s) {
    wait_state w = {.args = a,
                    .store = s,
                    .until = hf__after_ms(hf__now(), a->wait_ms),
                    .pause_ms = POLL_FIRST_MS};
    int code = store_open(s, &w.client);
    if (code) return code;
    do code = check_lock(&w);
    while (code == ARGS_CONTINUE);
    hf_close(w.client);
    return code;
}

static int parse_wait_args(wait_args *a, int argc, char **argv) {
    static const struct option options[] = {{"store", required_argument, NULL, 'S'},
                                            {"wait", required_argument, NULL, 'w'},
                                            {"timeout", required_argument, NULL, 'w'},
                                            {"quiet", no_argument, NULL, 'q'},
                                            {"verbose", no_argument, NULL, COMMON_VERBOSE},
                                            {"help", no_argument, NULL, COMMON_HELP},
                                            {0}};
    int c, code = ARGS_CONTINUE;
    while (code == ARGS_CONTINUE && (c = getopt_long(argc, argv, ":S:w:qh", options, NULL)) != -1)
        code = c == 'w' ? common_wait("wait", optarg, &a->wait_ms)
                        : common_option("wait", c, argv, &a->store);
    return code == ARGS_CONTINUE ? common_name("wait", argc, argv, &a->name) : code;
}

int wait_main(int argc, char **argv) {
    wait_args a = {.wait_ms = HF_FOREVER};
    store s;
    int code = parse_wait_args(&a, argc, argv);
    if (code != ARGS_CONTINUE) return code;
    code = store_choose(&s, a.store);
    if (!code) code = wait_until_free(&a, &s);
    store_fini(&s);
    return code;
}
