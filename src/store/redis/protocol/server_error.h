/* SPDX-License-Identifier: Apache-2.0 */
/* What a server's error means for a lock, and what to do about it. */
#ifndef HF_STORE_REDIS_PROTOCOL_SERVER_ERROR_H
#define HF_STORE_REDIS_PROTOCOL_SERVER_ERROR_H

#include "holdfast.h"

/* The result for an error line ("OOM command not allowed…"), and a message for users: where it came
   from, what the server said, what to do. On the heap; NULL when memory is out. */
hf_result hf__server_error(const char *line, const char *where, char **detail);

#endif
