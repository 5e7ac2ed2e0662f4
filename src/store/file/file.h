/* `file:`: locks of one machine, in a directory; freed by the kernel when a process dies. */
#ifndef HF_STORE_FILE_FILE_H
#define HF_STORE_FILE_FILE_H

#include "base/log.h"
#include "base/url.h"
#include "store/store.h"

/* On HF_OK the store; else the failure is set as this thread's. The URL must outlive the store. */
hf_result hf__file_new(const hf__url *url, const hf__identity *identity, hf__log *log,
                       hf__store **store);

#endif
