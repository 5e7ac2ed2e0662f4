/*
 * Lines for people, on stderr: each begins with the command's name, is one write, and shows no
 * control character of a foreign text. None of these changes errno.
 */
#ifndef CLI_SAY_H
#define CLI_SAY_H

typedef enum loudness { QUIET, NORMAL, VERBOSE } loudness;

void say_set(loudness wanted);
loudness say_get(void);

/* What is of interest to whoever asked for it, with --verbose. */
void say_more(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What everyone should know who did not ask for --quiet. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* As say(), and return the exit code, so that a failure reads `return fail(EXIT_…, …)`. */
int fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The command line is wrong: always said, with where to read more ("run", "status" or ""). */
int usage_error(const char *subcommand, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
