/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks up a host name without blocking the caller. getaddrinfo has no deadline, so it runs on a
 * thread of its own, which is abandoned if the answer is no longer wanted.
 */
#ifndef HF_STORE_NET_RESOLVE_H
#define HF_STORE_NET_RESOLVE_H

#include <netdb.h>
#include <stdbool.h>

typedef struct hf__resolve hf__resolve;

/* NULL: no memory, thread or descriptor. A numeric address is resolved at once, without a
   thread. */
hf__resolve *hf__resolve_start(const char *host, int port);

/* Readable when the lookup is done. */
int hf__resolve_fd(const hf__resolve *r);

/* False: not done yet. Else *list (the caller frees it with freeaddrinfo) or, if that is NULL,
   *error. */
bool hf__resolve_done(hf__resolve *r, struct addrinfo **list, const char **error);

/* Drops the caller's reference, before or after the lookup is done. */
void hf__resolve_free(hf__resolve *r);

#endif
