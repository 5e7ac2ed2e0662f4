/* SPDX-License-Identifier: Apache-2.0 */
/* Holds, for the other files of the client. */
#ifndef HF_CLIENT_HOLD_H
#define HF_CLIENT_HOLD_H

#include "client/callbacks.h"
#include "core/multi.h"

/* Makes one hold of several: the user has the first one. One allocation. */
typedef struct hf__bundle {
    int lost_fd; /* -1: not requested */
    unsigned count;
    hf__handle **parts; /* sorted by name */
    unsigned requests;
    unsigned *part_of; /* for each request, the index of its part */
    hf__multi_release *multi_release;
} hf__bundle;

struct hf_hold {
    hf__handle handle; /* first: see hf__hold_of */
    hf_client *client;
    atomic_uint refs;
    bool lost_reported,
        in_on_lost; /* on_lost is due or was called, or must not be; it is running */
    hf_lost_fn *on_lost;
    void *arg;
    hf__callback lost;
    hf__bundle *bundle; /* of the hold of many names that it is a part of; NULL: none */
};

static inline hf_hold *hf__hold_of(hf__handle *handle) {
    return (hf_hold *)handle;
}

/* The hold that the user has, to which the handle belongs. */
static inline hf_hold *hf__user_hold(hf__handle *handle) {
    hf_hold *hold = hf__hold_of(handle);
    return hold->bundle ? hf__hold_of(hold->bundle->parts[0]) : hold;
}

/* The handles of a hold: its own, or those of its bundle. */
static inline unsigned hf__parts(const hf_hold *hold) {
    return hold->bundle ? hold->bundle->count : 1;
}

static inline hf__handle *hf__part_at(const hf_hold *hold, unsigned i) {
    return hold->bundle ? hold->bundle->parts[i] : (hf__handle *)&hold->handle;
}

/* The hold belongs to the parent of this process. */
static inline bool hf__hold_forked(const hf_hold *hold) {
    return hold->client->fork_generation != hf__fork_generation();
}

/* Begin a call on a hold: HF_INVALID or HF_FORKED; otherwise the client's mutex is held. The call
   ends with hf__call_end. */
hf_result hf__hold_call_begin(const hf_hold *hold);

/* Release the hold with all its parts. And stop waiting for that release. */
void hf__hold_release(hf_client *client, hf_hold *hold, hf__call *call, hf__time now);
void hf__hold_release_unwait(hf_client *client, const hf_hold *hold, hf__call *call);

/* Whether all parts are held as of `now`. */
bool hf__hold_valid(const hf_hold *hold, hf__time now);

#endif
