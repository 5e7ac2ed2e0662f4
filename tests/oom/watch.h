/*
 * What the cases were given, seen from outside of them: with --wrap their calls of the library come here.
 *
 * It sees that nobody is told that it holds a lock which another holds, or which the store knows nothing of; and
 * gives back what a case that failed has left, so that what is then still allocated was leaked by the library.
 */
#ifndef OOM_WATCH_H
#define OOM_WATCH_H

#include <stdbool.h>

#include "holdfast.h"

/* `witness` looks at the locks of `url` from outside, and meets no failures. `meddles`: the case takes locks from
   their holders by itself, who then do not know yet. */
void watch_begin(const char *url, hf_client *witness, bool meddles);
void watch_end(void);

/* A case was left in its midst: its threads, which know nothing of that, begin no further call from now on. */
void watch_stop(void);

/* What must never be: said, and the process ended with this. */
enum { WATCH_VIOLATION = 98 };
_Noreturn void watch_violation(const char *what, const char *name);

#endif
