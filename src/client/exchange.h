/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One exchange with the store that belongs to no entry: inspecting, breaking, latches, leaders.
 *
 * The store owns the operation until it completes it, at the latest after the command timeout. A
 * caller that does not wait that long abandons the exchange, which is then freed on completion.
 */
#ifndef HF_CLIENT_EXCHANGE_H
#define HF_CLIENT_EXCHANGE_H

#include "client/client.h"

typedef struct hf__exchange {
    hf__op op;
    hf__call call;  /* finished when the store has answered */
    bool abandoned; /* no thread waits for it: it is on the heap, and is freed on completion */
    /* If set, it is called instead of finishing `call`. Mutex held. */
    void (*on_answer)(struct hf__exchange *exchange, hf__time now);
} hf__exchange;

/* Finish the exchange of a completed operation; false if the operation belongs to the core. */
bool hf__exchange_complete(hf_client *client, hf__op *op, hf__time now);

/* Run an exchange, mutex held; sets this thread's error detail. First reconnects, if the connection
   broke while idle. An operation that was already sent is repeated only if repeating it is
   harmless. */
hf_result hf__exchange_run(hf_client *client, hf__exchange *exchange, hf__time until);

#endif
