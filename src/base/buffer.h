/*
 * Bytes on their way out, with a stated maximum. A failed append leaves the buffer as it was before
 * the command began, if the caller marks the beginning: half a command is never sent.
 */
#ifndef HF_BASE_BUFFER_H
#define HF_BASE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

typedef struct hf__buffer {
    char *data;
    size_t length, size, max;
    size_t most;      /* bytes that were in it, the most since its size was last looked at */
    unsigned emptied; /* times, since then */
    bool failed;      /* an append did not fit, or memory was out; stays until hf__buffer_cut */
} hf__buffer;

void hf__buffer_init(hf__buffer *b, size_t max);
void hf__buffer_fini(hf__buffer *b);
void hf__buffer_add(hf__buffer *b, const void *bytes, size_t length);

/* Room for `length` more bytes at the end, which the caller fills; NULL, and `failed`, if there is
   none. It counts as filled at once. */
char *hf__buffer_room(hf__buffer *b, size_t length);

/* Back to an earlier length, and usable again. */
void hf__buffer_cut(hf__buffer *b, size_t length);

/* All of it has gone out. What a burst took is given back when it was not needed for a while. */
void hf__buffer_empty(hf__buffer *b);

#endif
