/* What every way of acquiring begins with. */
#ifndef HF_CLIENT_ACQUIRE_H
#define HF_CLIENT_ACQUIRE_H

#include "client/client.h"

/* The options are in range, for this client. */
hf_result hf__acquire_check(hf_client *client, const hf_options *options);

/* The lease they ask for. */
int64_t hf__lease_of(const hf_client *client, const hf_options *options);

/* All of hf_acquire once the call has begun, mutex held; `exported` is what is wanted, or NULL. What it waits for
   before it asks comes off wait_ms. */
hf_result hf__acquire(hf_client *client, const char *name, size_t length, hf_options *options,
                      const hf__exported *exported, hf_hold **hold);

/* Allocate and start what a grant will need, so that it cannot fail. */
hf_result hf__acquire_prepare(hf_client *client, hf__wait *wait, const hf_options *options);

/* The opposite, of a wait that came to nothing. */
void hf__acquire_undo(hf_client *client, hf__wait *wait);

/* Who asks: of a call that blocks, by its options; and who has asked for nothing else. */
hf__owner hf__owner_of(const hf_options *options);
hf__owner hf__owner_fresh(void);

/* What is wanted, into the wait. */
void hf__acquire_fill(hf__wait *wait, const hf_client *client, const hf_options *options,
                      hf__owner owner, hf__time now);

#endif
