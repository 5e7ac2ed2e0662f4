/* What is kept beside a lock of the directory: its latch, and what its leader says; each in a file
   of its own. */
#ifndef HF_STORE_FILE_LATCH_LEADER_H
#define HF_STORE_FILE_LATCH_LEADER_H

#include "store/store.h"

/* Nobody is woken: who waits for a latch, or watches a leader, looks so often. */
#define HF__LATCH_RETRY_MS 50

hf_result hf__file_latch(int directory, const char *path, const char *key, size_t length,
                         hf__op *op);

/* The hold has been seen to be ours. */
hf_result hf__file_proclaim(int directory, const char *path, const char *key, size_t length,
                            hf__op *op);

/* What was said under this token, into op->word. HF_NOT_HELD: nothing. */
hf_result hf__file_leader_value(int directory, const char *path, const char *key, size_t length,
                                uint64_t token, hf__op *op);

#endif
