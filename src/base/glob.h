/* SPDX-License-Identifier: Apache-2.0 */
/* Shell patterns, on bytes, independent of the locale. */
#ifndef HF_BASE_GLOB_H
#define HF_BASE_GLOB_H

#include <stdbool.h>
#include <stddef.h>

/* Supports `*`, `?`, [a-z], [!a-z] and backslash. A bracket that is never closed stands for itself.
   The time is at most proportional to the product of the two lengths. */
bool hf__glob(const char *pattern, const char *text);

/* How many bytes at the start of the pattern are plain: every match begins with them. */
size_t hf__glob_prefix_length(const char *pattern);

#endif
