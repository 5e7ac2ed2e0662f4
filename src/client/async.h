/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that do not block: begun here, finished by any thread that runs the client, reported by a
 * callback.
 */
#ifndef HF_CLIENT_ASYNC_H
#define HF_CLIENT_ASYNC_H

#include "client/client.h"

/* A call of the core that belongs to an async call is finished. Mutex held. */
void hf__async_done(hf_client *client, hf__call *call);

/* End the calls that have timed out, or whose cancel was fired. Mutex held. */
void hf__async_expire(hf_client *client, hf__time now);
void hf__async_cancelled(hf_client *client);

/* The client closes: end the remaining calls, which makes their callbacks due. In a forked child:
   free the calls, and run no callback. */
void hf__async_close(hf_client *client);
void hf__async_forget(hf_client *client);

#endif
