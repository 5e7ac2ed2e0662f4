/* Spans of time as people write them: 5, 0.5, 500ms, 30s, 5m, 2h. A bare number is seconds. */
#ifndef CLI_COMMON_DURATION_H
#define CLI_COMMON_DURATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* To milliseconds, a fraction of one rounded up; a span past counting is INT64_MAX. False for
   anything else, signs and exponents included. */
bool duration_parse(const char *text, int64_t *ms);

/* "250 ms", "27 s", "3 min", "5 h", "2 days": the largest unit there are two of. */
#define DURATION_TEXT 32
const char *duration_text(int64_t ms, char text[DURATION_TEXT]);

#endif
