/* A client in the user's own event loop: one descriptor for all that it waits for. */
#ifndef HF_CLIENT_LOOP_H
#define HF_CLIENT_LOOP_H

#include "client/client.h"

/* Make it, for a client opened with HF_NO_THREAD. */
hf_result hf__loop_init(hf_client *client);
void hf__loop_fini(hf_client *client);

/* Let the descriptor poll readable when there is something to do, as of now. Mutex held. */
void hf__loop_refresh(hf_client *client);

#endif
