/* SPDX-License-Identifier: Apache-2.0 */
#include "store/redis/protocol/command.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define TEXT_MAX 256

#define DIGITS_MAX (HF__DIGITS + 4)

/* Reserves space for an argument of that length, and writes its header and end around it. */
static char *add_argument(hf__buffer *out, size_t length) {
    char text[DIGITS_MAX], *end = text + sizeof text, *at = end;
    *--at = '\n';
    *--at = '\r';
    at = hf__digits(at, length);
    *--at = '$';
    size_t header = (size_t)(end - at);
    char *space = hf__buffer_room(out, header + length + 2);
    if (!space) return NULL;
    memcpy(space, at, header);
    space[header + length] = '\r';
    space[header + length + 1] = '\n';
    return space + header;
}

void hf__command_begin(hf__buffer *out, int count) {
    char text[DIGITS_MAX], *end = text + sizeof text, *at = end;
    *--at = '\n';
    *--at = '\r';
    at = hf__digits(at, (uint64_t)count);
    *--at = '*';
    hf__buffer_add(out, at, (size_t)(end - at));
}

void hf__command_bytes(hf__buffer *out, const void *bytes, size_t length) {
    char *space = add_argument(out, length);
    if (space && length) memcpy(space, bytes, length);
}

void hf__command_string(hf__buffer *out, const char *string) {
    hf__command_bytes(out, string, strlen(string));
}

void hf__command_number(hf__buffer *out, int64_t number) {
    char text[DIGITS_MAX], *end = text + sizeof text;
    char *at = hf__digits(end, number < 0 ? 0 - (uint64_t)number : (uint64_t)number);
    if (number < 0) *--at = '-';
    hf__command_bytes(out, at, (size_t)(end - at));
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

/* A brace would end the hash tag early, and the percent sign introduces an escape. */
const char *hf__key_escape(char c) {
    return c == '{' ? "%7B" : c == '}' ? "%7D" : c == '%' ? "%25" : NULL;
}

static size_t escaped_length(const char *name, size_t length) {
    size_t n = length;
    for (size_t i = 0; i < length; i++)
        if (hf__key_escape(name[i])) n += 2;
    return n;
}

static char *put_bytes(char *at, const char *text, size_t length) {
    memcpy(at, text, length);
    return at + length;
}

static char *put_escaped(char *at, const char *name, size_t length) {
    for (size_t i = 0; i < length; i++) {
        const char *escape = hf__key_escape(name[i]);
        at = escape ? put_bytes(at, escape, 3) : put_bytes(at, name + i, 1);
    }
    return at;
}

void hf__command_id(hf__buffer *out, const char *client, const char *sign, uint64_t number) {
    char text[DIGITS_MAX], *end = text + sizeof text, *digits = hf__digits(end, number);
    size_t before = strlen(client), between = strlen(sign), after = (size_t)(end - digits);
    char *at = add_argument(out, before + between + after);
    if (!at) return;
    at = put_bytes(at, client, before);
    at = put_bytes(at, sign, between);
    put_bytes(at, digits, after);
}

size_t hf__key_length(const char *prefix, const char *name, size_t length, const char *suffix) {
    return strlen(prefix) + 2 + escaped_length(name, length) + 1 + strlen(suffix);
}

char *hf__key_put(char *at, const char *prefix, const char *name, size_t length,
                  const char *suffix) {
    at = put_bytes(at, prefix, strlen(prefix));
    at = put_bytes(at, ":{", 2);
    at = escaped_length(name, length) == length ? put_bytes(at, name, length)
                                                : put_escaped(at, name, length);
    at = put_bytes(at, "}", 1);
    return put_bytes(at, suffix, strlen(suffix));
}

void hf__command_key(hf__buffer *out, const char *prefix, const char *name, size_t length,
                     const char *suffix) {
    char *at = add_argument(out, hf__key_length(prefix, name, length, suffix));
    if (at) hf__key_put(at, prefix, name, length, suffix);
}
