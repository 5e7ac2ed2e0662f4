/* SPDX-License-Identifier: Apache-2.0 */
#include "common/options.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "common/duration.h"
#include "common/message.h"
#include "common/store.h"
#include "common/suggestion.h"
#include "help.h"
#include "holdfast.h"

#define LONG_ONLY 256 /* values of long options that have no short form begin here */

/* The known long options that an unknown one may mean. */
typedef struct option_matches {
    const char *word;
    size_t length;    /* of the word, without a value */
    char begins[160]; /* options that begin with the word, separated by commas */
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
        return usage_error(subcommand, "option %.*s is ambiguous: it can mean %s", (int)m.length,
                           word, m.begins);
    return usage_error(subcommand, "unknown option %.*s%s", (int)(m.length > 40 ? 40 : m.length),
                       word, suggestion_text(&m.near, hint));
}

/* getopt_long reports the bad option in optopt, or only by its index. */
int args_bad_option(const char *subcommand, int c, char **argv) {
    if (c == ':' && optopt < LONG_ONLY && optopt)
        return usage_error(subcommand, "option -%c needs a value", optopt);
    const char *word = argv[optind - 1];
    if (c == ':') return usage_error(subcommand, "option %s needs a value", word);
    if (optopt >= LONG_ONLY || (optopt && strncmp(word, "--", 2) == 0))
        return usage_error(subcommand, "option %.*s takes no value", (int)strcspn(word, "="), word);
    if (optopt) return usage_error(subcommand, "unknown option -%c", optopt);
    return fail_unknown_option(subcommand, word);
}

int common_option(const char *subcommand, int c, char **argv, char **url) {
    switch (c) {
    case 'S': return store_option(optarg, url);
    case 'q': set_verbosity(QUIET); return ARGS_CONTINUE;
    case COMMON_VERBOSE: set_verbosity(VERBOSE); return ARGS_CONTINUE;
    case ':':
    case '?': return args_bad_option(subcommand, c, argv);
    default: return help_show(subcommand);
    }
}

int common_name(const char *subcommand, int argc, char **argv, const char **name) {
    if (optind == argc) return usage_error(subcommand, "the NAME of the lock is missing");
    if (optind + 1 < argc)
        return usage_error(subcommand, "only one NAME is allowed; unexpected argument \"%s\"",
                           WORD(argv[optind + 1]));
    *name = argv[optind];
    return ARGS_CONTINUE;
}

int common_duration(const char *subcommand, const char *option, const char *text, int64_t *ms) {
    if (duration_parse(text, ms)) return ARGS_CONTINUE;
    return usage_error(subcommand, "%s %s is not a valid time; use seconds, or 500ms, 30s, 5m, 2h",
                       option, WORD(text));
}

int common_wait(const char *subcommand, const char *text, int64_t *ms) {
    int code = common_duration(subcommand, "--wait", text, ms);
    if (code != ARGS_CONTINUE || *ms <= HF__SPAN_MAX_MS) return code;
    return usage_error(subcommand, "--wait %s is too long; leave it out to wait without a limit",
                       WORD(text));
}

int common_lease(const char *subcommand, const char *text, int64_t *ms) {
    if (duration_parse(text, ms) && *ms >= HF_LEASE_MIN_MS && *ms <= HF_LEASE_MAX_MS)
        return ARGS_CONTINUE;
    return usage_error(subcommand, "--lease %s is not a time from 50ms to 720h (30 days)",
                       WORD(text));
}
