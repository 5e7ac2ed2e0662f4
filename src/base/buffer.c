/* SPDX-License-Identifier: Apache-2.0 */
/* A buffer of outgoing bytes: see buffer.h. */
#include "base/buffer.h"

#include <stdlib.h>
#include <string.h>

enum {
    SIZE_FIRST = 1024,
    /* how often it is emptied between checks, so that repeated bursts keep their memory */
    CHECK_EVERY = 32
};

void hf__buffer_init(hf__buffer *b, size_t max) {
    *b = (hf__buffer){.max = max};
}

void hf__buffer_fini(hf__buffer *b) {
    free(b->data);
    *b = (hf__buffer){.max = b->max};
}

static bool reserve_bytes(hf__buffer *b, size_t more) {
    if (b->failed || more > b->max - b->length) return false;
    if (b->length + more <= b->size) return true;
    size_t size = b->size ? b->size : SIZE_FIRST;
    while (size < b->length + more) size *= 2;
    char *data = realloc(b->data, size);
    if (!data) return false;
    b->data = data;
    b->size = size;
    return true;
}

char *hf__buffer_room(hf__buffer *b, size_t length) {
    if (!reserve_bytes(b, length)) {
        b->failed = true;
        return NULL;
    }
    char *room = b->data + b->length;
    b->length += length;
    return room;
}

void hf__buffer_add(hf__buffer *b, const void *bytes, size_t length) {
    char *room = length ? hf__buffer_room(b, length) : NULL;
    if (room) memcpy(room, bytes, length);
}

void hf__buffer_cut(hf__buffer *b, size_t length) {
    b->length = length;
    b->failed = false;
}

/* If it cannot be made smaller it keeps its size. */
static void shrink_buffer(hf__buffer *b, size_t size) {
    char *data = realloc(b->data, size);
    if (!data) return;
    b->data = data;
    b->size = size;
}

void hf__buffer_empty(hf__buffer *b) {
    size_t size = SIZE_FIRST;
    bool was_empty = !b->length;
    if (b->length > b->most) b->most = b->length;
    hf__buffer_cut(b, 0);
    if (was_empty || ++b->emptied < CHECK_EVERY) return;
    while (size < 2 * b->most) size *= 2;
    if (size < b->size) shrink_buffer(b, size);
    b->most = 0;
    b->emptied = 0;
}
