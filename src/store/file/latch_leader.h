/* SPDX-License-Identifier: Apache-2.0 */
/* The latch of a lock and the value of its leader, for the file store. Each is in a sidecar
   file. */
#ifndef HF_STORE_FILE_LATCH_LEADER_H
#define HF_STORE_FILE_LATCH_LEADER_H

#include "store/store.h"

/* There are no wake-ups here: waiters of a latch and watchers of a leader poll at this interval. */
#define HF__LATCH_RETRY_MS 50

hf_result hf__file_latch(int directory, const char *path, const char *key, size_t length,
                         hf__op *op);

/* The caller has checked that the hold is ours. */
hf_result hf__file_proclaim(int directory, const char *path, const char *key, size_t length,
                            hf__op *op);

/* The value that was set under this token, into op->leader_value. HF_NOT_HELD: none. */
hf_result hf__file_leader_value(int directory, const char *path, const char *key, size_t length,
                                uint64_t token, hf__op *op);

#endif
