/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include <stddef.h>

/* Prints the help of a subcommand ("" for the general help) on stdout. Returns the exit code. */
int help_show(const char *subcommand);
int help_version(void);

/* Reports an unknown subcommand, with a suggestion if one is close. Returns the exit code. */
int help_no_subcommand(const char *word);

/* Calls `each` with every long option in the help of a subcommand: "--wait", not terminated by a
   NUL. */
void help_long_options(const char *subcommand,
                       void (*each)(void *arg, const char *option, size_t length), void *arg);

#endif
