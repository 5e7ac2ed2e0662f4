/* What the command's exit codes mean. Numbers from 64 up are those of sysexits.h where it has
   one. */
#ifndef CLI_COMMON_EXIT_CODES_H
#define CLI_COMMON_EXIT_CODES_H

#include "holdfast.h"

enum {
    EXIT_CONFLICT = 1, /* another holds the lock; -E sets it */
    EXIT_USAGE = 64,
    EXIT_CANNOT_EXEC = 69,
    EXIT_SYSTEM = 71,
    EXIT_STORE = 74, /* unreachable, or no store of ours */
    EXIT_LOST = 75,
    EXIT_UNKNOWN = 76,
    EXIT_REFUSED = 77,
    EXIT_SIGNAL = 128 /* and the signal's number */
};

/* The exit code for a call of the library that failed. */
int exit_code_of(hf_result result);

#endif
