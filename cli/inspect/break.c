/* SPDX-License-Identifier: Apache-2.0 */
/*
 * holdfast break: take a lock away from its holder. The holder is shown first. Only a hold with
 * the token of that holder is broken, so that a later holder keeps the lock.
 */
#include "inspect/break.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/duration.h"
#include "common/exit_codes.h"
#include "common/message.h"
#include "common/options.h"
#include "common/show.h"
#include "common/store.h"
#include "holdfast.h"

#define ANSWER 16 /* bytes of the answer */

enum { YES = COMMON_OWN, TOKEN };

typedef struct break_args {
    char *store;
    const char *name;
    bool yes;
    uint64_t token; /* 0: any holder */
} break_args;

/* ---- Confirmation ---- */

static void describe_holder(char *text, size_t size, const hf_info *info) {
    char who[SHOW_TEXT / 2], duration[DURATION_TEXT];
    show_holder(who, sizeof who, info);
    snprintf(text, size, "%s%s, for %s, token %" PRIu64, who,
             info->holders > 1 ? ", one of several" : "",
             duration_text(show_held_ms(info), duration), info->token);
}

/* Reads byte by byte, because input after the line does not belong to us. */
static bool read_yes(void) {
    char answer[ANSWER] = "", c;
    size_t length = 0;
    for (;;) {
        ssize_t n = read(STDIN_FILENO, &c, 1);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0 || c == '\n') break;
        if (length < sizeof answer - 1) answer[length++] = c;
    }
    return !strcasecmp(answer, "y") || !strcasecmp(answer, "yes");
}

/* Returns 0 to break the lock, or the exit code. */
static int confirm_break(const break_args *a, const hf_info *info) {
    char text[SHOW_TEXT];
    if (!a->yes) set_verbosity(NORMAL); /* the question must be visible */
    describe_holder(text, sizeof text, info);
    print_message("%s is held by %s", a->name, text);
    if (info->waiting)
        print_message("%" PRIu32 " waiting; the first of them gets the lock", info->waiting);
    if (a->yes) return 0;
    if (!isatty(STDIN_FILENO))
        return usage_error("break", "nothing was broken: there is no terminal to ask on; use --yes "
                                    "to break the lock without asking");
    fprintf(stderr, "The holder may still be working. Break the lock? [y/N] ");
    if (read_yes()) return 0;
    return fail(EXIT_CONFLICT, "nothing was broken");
}

/* ---- Breaking ---- */

static int break_hold(const break_args *a, hf_client *client, uint64_t token) {
    hf_result r = hf_break(client, a->name, token);
    if (r == HF_OK) {
        print_message("%s was broken; its holder notices by its next renewal", a->name);
        return 0;
    }
    int code = r == HF_NOT_HELD ? EXIT_CONFLICT : exit_code_of(r);
    return fail(code, "cannot break %s: %s", a->name, hf_error_detail());
}

static int inspect_and_break(const break_args *a, hf_client *client) {
    hf_info *info;
    if (a->token && a->yes) return break_hold(a, client, a->token);
    hf_result r = hf_inspect(client, a->name, &info);
    if (r) return fail(exit_code_of(r), "cannot inspect %s: %s", a->name, hf_error_detail());
    uint64_t token = info->token;
    int code = 0;
    if (!info->held)
        code = fail(EXIT_CONFLICT, "nobody holds %s", a->name);
    else if (a->token && a->token != token && info->holders == 1)
        code = fail(EXIT_CONFLICT, "nothing was broken: %s is held with token %" PRIu64, a->name,
                    token);
    else
        code = confirm_break(a, info);
    hf_info_free(info);
    return code ? code : break_hold(a, client, a->token ? a->token : token);
}

static int open_store_and_break(const break_args *a, const store *s) {
    hf_client *client;
    int code = store_open(s, &client);
    if (code) return code;
    code = inspect_and_break(a, client);
    hf_close(client);
    return code;
}

/* ---- The command line ---- */

static int parse_token(break_args *a, const char *text) {
    char *end;
    errno = 0;
    a->token = strtoull(text, &end, 10);
    if (*text >= '0' && *text <= '9' && !*end && !errno && a->token) return ARGS_CONTINUE;
    return usage_error("break", "--token %s is not a token; holdfast status shows the token",
                       WORD(text));
}

static int parse_break_args(break_args *a, int argc, char **argv) {
    static const struct option options[] = {{"store", required_argument, NULL, 'S'},
                                            {"yes", no_argument, NULL, YES},
                                            {"token", required_argument, NULL, TOKEN},
                                            {"quiet", no_argument, NULL, 'q'},
                                            {"verbose", no_argument, NULL, COMMON_VERBOSE},
                                            {"help", no_argument, NULL, COMMON_HELP},
                                            {0}};
    int c, code = ARGS_CONTINUE;
    while (code == ARGS_CONTINUE && (c = getopt_long(argc, argv, ":S:qyh", options, NULL)) != -1) {
        if (c == YES || c == 'y')
            a->yes = true;
        else if (c == TOKEN)
            code = parse_token(a, optarg);
        else
            code = common_option("break", c, argv, &a->store);
    }
    return code == ARGS_CONTINUE ? common_name("break", argc, argv, &a->name) : code;
}

int break_main(int argc, char **argv) {
    break_args a = {0};
    store s;
    int code = parse_break_args(&a, argc, argv);
    if (code != ARGS_CONTINUE) return code;
    code = store_choose(&s, a.store);
    if (!code) code = open_store_and_break(&a, &s);
    store_fini(&s);
    return code;
}
