/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages for people, on stderr. Each line begins with the name of the command and is written with
 * one write. Control characters in foreign text are replaced. None of these functions changes
 * errno.
 */
#ifndef CLI_COMMON_MESSAGE_H
#define CLI_COMMON_MESSAGE_H

#include <stddef.h>

typedef enum verbosity { QUIET, NORMAL, VERBOSE } verbosity;

void set_verbosity(verbosity wanted);
verbosity get_verbosity(void);

/* Printed only with --verbose. */
void print_verbose(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Printed unless --quiet was given. */
void print_message(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints like print_message and returns the exit code, so that an error path is `return
   fail(EXIT_…, …)`. */
int fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A word of the command line to quote in a message: shortened, and without the credentials of a URL
   that was perhaps meant for -S. LONG_WORD is for paths. */
#define WORD(word)      message_word((char[41]){0}, 41, word)
#define LONG_WORD(word) message_word((char[1024]){0}, 1024, word)
const char *message_word(char *out, size_t size, const char *word);

/* Reports a wrong command line, even with --quiet, and refers to the help of the subcommand ("" for
   the general help). Returns EXIT_USAGE. */
int usage_error(const char *subcommand, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
