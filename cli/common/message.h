/*
 * Lines for people, on stderr: each begins with the command's name, is one write, and shows no
 * control character of a foreign text. None of these changes errno.
 */
#ifndef CLI_COMMON_MESSAGE_H
#define CLI_COMMON_MESSAGE_H

#include <stddef.h>

typedef enum verbosity { QUIET, NORMAL, VERBOSE } verbosity;

void set_verbosity(verbosity wanted);
verbosity get_verbosity(void);

/* What is of interest to whoever asked for it, with --verbose. */
void print_verbose(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What everyone should know who did not ask for --quiet. */
void print_message(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* As say(), and return the exit code, so that a failure reads `return fail(EXIT_…, …)`. */
int fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A word of the command line, for quoting in a message: cut, and without the credentials of a
   URL, which may have been meant for -S. LONG_WORD is for paths. */
#define WORD(word)      message_word((char[41]){0}, 41, word)
#define LONG_WORD(word) message_word((char[1024]){0}, 1024, word)
const char *message_word(char *out, size_t size, const char *word);

/* The command line is wrong: always said, with where to read more ("run", "status" or ""). */
int usage_error(const char *subcommand, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
