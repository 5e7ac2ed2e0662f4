/* Options that most subcommands have, and values that several read. */
#ifndef CLI_COMMON_OPTIONS_H
#define CLI_COMMON_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

/* Parsing continues. Any other value is the exit code: the command line was wrong, or --help
   was shown. */
#define ARGS_CONTINUE (-1)

/* What getopt_long says for them; a subcommand's own long options begin at COMMON_OWN. */
enum { COMMON_VERBOSE = 512, COMMON_HELP, COMMON_OWN };

/* One of -S, -q, --verbose and --help, or a mistake: ARGS_CONTINUE, or the exit code. */
int common_option(const char *subcommand, int c, char **argv, char **url);

/* The lock's NAME, which is all that may follow the options: ARGS_CONTINUE, or the exit code. */
int common_name(const char *subcommand, int argc, char **argv, const char **name);

/* Times, as in span.h; the second no longer than can be waited, the third what a lease may be. */
int common_duration(const char *subcommand, const char *option, const char *text, int64_t *ms);
int common_wait(const char *subcommand, const char *text, int64_t *ms);
int common_lease(const char *subcommand, const char *text, int64_t *ms);

/* What getopt_long stumbled over, which returned `c`: the exit code. */
int args_bad_option(const char *subcommand, int c, char **argv);

#endif
