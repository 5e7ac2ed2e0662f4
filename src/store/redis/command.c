#include "store/redis/command.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TEXT_MAX 256

static void add_header(hf__buffer *out, char type, uint64_t n) {
    char digits[24], *at = digits + sizeof digits;
    *--at = '\n';
    *--at = '\r';
    do *--at = (char)('0' + n % 10);
    while (n /= 10);
    *--at = type;
    hf__buffer_add(out, at, (size_t)(digits + sizeof digits - at));
}

void hf__command_begin(hf__buffer *out, int count) {
    add_header(out, '*', (uint64_t)count);
}

void hf__command_bytes(hf__buffer *out, const void *bytes, size_t length) {
    add_header(out, '$', length);
    hf__buffer_add(out, bytes, length);
    hf__buffer_add(out, "\r\n", 2);
}

void hf__command_string(hf__buffer *out, const char *string) {
    hf__command_bytes(out, string, strlen(string));
}

void hf__command_number(hf__buffer *out, int64_t number) {
    hf__command_text(out, "%" PRId64, number);
}

void hf__command_text(hf__buffer *out, const char *format, ...) {
    char text[TEXT_MAX];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (length < 0 || length >= TEXT_MAX)
        out->failed = true;
    else
        hf__command_bytes(out, text, (size_t)length);
}

static const char *escape_of(char c) {
    return c == '{' ? "%7B" : c == '}' ? "%7D" : c == '%' ? "%25" : NULL;
}

static size_t escaped_length(const char *name, size_t length) {
    size_t n = length;
    for (size_t i = 0; i < length; i++)
        if (escape_of(name[i])) n += 2;
    return n;
}

void hf__command_key(hf__buffer *out, const char *prefix, const char *name, size_t length,
                     const char *suffix) {
    size_t escaped = escaped_length(name, length);
    add_header(out, '$', strlen(prefix) + 2 + escaped + 1 + strlen(suffix));
    hf__buffer_add(out, prefix, strlen(prefix));
    hf__buffer_add(out, ":{", 2);
    for (size_t i = 0, run; i < length; i += run) {
        const char *escape = escape_of(name[i]);
        if (escape) {
            hf__buffer_add(out, escape, 3);
            run = 1;
        } else {
            for (run = 1; i + run < length && !escape_of(name[i + run]);) run++;
            hf__buffer_add(out, name + i, run);
        }
    }
    hf__buffer_add(out, "}", 1);
    hf__buffer_add(out, suffix, strlen(suffix));
    hf__buffer_add(out, "\r\n", 2);
}
