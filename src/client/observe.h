/* SPDX-License-Identifier: Apache-2.0 */
/* Observers of a leader, run by any thread that runs the client. All functions need the mutex. */
#ifndef HF_CLIENT_OBSERVE_H
#define HF_CLIENT_OBSERVE_H

#include "client/client.h"

/* Query the leader for each observer that is due. */
void hf__observe_tick(hf_client *client, hf__time now);

/* The client closes: no more callbacks are started. */
void hf__observe_close(hf_client *client);

#endif
