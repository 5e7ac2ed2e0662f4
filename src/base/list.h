/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Intrusive lists. The links are part of the items, so adding cannot fail. A zeroed list is empty.
 * Evaluate no side effects in the arguments: these are macros, so that lists and links keep the
 * type of their items.
 *
 *   HF__LIST   doubly linked, one pointer long. `link` names the member of the item that is its
 *              HF__LINK in this list. The list's `first` and an item's `link.next` lead forwards,
 *              up to NULL. The first item's `link.prev` is the last one.
 *   HF__FIFO   singly linked, one pointer long. The item's member `next` is its link, so an item is
 *              in one FIFO at a time. The last item's `next` is the first one: walk with
 *              hf__fifo_first and hf__fifo_next.
 */
#ifndef HF_BASE_LIST_H
#define HF_BASE_LIST_H

#include <stddef.h>

#define HF__LIST(type) \
    struct {           \
        type *first;   \
    }

#define HF__LINK(type)     \
    struct {               \
        type *next, *prev; \
    }

/* The item before this one; NULL: it is the first. */
#define hf__list_prev(list, item, link) ((list)->first == (item) ? NULL : (item)->link.prev)

/* Whether the item is in a list, if its link was zeroed at first. */
#define hf__list_linked(item, link) ((item)->link.prev != NULL)

#define hf__list_append(list, item, link)                 \
    do {                                                  \
        (item)->link.next = NULL;                         \
        (item)->link.prev = (item);                       \
        if ((list)->first) {                              \
            (item)->link.prev = (list)->first->link.prev; \
            (item)->link.prev->link.next = (item);        \
            (list)->first->link.prev = (item);            \
        } else {                                          \
            (list)->first = (item);                       \
        }                                                 \
    } while (0)

#define hf__list_prepend(list, item, link)                \
    do {                                                  \
        (item)->link.next = (list)->first;                \
        (item)->link.prev = (item);                       \
        if ((list)->first) {                              \
            (item)->link.prev = (list)->first->link.prev; \
            (list)->first->link.prev = (item);            \
        }                                                 \
        (list)->first = (item);                           \
    } while (0)

/* Insert the item behind `at`, which is in the list. */
#define hf__list_insert_after(list, at, item, link) \
    do {                                            \
        (item)->link.prev = (at);                   \
        (item)->link.next = (at)->link.next;        \
        if ((at)->link.next)                        \
            (at)->link.next->link.prev = (item);    \
        else                                        \
            (list)->first->link.prev = (item);      \
        (at)->link.next = (item);                   \
    } while (0)

/* The item must be in the list. */
#define hf__list_remove(list, item, link)                     \
    do {                                                      \
        if ((list)->first == (item))                          \
            (list)->first = (item)->link.next;                \
        else                                                  \
            (item)->link.prev->link.next = (item)->link.next; \
        if ((item)->link.next)                                \
            (item)->link.next->link.prev = (item)->link.prev; \
        else if ((list)->first)                               \
            (list)->first->link.prev = (item)->link.prev;     \
        (item)->link.next = (item)->link.prev = NULL;         \
    } while (0)

#define HF__FIFO(type) \
    struct {           \
        type *last;    \
    }

/* NULL: it is empty. */
#define hf__fifo_first(fifo) ((fifo)->last ? (fifo)->last->next : NULL)

/* The item after this one; NULL: it is the last. */
#define hf__fifo_next(fifo, item) ((item) == (fifo)->last ? NULL : (item)->next)

#define hf__fifo_push(fifo, item)              \
    do {                                       \
        (item)->next = (item);                 \
        if ((fifo)->last) {                    \
            (item)->next = (fifo)->last->next; \
            (fifo)->last->next = (item);       \
        }                                      \
        (fifo)->last = (item);                 \
    } while (0)

/* Remove the first item. There must be one. */
#define hf__fifo_shift(fifo)                               \
    do {                                                   \
        if ((fifo)->last->next == (fifo)->last)            \
            (fifo)->last = NULL;                           \
        else                                               \
            (fifo)->last->next = (fifo)->last->next->next; \
    } while (0)

#endif
