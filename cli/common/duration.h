/* SPDX-License-Identifier: Apache-2.0 */
/* Durations as people write them: 5, 0.5, 500ms, 30s, 5m, 2h. A number without a unit is
   seconds. */
#ifndef CLI_COMMON_DURATION_H
#define CLI_COMMON_DURATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Parses to milliseconds and rounds fractions up. A duration that is too long becomes INT64_MAX.
   False for anything else, including signs and exponents. */
bool duration_parse(const char *text, int64_t *ms);

/* "250 ms", "27 s", "3 min", "5 h", "2 days": uses the largest unit with a value of at least
   two. */
#define DURATION_TEXT 32
const char *duration_text(int64_t ms, char text[DURATION_TEXT]);

#endif
