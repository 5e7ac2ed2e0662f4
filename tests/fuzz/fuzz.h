/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the fuzz targets: taking an input apart, and reporting a violation.
 *
 * A target is one file with one LLVMFuzzerTestOneInput. `make fuzz` links it with libFuzzer, and
 * `make test` links the same file with replay.c, which runs it over its corpus. A target depends on
 * its input alone: no clock (fake_time.h), no randomness, and no state from the input before.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the run: libFuzzer keeps the input, and the replay has printed the name of the file. */
#define FUZZ_CHECK(expression)                                                          \
    do {                                                                                \
        if (expression) break;                                                          \
        fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #expression); \
        abort();                                                                        \
    } while (0)

typedef struct input {
    const uint8_t *at;
    size_t left;
} input;

/* The next byte. After the end it returns zeros, which every target treats as the simplest
   choice. */
static inline uint8_t input_byte(input *in) {
    if (!in->left) return 0;
    in->left--;
    return *in->at++;
}

/* The next `*length` bytes, or all that are left. */
static inline const uint8_t *input_bytes(input *in, size_t *length) {
    const uint8_t *at = in->at;
    if (*length > in->left) *length = in->left;
    in->at += *length;
    in->left -= *length;
    return at;
}

/* The bytes up to `end`, as a string that the caller frees; `end` is consumed too. A NUL byte ends
   the C string early. */
static inline char *input_text(input *in, uint8_t end) {
    const uint8_t *found = in->left ? memchr(in->at, end, in->left) : NULL;
    size_t length = found ? (size_t)(found - in->at) : in->left;
    char *text = malloc(length + 1);
    if (!text) abort();
    if (length) memcpy(text, input_bytes(in, &length), length);
    text[length] = '\0';
    if (found) (void)input_byte(in);
    return text;
}

#endif
