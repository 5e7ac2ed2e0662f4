/* SPDX-License-Identifier: Apache-2.0 */
/* Handles, for the other files of the client. */
#ifndef HF_CLIENT_HOLD_H
#define HF_CLIENT_HOLD_H

#include "client/client.h"
#include "core/multi.h"

/* Combines several handles into one hold. The user has the first handle. One allocation. */
typedef struct hf__bundle {
    int lost_fd; /* -1: not requested */
    unsigned count;
    hf_hold **parts; /* sorted by name */
    unsigned requests;
    unsigned *part_of; /* for each request, the index of its part */
    hf__multi_release *multi_release;
} hf__bundle;

/* The handles of a hold: itself, or those of its bundle. */
static inline unsigned hf__parts(const hf_hold *hold) {
    return hold->bundle ? hold->bundle->count : 1;
}

static inline hf_hold *hf__part_at(const hf_hold *hold, unsigned i) {
    return hold->bundle ? hold->bundle->parts[i] : (hf_hold *)hold;
}

/* Release the hold with all its parts. And stop waiting for that release. */
void hf__hold_release(hf_client *client, hf_hold *hold, hf__call *call, hf__time now);
void hf__hold_release_unwait(hf_client *client, const hf_hold *hold, hf__call *call);

/* Free a handle that has no other reference, and drop its references to ownership and client. */
void hf__hold_free(hf_hold *hold);

#endif
