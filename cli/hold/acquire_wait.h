/* Taking a lock that is waited for, as `acquire` does it with and without a helper. */
#ifndef CLI_HOLD_ACQUIRE_WAIT_H
#define CLI_HOLD_ACQUIRE_WAIT_H

#include "common/store.h"
#include "holdfast.h"

/* 0 and the hold, with all signals blocked; or the exit code with the failure said. A signal
   that would end us ends the wait first, and then us. */
int acquire_wait(hf_client *client, const store *s, const char *name, const hf_options *options,
                 int conflict_code, hf_hold **hold);

#endif
