/* Handles, as far as the rest of the client needs them. */
#ifndef HF_CLIENT_HOLD_H
#define HF_CLIENT_HOLD_H

#include "client/client.h"
#include "core/multi.h"

/* What makes one hold of several: the user has the first. One allocation. */
typedef struct hf__bundle {
    int lost_fd; /* -1: nobody asked for one */
    unsigned count;
    hf_hold **parts; /* in the order of their names */
    unsigned requests;
    unsigned *part_of; /* of each request, which part that is */
    hf__multi_release *multi_release;
} hf__bundle;

/* The handles that a hold is made of: itself, or those of its bundle. */
static inline unsigned hf__parts(const hf_hold *hold) {
    return hold->bundle ? hold->bundle->count : 1;
}

static inline hf_hold *hf__part_at(const hf_hold *hold, unsigned i) {
    return hold->bundle ? hold->bundle->parts[i] : (hf_hold *)hold;
}

/* End the hold, with all its parts; and stop waiting for that. */
void hf__hold_release(hf_client *client, hf_hold *hold, hf__call *call, hf__time now);
void hf__hold_release_unwait(hf_client *client, const hf_hold *hold, hf__call *call);

/* Free a handle that nobody else has a reference to, with its references to own and client. */
void hf__hold_free(hf_hold *hold);

#endif
