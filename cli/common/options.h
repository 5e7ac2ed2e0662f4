/* SPDX-License-Identifier: Apache-2.0 */
/* Options that most subcommands share, and values that several of them parse. */
#ifndef CLI_COMMON_OPTIONS_H
#define CLI_COMMON_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

/* Parsing continues. Any other value is the exit code: the command line was wrong, or --help
   was shown. */
#define ARGS_CONTINUE (-1)

/* Their values for getopt_long. The long options of a subcommand itself begin at COMMON_OWN. */
enum { COMMON_VERBOSE = 512, COMMON_HELP, COMMON_OWN };

/* Handles -S, -q, --verbose and --help, or reports an unknown option. Returns ARGS_CONTINUE or the
   exit code. */
int common_option(const char *subcommand, int c, char **argv, char **url);

/* Reads NAME, the only argument allowed after the options. Returns ARGS_CONTINUE or the exit
   code. */
int common_name(const char *subcommand, int argc, char **argv, const char **name);

/* Durations, as in duration.h. The second checks the limit of a wait, the third the limits of a
   lease. */
int common_duration(const char *subcommand, const char *option, const char *text, int64_t *ms);
int common_wait(const char *subcommand, const char *text, int64_t *ms);
int common_lease(const char *subcommand, const char *text, int64_t *ms);

/* Reports the option that made getopt_long return `c`. Returns the exit code. */
int args_bad_option(const char *subcommand, int c, char **argv);

#endif
