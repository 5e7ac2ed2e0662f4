/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies text into a fixed buffer: truncated if necessary, always terminated; NULL counts as "".
 * Also makes foreign text safe to show: names, labels, hosts, programs, error texts of servers.
 */
#ifndef HF_BASE_TEXT_H
#define HF_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void hf__text_copy(char *to, size_t size, const char *from);

/* The same for text of a given length, made safe for a terminal or a log: control characters become
   spaces, bytes of invalid UTF-8 become '?'. `to` may be `from`. */
void hf__text_sanitize(char *to, size_t size, const char *from, size_t length);

/* Characters that control a terminal, break a line or change its direction: C0, DEL, C1, U+2028 to
   U+202E, U+2066 to U+2069. */
bool hf__is_control(uint32_t code);

/* The length of the UTF-8 character at `text`, which has `length` bytes, and its code; 0:
   invalid. */
size_t hf__utf8(const char *text, size_t length, uint32_t *code);
bool hf__is_utf8(const char *text);

/* Write decimal digits backwards from `end`, at most HF__DIGITS; returns where they begin. */
#define HF__DIGITS 20
static inline char *hf__digits(char *end, uint64_t n) {
    do *--end = (char)('0' + n % 10);
    while (n /= 10);
    return end;
}

#endif
