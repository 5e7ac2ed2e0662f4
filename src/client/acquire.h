/* SPDX-License-Identifier: Apache-2.0 */
/* What all ways of acquiring have in common. */
#ifndef HF_CLIENT_ACQUIRE_H
#define HF_CLIENT_ACQUIRE_H

#include "client/client.h"

/* Check that the options are valid for this client. */
hf_result hf__acquire_check(hf_client *client, const hf_options *options);

/* The lease that the options request, in ms. */
int64_t hf__lease_of(const hf_client *client, const hf_options *options);

/* All of hf_acquire after the call has begun, mutex held. `exported`: the hold to take over, or
   NULL. Time spent before the request is sent is subtracted from wait_ms. */
hf_result hf__acquire(hf_client *client, const char *name, size_t length, hf_options *options,
                      const hf__exported *exported, hf_hold **hold);

/* Allocate and start everything a grant will need, so that a grant cannot fail. */
hf_result hf__acquire_prepare(hf_client *client, hf__wait *wait, const hf_options *options);

/* The opposite, for a wait that did not succeed. */
void hf__acquire_undo(hf_client *client, hf__wait *wait);

/* The owner that the options of a blocking call name; and a new owner that holds nothing else. */
hf__owner hf__owner_of(const hf_options *options);
hf__owner hf__owner_fresh(void);

/* Fill in the wait from the options. */
void hf__acquire_fill(hf__wait *wait, const hf_client *client, const hf_options *options,
                      hf__owner owner, hf__time now);

#endif
