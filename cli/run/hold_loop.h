#ifndef CLI_RUN_HOLD_LOOP_H
#define CLI_RUN_HOLD_LOOP_H

#include <stdbool.h>

#include "base/time.h"
#include "holdfast.h"

/* Hold without a command, until SIGINT, SIGTERM or SIGHUP. The exit code, with a loss said; or
   *sig is set, to another signal that we are to die of. All signals must be blocked. */
int hold_until_signalled(hf_hold *hold, const char *name, int *sig);

/* Hold on until then, when the command has ended; a signal that would end us ends that. False,
   with the loss said, if it was lost. All signals must be blocked. */
bool hold_until(hf_hold *hold, const char *name, hf__time until);

#endif
