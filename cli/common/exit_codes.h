/* SPDX-License-Identifier: Apache-2.0 */
/* The exit codes of the command. Numbers from 64 on follow sysexits.h where it has a match. */
#ifndef CLI_COMMON_EXIT_CODES_H
#define CLI_COMMON_EXIT_CODES_H

#include "holdfast.h"

enum {
    EXIT_CONFLICT = 1, /* another holds the lock; -E sets it */
    EXIT_USAGE = 64,
    EXIT_CANNOT_EXEC = 69,
    EXIT_SYSTEM = 71,
    EXIT_STORE = 74, /* unreachable, or not a store of Holdfast */
    EXIT_LOST = 75,
    EXIT_UNKNOWN = 76,
    EXIT_REFUSED = 77,
    EXIT_SIGNAL = 128 /* plus the number of the signal */
};

/* The exit code for a failed library call. */
int exit_code_of(hf_result result);

#endif
