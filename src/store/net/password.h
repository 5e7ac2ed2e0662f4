/* SPDX-License-Identifier: Apache-2.0 */
/* The password to log in with: from the URL, or from the file it names. The file is read again for
   each connection, so the password can be changed without a restart. */
#ifndef HF_STORE_NET_PASSWORD_H
#define HF_STORE_NET_PASSWORD_H

#include "base/url.h"

/* *password is on the heap, freed by hf__password_free; NULL if there is none. On HF_INVALID or
   HF_NOMEM *detail says why, on the heap. */
hf_result hf__password_get(const hf__url *url, char **password, char **detail);
void hf__password_free(char *password);

#endif
