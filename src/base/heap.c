/* SPDX-License-Identifier: Apache-2.0 */
/* A pairing heap of timers: see heap.h. */
#include "base/heap.h"

/* Join two trees without siblings: the later root becomes the first child of the earlier one. */
static hf__timer *meld_trees(hf__timer *a, hf__timer *b) {
    if (!a) return b;
    if (!b) return a;
    if (b->due < a->due) {
        hf__timer *swap = a;
        a = b;
        b = swap;
    }
    b->next = a->child;
    if (b->next) b->next->link = &b->next;
    a->child = b;
    b->link = &a->child;
    a->next = NULL;
    return a;
}

/* Join a list of siblings: in pairs from the left, then the pairs from the right. */
static hf__timer *meld_siblings(hf__timer *first) {
    hf__timer *pairs = NULL;
    while (first) {
        hf__timer *a = first, *b = first->next;
        first = b ? b->next : NULL;
        a->next = NULL;
        if (b) b->next = NULL;
        hf__timer *pair = meld_trees(a, b);
        pair->next = pairs;
        pairs = pair;
    }
    hf__timer *root = NULL;
    while (pairs) {
        hf__timer *rest = pairs->next;
        pairs->next = NULL;
        root = meld_trees(root, pairs);
        pairs = rest;
    }
    return root;
}

static void set_root(hf__heap *h, hf__timer *root) {
    h->root = root;
    if (root) root->link = &h->root;
}

void hf__heap_remove(hf__heap *h, hf__timer *t) {
    if (!t->link) return;
    bool was_root = t == h->root;
    *t->link = t->next;
    if (t->next) t->next->link = t->link;
    hf__timer *rest = meld_siblings(t->child);
    t->child = t->next = NULL;
    t->link = NULL;
    set_root(h, was_root ? rest : meld_trees(h->root, rest));
}

void hf__heap_set(hf__heap *h, hf__timer *t, hf__time due) {
    if (t->link && t->due == due) return;
    hf__heap_remove(h, t);
    t->due = due;
    if (due == HF__NEVER) return;
    set_root(h, meld_trees(h->root, t));
}

hf__timer *hf__heap_pop(hf__heap *h, hf__time now) {
    hf__timer *first = h->root;
    if (!first || first->due > now) return NULL;
    hf__heap_remove(h, first);
    return first;
}
