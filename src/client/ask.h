/*
 * One exchange with the store that is no entry's: looking, breaking, latches, leaders. The store
 * has the operation until it completes it, which its command timeout bounds; who does not wait so
 * long leaves it to be freed then.
 */
#ifndef HF_CLIENT_ASK_H
#define HF_CLIENT_ASK_H

#include "client/client.h"

typedef struct hf__ask {
    hf__op op;
    hf__call call;  /* finished when the store has answered */
    bool abandoned; /* nobody waits for it: it is on the heap, and freed instead */
    /* If set, called instead. Mutex held. */
    void (*told)(struct hf__ask *ask, hf__time now);
} hf__ask;

/* Finish what is behind a completed operation; false if it is the core's. */
bool hf__ask_complete(hf__core *core, hf__op *op, hf__time now);

/* Exchange, mutex held. The failure is set as this thread's. A connection that broke while nobody
   used it is made again first; what has been sent is sent again only if that does no harm. */
hf_result hf__ask_exchange(hf_client *client, hf__ask *ask, hf__time until);

#endif
