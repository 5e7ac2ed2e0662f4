/* Calls that do not block: begun here, finished by whoever turns the client, told by a callback. */
#ifndef HF_CLIENT_ASYNC_H
#define HF_CLIENT_ASYNC_H

#include "client/client.h"

/* A call of the core's was finished that belongs to one of these. Mutex held. */
void hf__async_done(hf_client *client, hf__call *call);

/* End those whose time is up, or whose cancel was fired. Mutex held. */
void hf__async_expire(hf_client *client, hf__time now);
void hf__async_cancelled(hf_client *client);

/* The client closes: end those that are left, to be told; or, in a forked child, tell nobody. */
void hf__async_close(hf_client *client);
void hf__async_forget(hf_client *client);

/* Run the callbacks that are due now: losses and finished calls. The mutex is let go meanwhile. */
void hf__callbacks_run(hf_client *client);
bool hf__callbacks_due(const hf_client *client);

/* This thread runs callbacks of this client. */
bool hf__in_callback(const hf_client *client);

#endif
