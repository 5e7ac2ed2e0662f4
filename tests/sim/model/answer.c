/* SPDX-License-Identifier: Apache-2.0 */
#include "model/answer.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"

static void put_text(hf__buffer *out, const char *text) {
    hf__buffer_add(out, text, strlen(text));
}

static void put_header(hf__buffer *out, char type, int64_t n) {
    char text[HF__DIGITS + 4], *end = text + sizeof text, *at = end;
    *--at = '\n';
    *--at = '\r';
    at = hf__digits(at, n < 0 ? 0 - (uint64_t)n : (uint64_t)n);
    if (n < 0) *--at = '-';
    *--at = type;
    hf__buffer_add(out, at, (size_t)(end - at));
}

void rm_status(hf__buffer *out, const char *text) {
    put_text(out, "+");
    put_text(out, text);
    put_text(out, "\r\n");
}

void rm_error(hf__buffer *out, const char *format, ...) {
    char *text;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&text, format, args);
    va_end(args);
    if (length < 0) abort();
    for (char *at = text; *at; at++)
        if (*at == '\r' || *at == '\n') *at = ' ';
    put_text(out, "-");
    put_text(out, text);
    put_text(out, "\r\n");
    free(text);
}

void rm_number(hf__buffer *out, int64_t n) {
    put_header(out, ':', n);
}

void rm_bulk(hf__buffer *out, rm_bytes b) {
    put_header(out, '$', (int64_t)b.length);
    hf__buffer_add(out, b.at, b.length);
    put_text(out, "\r\n");
}

void rm_null(hf__buffer *out) {
    put_text(out, "$-1\r\n");
}

void rm_null_array(hf__buffer *out) {
    put_text(out, "*-1\r\n");
}

void rm_array(hf__buffer *out, size_t count) {
    put_header(out, '*', (int64_t)count);
}
