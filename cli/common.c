#include "common.h"

#include <getopt.h>

#include "args.h"
#include "base/time.h"
#include "help.h"
#include "holdfast.h"
#include "say.h"
#include "span.h"

int common_option(const char *subcommand, int c, char **argv, char **store) {
    switch (c) {
    case 'S': *store = optarg; return ARGS_GO_ON;
    case 'q': say_set(QUIET); return ARGS_GO_ON;
    case COMMON_VERBOSE: say_set(VERBOSE); return ARGS_GO_ON;
    case ':':
    case '?': return args_bad_option(subcommand, c, argv);
    default: return help_show(subcommand);
    }
}

int common_name(const char *subcommand, int argc, char **argv, const char **name) {
    if (optind == argc) return usage_error(subcommand, "the lock's NAME is missing");
    if (optind + 1 < argc)
        return usage_error(subcommand, "one NAME at a time; \"%.40s\" is too much",
                           argv[optind + 1]);
    *name = argv[optind];
    return ARGS_GO_ON;
}

int common_span(const char *subcommand, const char *option, const char *text, int64_t *ms) {
    if (span_parse(text, ms)) return ARGS_GO_ON;
    return usage_error(subcommand, "%s %.40s is no time: write seconds, or 500ms, 30s, 5m, 2h",
                       option, text);
}

int common_wait(const char *subcommand, const char *text, int64_t *ms) {
    int code = common_span(subcommand, "--wait", text, ms);
    if (code != ARGS_GO_ON || *ms <= HF__SPAN_MAX_MS) return code;
    return usage_error(subcommand, "--wait %.40s is past counting; without it the wait has no end",
                       text);
}

int common_lease(const char *subcommand, const char *text, int64_t *ms) {
    if (span_parse(text, ms) && *ms >= HF_LEASE_MIN_MS && *ms <= HF_LEASE_MAX_MS) return ARGS_GO_ON;
    return usage_error(subcommand, "--lease %.40s is no time from 50ms to 720h (30 days)", text);
}
