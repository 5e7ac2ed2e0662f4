/* SPDX-License-Identifier: Apache-2.0 */
#include "run/run_args.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "base/url.h"
#include "common/duration.h"
#include "common/exit_codes.h"
#include "common/message.h"
#include "common/options.h"
#include "common/store.h"
#include "help.h"
#include "holdfast.h"
#include "run/json_events.h"

/* Long options that have no short form. */
enum {
    LEASE = 256,
    GRACE,
    PERMITS,
    ALSO,
    MIN_HOLD,
    MAX_HOLD,
    ON_WAIT,
    ON_ACQUIRE,
    ON_LOST,
    LABEL,
    JSON,
    METRICS,
    VERBOSE_OPTION,
    HELP
};

/* ---- Values ---- */

static int parse_conflict_code(run_args *a, const char *text) {
    char *end;
    errno = 0;
    long n = strtol(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || n > 255)
        return usage_error("run", "--conflict-exit-code %s is not a number from 0 to 255",
                           WORD(text));
    a->conflict_code = (int)n;
    return ARGS_CONTINUE;
}

static int parse_max_hold(run_args *a, const char *text) {
    if (duration_parse(text, &a->max_hold_ms) && a->max_hold_ms >= HF_LEASE_MIN_MS &&
        a->max_hold_ms <= HF__SPAN_MAX_MS)
        return ARGS_CONTINUE;
    return usage_error("run", "--max-hold %s is not a time of at least 50ms", WORD(text));
}

static int parse_min_hold(run_args *a, const char *text) {
    int code = common_duration("run", "--min-hold", text, &a->min_hold_ms);
    if (code != ARGS_CONTINUE || a->min_hold_ms <= HF__SPAN_MAX_MS) return code;
    return usage_error("run", "--min-hold %s is too long", WORD(text));
}

static int parse_on_lost(run_args *a, const char *text) {
    if (on_lost_parse(&a->lost, text)) return ARGS_CONTINUE;
    return usage_error("run", "--on-lost %s is not a signal; use a signal, `continue` or a command",
                       WORD(text));
}

static int parse_label(run_args *a, const char *text) {
    a->label = text;
    if (strlen(text) <= HF__LABEL_MAX) return ARGS_CONTINUE;
    return usage_error("run", "--label %s... is longer than %d bytes", WORD(text), HF__LABEL_MAX);
}

static int parse_json(run_args *a, const char *text) {
    char *end;
    errno = 0;
    long n = strtol(text, &end, 10);
    if (*text >= '0' && *text <= '9' && !*end && !errno && n < 65536 && events_check_fd((int)n)) {
        a->json = (int)n;
        return ARGS_CONTINUE;
    }
    return usage_error("run",
                       "--json %s is not a file descriptor open for writing; try --json 3 3>FILE",
                       WORD(text));
}

/* The last of -s, -x and --permits wins, as in flock. */
static int set_kind(run_args *a, uint32_t kind) {
    a->kind = kind;
    a->permits = a->capacity = 0;
    return ARGS_CONTINUE;
}

static bool parse_count(const char **text, uint32_t *count) {
    char *end;
    errno = 0;
    unsigned long n = strtoul(*text, &end, 10);
    if (**text < '0' || **text > '9' || errno || n < 1 || n > HF_PERMITS_MAX) return false;
    *text = end;
    *count = (uint32_t)n;
    return true;
}

/* N/M, or M for 1/M. */
static int parse_permits(run_args *a, const char *text) {
    const char *at = text;
    set_kind(a, HF_PERMITS);
    a->permits = 1;
    bool good = parse_count(&at, &a->capacity);
    if (good && *at == '/') {
        at++;
        a->permits = a->capacity;
        good = parse_count(&at, &a->capacity);
    }
    if (good && !*at && a->permits <= a->capacity) return ARGS_CONTINUE;
    return usage_error("run",
                       "--permits %s is not valid; use N/M for N of M permits, with M at most %d",
                       WORD(text), HF_PERMITS_MAX);
}

/* names[0] is reserved for NAME, which is parsed last. */
static int add_name(run_args *a, const char *name) {
    if (a->name_count == HF_NAMES_MAX)
        return usage_error("run", "--also %s is one too many; the maximum is %d names", WORD(name),
                           HF_NAMES_MAX);
    a->names[a->name_count++] = name;
    return ARGS_CONTINUE;
}

/* ---- The command line ---- */

/* Uses $SHELL, like flock(1). */
static void set_shell_command(run_args *a, char *text) {
    char *shell = getenv("SHELL");
    static char sh[] = "/bin/sh", dash_c[] = "-c";
    a->shell[0] = shell && *shell ? shell : sh;
    a->shell[1] = dash_c;
    a->shell[2] = text;
    a->shell[3] = NULL;
    a->command = a->shell;
}

static int parse_run_option(run_args *a, int c, char *value) {
    switch (c) {
    case 'S': return store_option(value, &a->store);
    case 'n': a->tries_once = true; return ARGS_CONTINUE;
    case 'w': return common_wait("run", value, &a->wait_ms);
    case 'E': return parse_conflict_code(a, value);
    case 'x': return set_kind(a, HF_MUTEX);
    case 's': return set_kind(a, HF_READ);
    case PERMITS: return parse_permits(a, value);
    case ALSO: return add_name(a, value);
    case 'c': set_shell_command(a, value); return ARGS_CONTINUE;
    case LEASE: return common_lease("run", value, &a->lease_ms);
    case GRACE: return common_duration("run", "--grace", value, &a->grace_ms);
    case MIN_HOLD: return parse_min_hold(a, value);
    case MAX_HOLD: return parse_max_hold(a, value);
    case ON_LOST: return parse_on_lost(a, value);
    case LABEL: return parse_label(a, value);
    case ON_WAIT: a->on_wait = value; return ARGS_CONTINUE;
    case ON_ACQUIRE: a->on_acquire = value; return ARGS_CONTINUE;
    case JSON: return parse_json(a, value);
    case METRICS: a->metrics = value; return ARGS_CONTINUE;
    case 'q': set_verbosity(QUIET); return ARGS_CONTINUE;
    case VERBOSE_OPTION: set_verbosity(VERBOSE); return ARGS_CONTINUE;
    default: return help_show("run");
    }
}

/* Words after NAME belong to the command, except `--` and `-c` directly after it. */
static int parse_command_words(run_args *a, char **words) {
    bool shell = *words && (strcmp(*words, "-c") == 0 || strcmp(*words, "--command") == 0);
    if (a->command) {
        if (!*words) return ARGS_CONTINUE;
        return usage_error("run", "use either -c or COMMAND, not both; unexpected argument \"%s\"",
                           WORD(*words));
    }
    if (shell) {
        if (!words[1]) return usage_error("run", "option %s needs a value", *words);
        if (words[2]) return usage_error("run", "-c takes one argument; quote the whole command");
        set_shell_command(a, words[1]);
        return ARGS_CONTINUE;
    }
    bool dashes = *words && strcmp(*words, "--") == 0;
    if (dashes && !words[1]) return usage_error("run", "the COMMAND after -- is missing");
    words += dashes;
    if (*words) a->command = words;
    return ARGS_CONTINUE;
}

/* Rejects combinations that contradict each other. */
static int check_combinations(run_args *a) {
    if (a->tries_once && a->wait_ms > 0)
        return usage_error("run", "use either -n or -w, not both: -n does not wait, -w does");
    if (a->tries_once) a->wait_ms = 0;
    if (!a->command && (a->min_hold_ms || a->lost.continues || a->lost.signal))
        return usage_error("run", "%s needs a COMMAND",
                           a->min_hold_ms ? "--min-hold" : "--on-lost with a signal or `continue`");
    if (a->max_hold_ms && a->min_hold_ms > a->max_hold_ms)
        return usage_error("run", "--min-hold is longer than --max-hold");
    return ARGS_CONTINUE;
}

int run_args_parse(run_args *a, int argc, char **argv) {
    static const struct option options[] = {{"store", required_argument, NULL, 'S'},
                                            {"nonblock", no_argument, NULL, 'n'},
                                            {"wait", required_argument, NULL, 'w'},
                                            {"timeout", required_argument, NULL, 'w'},
                                            {"conflict-exit-code", required_argument, NULL, 'E'},
                                            {"exclusive", no_argument, NULL, 'x'},
                                            {"shared", no_argument, NULL, 's'},
                                            {"permits", required_argument, NULL, PERMITS},
                                            {"also", required_argument, NULL, ALSO},
                                            {"command", required_argument, NULL, 'c'},
                                            {"lease", required_argument, NULL, LEASE},
                                            {"grace", required_argument, NULL, GRACE},
                                            {"min-hold", required_argument, NULL, MIN_HOLD},
                                            {"max-hold", required_argument, NULL, MAX_HOLD},
                                            {"on-lost", required_argument, NULL, ON_LOST},
                                            {"on-wait", required_argument, NULL, ON_WAIT},
                                            {"on-acquire", required_argument, NULL, ON_ACQUIRE},
                                            {"label", required_argument, NULL, LABEL},
                                            {"json", required_argument, NULL, JSON},
                                            {"metrics", required_argument, NULL, METRICS},
                                            {"quiet", no_argument, NULL, 'q'},
                                            {"verbose", no_argument, NULL, VERBOSE_OPTION},
                                            {"help", no_argument, NULL, HELP},
                                            {0}};
    *a = (run_args){.name_count = 1,
                    .wait_ms = HF_FOREVER,
                    .grace_ms = -1,
                    .conflict_code = EXIT_CONFLICT,
                    .json = -1};
    int c;
    while ((c = getopt_long(argc, argv, "+:S:nw:E:xsc:qh", options, NULL)) != -1) {
        int code =
            c == ':' || c == '?' ? args_bad_option("run", c, argv) : parse_run_option(a, c, optarg);
        if (code != ARGS_CONTINUE) return code;
    }
    a->names[0] = argv[optind];
    if (!a->names[0]) return usage_error("run", "the NAME of the lock is missing");
    int code = parse_command_words(a, argv + optind + 1);
    return code == ARGS_CONTINUE ? check_combinations(a) : code;
}
