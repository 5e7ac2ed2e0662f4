/*
 * What the fuzz targets share: taking an input apart, and saying that something does not hold.
 *
 * A target is one file with one LLVMFuzzerTestOneInput. The same file is linked with libFuzzer by
 * `make fuzz` and with replay.c by `make test`, which runs it over its corpus. What a target does
 * depends on its input alone: no clock (still.h), no chance, nothing left over from the input before.
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

/* Ends the run: libFuzzer keeps the input, the replay has named its file. */
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

/* The next byte; zeros when all are taken, which every target takes as the plainest choice. */
static inline uint8_t input_byte(input *in) {
    if (!in->left) return 0;
    in->left--;
    return *in->at++;
}

/* So many bytes, or those that are left. */
static inline const uint8_t *input_bytes(input *in, size_t *length) {
    const uint8_t *at = in->at;
    if (*length > in->left) *length = in->left;
    in->at += *length;
    in->left -= *length;
    return at;
}

/* Bytes up to `end`, which is taken too, as a text of its own that is freed by the caller. A NUL ends
   what a C string shows of it. */
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
