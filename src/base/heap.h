/*
 * An intrusive min-heap of timers (a pairing heap): the nodes live in what they time, so that arming
 * a timer cannot fail, which is what lets a renewal be planned when memory is out.
 *
 * Insert O(1), change O(1) amortised, remove O(log n) amortised.
 */
#ifndef HF_BASE_HEAP_H
#define HF_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/time.h"

typedef struct hf__timer {
    struct hf__timer *child, *next,
        **link; /* link: what points at this node; NULL when not armed */
    hf__time due;
    struct hf__timer *next_due; /* the user's, once popped: a popped timer may be armed again */
} hf__timer;

typedef struct hf__heap {
    hf__timer *root;
} hf__heap;

static inline bool hf__timer_armed(const hf__timer *t) {
    return t->link != NULL;
}

/* Due time of the first, HF__NEVER when empty. */
static inline hf__time hf__heap_due(const hf__heap *h) {
    return h->root ? h->root->due : HF__NEVER;
}

/* Arm, re-arm, or with HF__NEVER disarm. */
void hf__heap_set(hf__heap *h, hf__timer *t, hf__time due);

/* Disarm; nothing if it was not armed. */
void hf__heap_remove(hf__heap *h, hf__timer *t);

/* Take the first timer that is due at `now`; NULL if none is. */
hf__timer *hf__heap_pop(hf__heap *h, hf__time now);

#endif
