/* Patterns as a shell has them, over bytes: no locale has a say. */
#ifndef HF_BASE_GLOB_H
#define HF_BASE_GLOB_H

#include <stdbool.h>
#include <stddef.h>

/* `*`, `?`, [a-z], [!a-z] and a backslash; a bracket that is never closed is itself. Takes no longer
   than the two lengths multiplied. */
bool hf__glob(const char *pattern, const char *text);

/* What all that match begin with: this many bytes of the pattern, none of which needs a meaning. */
size_t hf__glob_prefix_length(const char *pattern);

#endif
