#include "common/options.h"

#include <getopt.h>

#include "base/time.h"
#include "common/args.h"
#include "common/duration.h"
#include "common/message.h"
#include "common/store.h"
#include "help.h"
#include "holdfast.h"

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
    if (optind == argc) return usage_error(subcommand, "the lock's NAME is missing");
    if (optind + 1 < argc)
        return usage_error(subcommand, "one NAME at a time; \"%s\" is too much",
                           WORD(argv[optind + 1]));
    *name = argv[optind];
    return ARGS_CONTINUE;
}

int common_duration(const char *subcommand, const char *option, const char *text, int64_t *ms) {
    if (duration_parse(text, ms)) return ARGS_CONTINUE;
    return usage_error(subcommand, "%s %s is no time: write seconds, or 500ms, 30s, 5m, 2h", option,
                       WORD(text));
}

int common_wait(const char *subcommand, const char *text, int64_t *ms) {
    int code = common_duration(subcommand, "--wait", text, ms);
    if (code != ARGS_CONTINUE || *ms <= HF__SPAN_MAX_MS) return code;
    return usage_error(subcommand, "--wait %s is past counting; without it the wait has no end",
                       WORD(text));
}

int common_lease(const char *subcommand, const char *text, int64_t *ms) {
    if (duration_parse(text, ms) && *ms >= HF_LEASE_MIN_MS && *ms <= HF_LEASE_MAX_MS)
        return ARGS_CONTINUE;
    return usage_error(subcommand, "--lease %s is no time from 50ms to 720h (30 days)", WORD(text));
}
