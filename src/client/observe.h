/* Observers of who leads, turned by whoever turns the client. All with the mutex held. */
#ifndef HF_CLIENT_OBSERVE_H
#define HF_CLIENT_OBSERVE_H

#include "client/client.h"

/* Look where it is due. */
void hf__observe_tick(hf_client *client, hf__time now);

/* Call those who have something to tell now. The mutex is let go meanwhile. */
void hf__observe_run(hf_client *client);

/* The client closes: nobody is called any more, but for one that is being called. */
void hf__observe_close(hf_client *client);

#endif
