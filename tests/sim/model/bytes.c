/* SPDX-License-Identifier: Apache-2.0 */
#include "model/bytes.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#define NUMBER_MAX 128 /* bytes of a float's text; longer texts are refused */

bool rm_is(rm_bytes b, const char *word) {
    /* Fast path: most words differ in the first letter. */
    if (!b.length || (b.at[0] | 32) != (word[0] | 32)) return false;
    return b.length == strlen(word) && !strncasecmp(b.at, word, b.length);
}

bool rm_integer(rm_bytes b, int64_t *value) {
    bool negative = b.length && b.at[0] == '-';
    const char *at = b.at + negative, *end = b.at + b.length;
    if (at == end || (*at == '0' && (negative || end - at > 1))) return false;
    uint64_t n = 0;
    for (; at < end; at++) {
        if (!isdigit((unsigned char)*at)) return false;
        if (n > (UINT64_MAX - 9) / 10) return false;
        n = n * 10 + (uint64_t)(*at - '0');
    }
    if (n > (uint64_t)INT64_MAX + negative) return false;
    *value = negative ? (int64_t)(0 - n) : (int64_t)n;
    return true;
}

bool rm_float(rm_bytes b, double *value) {
    char text[NUMBER_MAX];
    if (!b.length || b.length >= sizeof text || isspace((unsigned char)b.at[0])) return false;
    memcpy(text, b.at, b.length);
    text[b.length] = '\0';
    char *end;
    errno = 0;
    *value = strtod(text, &end);
    bool range = errno == ERANGE && (isinf(*value) || *value == 0);
    return end == text + b.length && !range && !isnan(*value);
}

void *rm_alloc(size_t size) {
    return rm_realloc(NULL, size);
}

void *rm_realloc(void *memory, size_t size) {
    void *made = realloc(memory, size ? size : 1);
    if (made) return made;
    fputs("sim: out of memory\n", stderr);
    abort();
}

char *rm_copy(rm_bytes b) {
    char *made = rm_alloc(b.length + 1);
    if (b.length) memcpy(made, b.at, b.length);
    made[b.length] = '\0';
    return made;
}
