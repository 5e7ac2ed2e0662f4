/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue of callbacks that are due: first losses, then finished async calls and changes that
 * observers report. Each of the two parts is in the order in which its callbacks became due. All
 * functions need the mutex, except hf__in_callback.
 */
#ifndef HF_CLIENT_CALLBACKS_H
#define HF_CLIENT_CALLBACKS_H

#include "client/client.h"

/* It is due, and is not yet in the queue. */
void hf__callback_add(hf_client *client, hf__callback *callback);

/* Take it out of the queue, if it is still there. */
void hf__callback_cancel(hf_client *client, hf__callback *callback);

bool hf__callbacks_due(const hf_client *client);

/* Run the callbacks that are due now. Unlocks the mutex meanwhile. */
void hf__callbacks_run(hf_client *client);

/* Whether this thread is running callbacks of this client. */
bool hf__in_callback(const hf_client *client);

/* Wait while a callback sets `running`, unless this is the thread that runs it. */
void hf__callback_await(hf_client *client, const bool *running);

/* Start the thread that runs callbacks, if there is none; and stop it, once all have run. The
   latter without the mutex. */
hf_result hf__callbacks_start(hf_client *client);
void hf__callbacks_join(hf_client *client);

/* Report what the core has found lost. */
void hf__report_lost(hf_client *client);

#endif
