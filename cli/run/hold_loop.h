/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_RUN_HOLD_LOOP_H
#define CLI_RUN_HOLD_LOOP_H

#include <stdbool.h>

#include "base/time.h"
#include "holdfast.h"

/* Holds the lock without a command until SIGINT, SIGTERM or SIGHUP. Prints a message if the lock is
   lost. Returns the exit code; sets *sig to another signal that the process must die of. All
   signals must be blocked. */
int hold_until_signalled(hf_hold *hold, const char *name, int *sig);

/* After the command has ended, holds the lock until the given time. A signal that would end the
   process ends the hold early. Prints a message and returns false if the lock is lost. All signals
   must be blocked. */
bool hold_until(hf_hold *hold, const char *name, hf__time until);

#endif
