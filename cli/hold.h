#ifndef CLI_HOLD_H
#define CLI_HOLD_H

#include "holdfast.h"

/* Hold without a command, until SIGINT, SIGTERM or SIGHUP. The exit code, with a loss said; or *sig is
   set, to another signal that we are to die of. All signals must be blocked. */
int hold_until_signalled(hf_hold *hold, const char *name, int *sig);

#endif
