/* SPDX-License-Identifier: Apache-2.0 */
/* A client in the user's own event loop: one descriptor for everything it waits for. */
#ifndef HF_CLIENT_LOOP_H
#define HF_CLIENT_LOOP_H

#include "client/client.h"

/* Create it, for a client that was opened with HF_NO_THREAD. */
hf_result hf__loop_init(hf_client *client);
void hf__loop_fini(hf_client *client);

/* Make the descriptor readable if there is something to do now. Mutex held. */
void hf__loop_refresh(hf_client *client);

#endif
