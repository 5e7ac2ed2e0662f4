/*
 * Looking a host name up, without blocking whoever waits for it: getaddrinfo has no deadline, so it
 * runs on a thread of its own, which is left behind if nobody wants its answer any more.
 */
#ifndef HF_STORE_REDIS_NET_RESOLVE_H
#define HF_STORE_REDIS_NET_RESOLVE_H

#include <netdb.h>
#include <stdbool.h>

typedef struct hf__resolve hf__resolve;

/* NULL: no memory, thread or descriptor. An address in digits is there at once. */
hf__resolve *hf__resolve_start(const char *host, int port);

/* Readable when done. */
int hf__resolve_fd(const hf__resolve *r);

/* False: not done yet. Else *list (the caller's, freeaddrinfo) or, if that is NULL, *error. */
bool hf__resolve_done(hf__resolve *r, struct addrinfo **list, const char **error);

/* The answer is not wanted any more, or was taken. */
void hf__resolve_free(hf__resolve *r);

#endif
