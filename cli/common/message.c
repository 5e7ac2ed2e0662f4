/* SPDX-License-Identifier: Apache-2.0 */
#include "common/message.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "base/url.h"
#include "common/exit_codes.h"

#define LINE_MAX_BYTES 2048

static verbosity level = NORMAL;

void set_verbosity(verbosity level_wanted) {
    level = level_wanted;
}

verbosity get_verbosity(void) {
    return level;
}

const char *message_word(char *out, size_t size, const char *word) {
    char *shown = strstr(word, "://") ? hf__url_shown(word) : NULL;
    if (strstr(word, "://")) word = shown ? shown : HF__URL_HIDDEN;
    hf__text_sanitize(out, size, word, strlen(word));
    free(shown);
    return out;
}

/* A single write, so that lines of several processes do not mix. Errors are ignored: there is no
   other place to report them. */
__attribute__((format(printf, 1, 0))) static void write_line(const char *format, va_list args) {
    static const char prefix[] = "holdfast: ";
    int saved = errno;
    char text[LINE_MAX_BYTES], line[sizeof prefix + sizeof text + 1];
    vsnprintf(text, sizeof text, format, args);
    size_t length = sizeof prefix - 1;
    memcpy(line, prefix, length);
    hf__text_sanitize(line + length, sizeof text, text, strlen(text));
    length += strlen(line + length);
    line[length++] = '\n';
    while (write(STDERR_FILENO, line, length) < 0 && errno == EINTR) continue;
    errno = saved;
}

void print_verbose(const char *format, ...) {
    if (level < VERBOSE) return;
    va_list args;
    va_start(args, format);
    write_line(format, args);
    va_end(args);
}

void print_message(const char *format, ...) {
    if (level < NORMAL) return;
    va_list args;
    va_start(args, format);
    write_line(format, args);
    va_end(args);
}

int fail(int code, const char *format, ...) {
    if (level < NORMAL) return code;
    va_list args;
    va_start(args, format);
    write_line(format, args);
    va_end(args);
    return code;
}

int usage_error(const char *subcommand, const char *format, ...) {
    char text[LINE_MAX_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    set_verbosity(NORMAL);
    print_message("%s; see holdfast %s%s--help", text, subcommand, *subcommand ? " " : "");
    return EXIT_USAGE;
}
