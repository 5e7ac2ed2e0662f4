/*
 * One exchange with the store that is no entry's: looking, breaking, latches, leaders. The store
 * has the operation until it completes it, which its command timeout bounds; who does not wait so
 * long leaves it to be freed then.
 */
#ifndef HF_CLIENT_EXCHANGE_H
#define HF_CLIENT_EXCHANGE_H

#include "client/client.h"

typedef struct hf__exchange {
    hf__op op;
    hf__call call;  /* finished when the store has answered */
    bool abandoned; /* nobody waits for it: it is on the heap, and freed instead */
    /* If set, called instead. Mutex held. */
    void (*on_answer)(struct hf__exchange *exchange, hf__time now);
} hf__exchange;

/* Finish what is behind a completed operation; false if it is the core's. */
bool hf__exchange_complete(hf__core *core, hf__op *op, hf__time now);

/* Exchange, mutex held. The failure is set as this thread's. A connection that broke while nobody
   used it is made again first; what has been sent is sent again only if that does no harm. */
hf_result hf__exchange_run(hf_client *client, hf__exchange *exchange, hf__time until);

#endif
