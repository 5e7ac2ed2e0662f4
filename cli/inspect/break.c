/*
 * holdfast break: take a lock away from its holder. Whom that is, is shown before; and it is broken by
 * its token, so that whoever has it by then instead keeps it.
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

#include "common/args.h"
#include "common/common.h"
#include "common/exits.h"
#include "common/say.h"
#include "common/show.h"
#include "common/span.h"
#include "common/store.h"
#include "holdfast.h"

#define ANSWER 16 /* bytes of it */

enum { YES = COMMON_OWN, TOKEN };

typedef struct arguments {
    char *store;
    const char *name;
    bool yes;
    uint64_t token; /* 0: whoever holds it */
} arguments;

/* ---- Asking ---- */

static void describe(char *text, size_t size, const hf_info *info) {
    char who[SHOW_TEXT / 2], span[SPAN_TEXT];
    show_holder(who, sizeof who, info);
    snprintf(text, size, "%s%s, for %s, token %" PRIu64, who,
             info->holders > 1 ? ", one of several" : "", span_text(show_held_ms(info), span),
             info->token);
}

/* A line is read byte by byte: what follows it is not ours. */
static bool agreed(void) {
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

/* 0: do it. */
static int ask(const arguments *a, const hf_info *info) {
    char text[SHOW_TEXT];
    if (!a->yes) say_set(NORMAL); /* who asks says what about */
    describe(text, sizeof text, info);
    say("%s is held by %s", a->name, text);
    if (info->waiting) say("%" PRIu32 " wait for it; the first of them gets it", info->waiting);
    if (a->yes) return 0;
    if (!isatty(STDIN_FILENO))
        return usage_error("break", "nothing was broken: there is no terminal to ask on; --yes "
                                    "breaks it without asking");
    fprintf(stderr, "The holder may still be at work. Break it? [y/N] ");
    if (agreed()) return 0;
    return fail(EXIT_CONFLICT, "nothing was broken");
}

/* ---- Breaking ---- */

static int break_it(const arguments *a, hf_client *client, uint64_t token) {
    hf_result r = hf_break(client, a->name, token);
    if (r == HF_OK) {
        say("%s was broken; who held it is told, at its next renewal at the latest", a->name);
        return 0;
    }
    if (r == HF_NOT_HELD)
        return fail(EXIT_CONFLICT, "%s is no longer held by that one, and nothing was broken: %s",
                    a->name, hf_error_detail());
    return fail(exit_of(r), "cannot break %s: %s", a->name, hf_error_detail());
}

static int look_and_break(const arguments *a, hf_client *client) {
    hf_info *info;
    if (a->token && a->yes) return break_it(a, client, a->token);
    hf_result r = hf_inspect(client, a->name, &info);
    if (r) return fail(exit_of(r), "cannot look at %s: %s", a->name, hf_error_detail());
    uint64_t token = info->token;
    int code = 0;
    if (!info->held)
        code = fail(EXIT_CONFLICT, "nobody holds %s", a->name);
    else if (a->token && a->token != token && info->holders == 1)
        code = fail(EXIT_CONFLICT, "%s is held under token %" PRIu64 "; nothing was broken",
                    a->name, token);
    else
        code = ask(a, info);
    hf_info_free(info);
    return code ? code : break_it(a, client, a->token ? a->token : token);
}

static int open_and_break(const arguments *a, const store *s) {
    hf_client *client;
    int code = store_open(s, &client);
    if (code) return code;
    code = look_and_break(a, client);
    hf_close(client);
    return code;
}

/* ---- The command line ---- */

static int parse_token(arguments *a, const char *text) {
    char *end;
    errno = 0;
    a->token = strtoull(text, &end, 10);
    if (*text >= '0' && *text <= '9' && !*end && !errno && a->token) return ARGS_GO_ON;
    return usage_error("break", "--token %s is no token: holdfast status shows it", WORD(text));
}

static int parse(arguments *a, int argc, char **argv) {
    static const struct option options[] = {{"store", required_argument, NULL, 'S'},
                                            {"yes", no_argument, NULL, YES},
                                            {"token", required_argument, NULL, TOKEN},
                                            {"quiet", no_argument, NULL, 'q'},
                                            {"verbose", no_argument, NULL, COMMON_VERBOSE},
                                            {"help", no_argument, NULL, COMMON_HELP},
                                            {0}};
    int c, code = ARGS_GO_ON;
    while (code == ARGS_GO_ON && (c = getopt_long(argc, argv, ":S:qyh", options, NULL)) != -1) {
        if (c == YES || c == 'y')
            a->yes = true;
        else if (c == TOKEN)
            code = parse_token(a, optarg);
        else
            code = common_option("break", c, argv, &a->store);
    }
    return code == ARGS_GO_ON ? common_name("break", argc, argv, &a->name) : code;
}

int break_main(int argc, char **argv) {
    arguments a = {0};
    store s;
    int code = parse(&a, argc, argv);
    if (code != ARGS_GO_ON) return code;
    code = store_choose(&s, a.store);
    if (!code) code = open_and_break(&a, &s);
    store_fini(&s);
    return code;
}
