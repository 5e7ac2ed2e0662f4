/* SPDX-License-Identifier: Apache-2.0 */
/* Acquires a lock for `holdfast acquire`, with or without a helper process. */
#ifndef CLI_HOLD_ACQUIRE_WAIT_H
#define CLI_HOLD_ACQUIRE_WAIT_H

#include "common/store.h"
#include "holdfast.h"

/* Returns 0 and the hold, with all signals blocked, or the exit code after printing the error. A
   signal that would end the process ends the wait, and its exit code is returned. */
int acquire_wait(hf_client *client, const store *s, const char *name, const hf_options *options,
                 int conflict_code, hf_hold **hold);

#endif
