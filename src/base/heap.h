/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An intrusive min-heap of timers (a pairing heap). The nodes are part of the objects they time, so
 * setting a timer cannot fail, and renewals can be scheduled when memory is out.
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
        **link; /* link: the pointer that points to this node; NULL if not set */
    hf__time due;
    /* for the code that popped the timer; the timer may be set again meanwhile */
    struct hf__timer *next_due;
} hf__timer;

typedef struct hf__heap {
    hf__timer *root;
} hf__heap;

static inline bool hf__timer_armed(const hf__timer *t) {
    return t->link != NULL;
}

/* When the first timer is due; HF__NEVER if empty. */
static inline hf__time hf__heap_due(const hf__heap *h) {
    return h->root ? h->root->due : HF__NEVER;
}

/* Set, change, or with HF__NEVER remove a timer. */
void hf__heap_set(hf__heap *h, hf__timer *t, hf__time due);

/* Remove a timer; does nothing if it is not set. */
void hf__heap_remove(hf__heap *h, hf__timer *t);

/* Remove and return the first timer that is due at `now`; NULL if none is. */
hf__timer *hf__heap_pop(hf__heap *h, hf__time now);

#endif
