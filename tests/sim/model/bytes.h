/* SPDX-License-Identifier: Apache-2.0 */
/* Borrowed ranges of bytes, and the numbers that Redis reads in them. */
#ifndef SIM_MODEL_BYTES_H
#define SIM_MODEL_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct rm_bytes {
    const char *at;
    size_t length;
} rm_bytes;

static inline rm_bytes rm_text(const char *text) {
    return (rm_bytes){text, strlen(text)};
}

static inline bool rm_same(rm_bytes a, rm_bytes b) {
    return a.length == b.length && (a.length == 0 || memcmp(a.at, b.at, a.length) == 0);
}

/* Returns true if the bytes are this word in any case. The word is given in lower case. */
bool rm_is(rm_bytes b, const char *word);

/* Reads an integer as Redis does: no plus sign, no leading zero, no space. */
bool rm_integer(rm_bytes b, int64_t *value);

/* Reads a float as Redis does: the whole text, infinities too, but no NaN and no leading space. */
bool rm_float(rm_bytes b, double *value);

/* Allocates memory, and ends the process if there is none. */
void *rm_alloc(size_t size);
void *rm_realloc(void *memory, size_t size);
char *rm_copy(rm_bytes b);

#endif
