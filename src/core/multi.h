/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Acquiring and releasing many names at once: all or nothing.
 *
 * Names are sorted, so two callers that want the same names cannot deadlock. If the store supports
 * it, one request acquires all names, and is granted if all are free. Otherwise the names are
 * acquired one after the other. A call is in one queue at a time, and the names that it has
 * acquired so far are renewed meanwhile. If one of these is lost, it is acquired again, after the
 * names behind it were released.
 */
#ifndef HF_CORE_MULTI_H
#define HF_CORE_MULTI_H

#include "core/core.h"

/* Several calls that are awaited as one. */
typedef struct hf__multi {
    HF__LINK(struct hf__multi) link; /* in core->multi_ready */
    hf__core *core;
    unsigned pending;
    bool is_acquire; /* an hf__multi_acquire; else an hf__multi_release */
} hf__multi;

/* One of the names. The caller fills in `name` and `length`, and in `wait` the owner, lease, kind,
   permits, capacity and flags, and `handle`; it prepares the wait as for any acquire. */
typedef struct hf__multi_part {
    hf__wait wait;
    const char *name;
    size_t length;
    bool requested;       /* an acquire of it was begun, and it was not released since */
    hf__call extend_call; /* `multi` is set while it is in flight */
} hf__multi_part;

typedef struct hf__multi_acquire {
    hf__multi multi;
    hf__call call; /* finished when all are held, or when the acquire has failed */
    hf__time started_at, until;
    int64_t max_hold_ms; /* counted from when all are held */
    bool try_once;
    bool no_renew; /* applies from when all are held */

    bool one_by_one;
    bool leases_restarted;    /* after all were held */
    hf_result give_up_reason; /* HF_OK: not given up */
    unsigned count;
    hf__multi_part parts[];
} hf__multi_acquire;

/* Begin. The call may be finished on return. On HF_OK every part's handle is on an ownership.
   Otherwise nothing is held, and the caller discards the wait of each part. */
void hf__core_acquire_all(hf__multi_acquire *multi, hf__time now);

/* The call has timed out or is cancelled. */
void hf__core_give_up_all(hf__multi_acquire *multi, hf_result why, hf__time now);

/* A release of many names. */
typedef struct hf__multi_release {
    hf__multi multi;
    hf__call *call; /* finished with the worst result of any part */
    unsigned count;
    hf__call calls[];
} hf__multi_release;

/* Release `count` handles; `release` must have space for as many calls. `call` is as in
   hf__core_release. */
void hf__core_release_all(hf__core *core, hf__handle *const *handles, unsigned count,
                          hf__multi_release *release, hf__call *call, hf__time now);
void hf__core_release_all_unwait(hf__multi_release *release, hf__handle *const *handles,
                                 hf__time now);

#endif
