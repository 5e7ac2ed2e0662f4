/* Nothing grows: files of locks that were not used for long go, and FIFOs of clients that died. */
#ifndef HF_STORE_FILE_SWEEP_H
#define HF_STORE_FILE_SWEEP_H

#include <stdint.h>

/* Sweep the directory, unless somebody did within a quarter of `keep_ms`. A lock's file is removed when
   its last use is longer ago than that, nobody holds it and nobody waits. */
void hf__sweep(int directory, int64_t keep_ms);

#endif
