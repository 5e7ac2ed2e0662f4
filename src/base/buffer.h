/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Outgoing bytes, with a maximum size. The caller notes the length before it appends a command. If
 * an append fails, it cuts the buffer back to that length, so half a command is never sent.
 */
#ifndef HF_BASE_BUFFER_H
#define HF_BASE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

typedef struct hf__buffer {
    char *data;
    size_t length, size, max;
    size_t most;      /* the most bytes that were in it since its size was last checked */
    unsigned emptied; /* how often it was emptied since then */
    bool failed;      /* an append did not fit, or memory ran out; stays set until hf__buffer_cut */
} hf__buffer;

void hf__buffer_init(hf__buffer *b, size_t max);
void hf__buffer_fini(hf__buffer *b);
void hf__buffer_add(hf__buffer *b, const void *bytes, size_t length);

/* Append `length` bytes, which the caller fills in. NULL, and `failed` is set, if there is no
   space. */
char *hf__buffer_room(hf__buffer *b, size_t length);

/* Cut back to an earlier length; clears `failed`. */
void hf__buffer_cut(hf__buffer *b, size_t length);

/* Everything was sent. Memory that only a burst needed is freed after a while. */
void hf__buffer_empty(hf__buffer *b);

#endif
