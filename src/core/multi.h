/*
 * Many names at once: all or nothing.
 *
 * Names are sorted, so that two callers who want the same ones cannot wait for each other. Where the store can,
 * all are asked for in one step, which grants them if all are free. If they are not, one is waited for after
 * the other, those before it being held and renewed meanwhile; nobody stands in several lines at once.
 * Should one be lost meanwhile, those behind it are let go and it is asked for again.
 */
#ifndef HF_CORE_MULTI_H
#define HF_CORE_MULTI_H

#include "core/core.h"

/* Some calls that are waited for as one. */
typedef struct hf__multi {
    struct hf__multi *next; /* in core->gathered */
    hf__core *core;
    unsigned pending;
    bool is_acquire; /* an hf__multi_acquire; else an hf__multi_release */
} hf__multi;

/* One of the names. The caller fills in `name`, `length` and of `wait` what is wanted: owner, lease, kind,
   permits, capacity, flags, and own and hold as for any acquire. */
typedef struct hf__multi_part {
    hf__wait wait;
    const char *name;
    size_t length;
    bool requested;       /* since it was last without anything */
    hf__call extend_call; /* `whole` is set while it is under way */
} hf__multi_part;

typedef struct hf__multi_acquire {
    hf__multi multi;
    hf__call call; /* finished when all are held, or none is wanted any more */
    hf__time started_at, until;
    int64_t max_hold_ms; /* counted from when all are held */
    bool try_once;
    bool no_renew; /* from when all are held */

    bool one_by_one;
    bool leases_restarted;    /* anew, once all were held */
    hf_result give_up_reason; /* given up; HF_OK: it is not */
    unsigned count;
    hf__multi_part parts[];
} hf__multi_acquire;

/* Begin. It may be finished on return. On HF_OK every part's hold is the user's; otherwise own and hold of
   each are still the caller's to free, and nothing is held. */
void hf__core_acquire_all(hf__multi_acquire *multi, hf__time now);

/* Its time is up or it is cancelled. */
void hf__core_give_up_all(hf__multi_acquire *multi, hf_result why, hf__time now);

/* A release of many. */
typedef struct hf__multi_release {
    hf__multi multi;
    hf__call *call; /* finished with the worst that came of any */
    unsigned count;
    hf__call calls[];
} hf__multi_release;

/* End some handles, `release` having room for as many; `call` as for a release of one. */
void hf__core_release_all(hf__core *core, hf_hold *const *holds, unsigned count,
                          hf__multi_release *release, hf__call *call, hf__time now);
void hf__core_release_all_unwait(hf__multi_release *release, hf_hold *const *holds, hf__time now);

#endif
