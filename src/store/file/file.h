/* SPDX-License-Identifier: Apache-2.0 */
/* The `file:` store: locks of one machine in a directory. The kernel frees them when a process
   dies. */
#ifndef HF_STORE_FILE_FILE_H
#define HF_STORE_FILE_FILE_H

#include "base/log.h"
#include "base/url.h"
#include "store/store.h"

/* On HF_OK `store` is set; otherwise the error is set for the calling thread. Borrows `url` and
   `log`, which must outlive the store. */
hf_result hf__file_new(const hf__url *url, const hf__identity *identity, hf__log *log,
                       hf__store **store);

#endif
