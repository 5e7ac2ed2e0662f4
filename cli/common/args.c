#include "common/args.h"

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
#include "common/store.h"
#include "common/suggestion.h"
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

/* The long options that an unknown one may stand for. */
typedef struct option_matches {
    const char *word;
    size_t length;    /* of it, without a value */
    char begins[160]; /* those that begin with it, joined by commas */
    int count;
    suggestion near;
} option_matches;

static void collect_match(void *arg, const char *option, size_t length) {
    option_matches *m = arg;
    suggestion_offer(&m->near, option, length);
    if (length < m->length || strncmp(option, m->word, m->length) != 0) return;
    size_t used = strlen(m->begins);
    snprintf(m->begins + used, sizeof m->begins - used, "%s%.*s", used ? ", " : "", (int)length,
             option);
    m->count++;
}

static int fail_unknown_option(const char *subcommand, const char *word) {
    char hint[SUGGESTION_TEXT];
    option_matches m = {.word = word, .length = strcspn(word, "=")};
    suggestion_init(&m.near, word);
    help_long_options(subcommand, collect_match, &m);
    if (m.count > 1)
        return usage_error(subcommand, "option %.*s may be %s: write it out", (int)m.length, word,
                           m.begins);
    return usage_error(subcommand, "there is no option %.*s%s",
                       (int)(m.length > 40 ? 40 : m.length), word, suggestion_text(&m.near, hint));
}

/* getopt_long has said which option it stumbled over in optopt, or only by its place. */
int args_bad_option(const char *subcommand, int c, char **argv) {
    if (c == ':' && optopt < LEASE && optopt)
        return usage_error(subcommand, "option -%c needs a value", optopt);
    const char *word = argv[optind - 1];
    if (c == ':') return usage_error(subcommand, "option %s needs a value", word);
    if (optopt >= LEASE || (optopt && strncmp(word, "--", 2) == 0))
        return usage_error(subcommand, "option %.*s takes no value", (int)strcspn(word, "="), word);
    if (optopt) return usage_error(subcommand, "there is no option -%c", optopt);
    return fail_unknown_option(subcommand, word);
}

/* ---- Values ---- */

static int parse_duration(const char *option, const char *text, int64_t *ms) {
    if (duration_parse(text, ms)) return ARGS_CONTINUE;
    return usage_error("run", "%s %s is no time: write seconds, or 500ms, 30s, 5m, 2h", option,
                       WORD(text));
}

static int parse_wait(run_args *a, const char *text) {
    int code = parse_duration("--wait", text, &a->wait_ms);
    if (code != ARGS_CONTINUE || a->wait_ms <= HF__SPAN_MAX_MS) return code;
    return usage_error("run", "--wait %s is past counting; without it the wait has no end",
                       WORD(text));
}

static int parse_lease(run_args *a, const char *text) {
    if (duration_parse(text, &a->lease_ms) && a->lease_ms >= HF_LEASE_MIN_MS &&
        a->lease_ms <= HF_LEASE_MAX_MS)
        return ARGS_CONTINUE;
    return usage_error("run", "--lease %s is no time from 50ms to 720h (30 days)", WORD(text));
}

static int parse_conflict_code(run_args *a, const char *text) {
    char *end;
    errno = 0;
    long n = strtol(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || n > 255)
        return usage_error("run", "--conflict-exit-code %s is no number from 0 to 255", WORD(text));
    a->conflict_code = (int)n;
    return ARGS_CONTINUE;
}

static int parse_max_hold(run_args *a, const char *text) {
    if (duration_parse(text, &a->max_hold_ms) && a->max_hold_ms >= HF_LEASE_MIN_MS &&
        a->max_hold_ms <= HF__SPAN_MAX_MS)
        return ARGS_CONTINUE;
    return usage_error("run", "--max-hold %s is no time from 50ms up", WORD(text));
}

static int parse_min_hold(run_args *a, const char *text) {
    int code = parse_duration("--min-hold", text, &a->min_hold_ms);
    if (code != ARGS_CONTINUE || a->min_hold_ms <= HF__SPAN_MAX_MS) return code;
    return usage_error("run", "--min-hold %s is past counting", WORD(text));
}

static int parse_on_lost(run_args *a, const char *text) {
    if (on_lost_parse(&a->lost, text)) return ARGS_CONTINUE;
    return usage_error("run", "--on-lost %s is no signal; write a signal, `continue`, or a command",
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
                       "--json %s is no descriptor that can be written to; try --json 3 3>FILE",
                       WORD(text));
}

/* The last of -s, -x and --permits counts, as with flock. */
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

/* N/M, or M for one of M. */
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
    return usage_error("run", "--permits %s is not N/M: N permits of M, at most %d", WORD(text),
                       HF_PERMITS_MAX);
}

/* The first place is NAME's, which comes last. */
static int add_name(run_args *a, const char *name) {
    if (a->name_count == HF_NAMES_MAX)
        return usage_error("run", "--also %s is one too many: %d names at most", WORD(name),
                           HF_NAMES_MAX);
    a->names[a->name_count++] = name;
    return ARGS_CONTINUE;
}

/* ---- run ---- */

/* $SHELL, as flock(1) does it. */
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
    case 'w': return parse_wait(a, value);
    case 'E': return parse_conflict_code(a, value);
    case 'x': return set_kind(a, HF_MUTEX);
    case 's': return set_kind(a, HF_READ);
    case PERMITS: return parse_permits(a, value);
    case ALSO: return add_name(a, value);
    case 'c': set_shell_command(a, value); return ARGS_CONTINUE;
    case LEASE: return parse_lease(a, value);
    case GRACE: return parse_duration("--grace", value, &a->grace_ms);
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

/* What follows NAME is the command's, but for `--` and `-c` right after it. */
static int parse_command_words(run_args *a, char **words) {
    bool shell = *words && (strcmp(*words, "-c") == 0 || strcmp(*words, "--command") == 0);
    if (a->command) {
        if (!*words) return ARGS_CONTINUE;
        return usage_error("run", "-c takes the place of COMMAND; \"%s\" is too much",
                           WORD(*words));
    }
    if (shell) {
        if (!words[1]) return usage_error("run", "option %s needs a value", *words);
        if (words[2]) return usage_error("run", "-c takes one string: quote the whole command");
        set_shell_command(a, words[1]);
        return ARGS_CONTINUE;
    }
    bool dashes = *words && strcmp(*words, "--") == 0;
    if (dashes && !words[1]) return usage_error("run", "there is no command after --");
    words += dashes;
    if (*words) a->command = words;
    return ARGS_CONTINUE;
}

/* What would not do what it seems to say. */
static int check_combinations(run_args *a) {
    if (a->tries_once && a->wait_ms > 0)
        return usage_error("run", "-n does not wait, -w does: say one of them");
    if (a->tries_once) a->wait_ms = 0;
    if (!a->command && (a->min_hold_ms || a->lost.continues || a->lost.signal))
        return usage_error("run", "%s is for a COMMAND, and there is none",
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
    if (!a->names[0]) return usage_error("run", "the lock's NAME is missing");
    int code = parse_command_words(a, argv + optind + 1);
    return code == ARGS_CONTINUE ? check_combinations(a) : code;
}
