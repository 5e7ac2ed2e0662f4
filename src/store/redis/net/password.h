/* The password to log in with: of the URL, or of the file it names, read anew for each connection so
   that it can be changed without a restart. */
#ifndef HF_STORE_REDIS_NET_PASSWORD_H
#define HF_STORE_REDIS_NET_PASSWORD_H

#include "base/url.h"

/* *password is on the heap, for hf__password_free; NULL where there is none. On HF_INVALID or HF_NOMEM
   *detail says why, on the heap. */
hf_result hf__password_get(const hf__url *url, char **password, char **detail);
void hf__password_free(char *password);

#endif
