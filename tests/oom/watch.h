/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Observes which objects the cases receive: with --wrap their calls of the library come here.
 *
 * It checks that nobody is granted a lock that another holds or that the store does not know. It
 * also frees the objects that a failed case has left, so that all memory still allocated was leaked
 * by the library.
 */
#ifndef OOM_WATCH_H
#define OOM_WATCH_H

#include <stdbool.h>

#include "holdfast.h"

/* `witness` inspects the locks of `url` from outside, and its calls never fail. `meddles`: the case
   itself takes locks from their holders, which then may not know yet. */
void watch_begin(const char *url, hf_client *witness, bool meddles);
void watch_end(void);

/* A case was left by a failed assertion: its threads do not know it, and begin no further call. */
void watch_stop(void);

/* The process reports a violation and exits with this code. */
enum { WATCH_VIOLATION = 98 };
_Noreturn void watch_violation(const char *what, const char *name);

#endif
