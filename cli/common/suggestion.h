/* SPDX-License-Identifier: Apache-2.0 */
/* Suggests a known word for a misspelt one. */
#ifndef CLI_COMMON_SUGGESTION_H
#define CLI_COMMON_SUGGESTION_H

#include <stddef.h>

#define SUGGESTION_MAX 32 /* bytes of a word; longer words get no suggestion */

/* The closest of the words offered so far. */
typedef struct suggestion {
    const char *wanted;
    char word[SUGGESTION_MAX + 1]; /* "": none is close enough */
    size_t distance;
} suggestion;

void suggestion_init(suggestion *n, const char *wanted);

/* `word` need not end with a NUL. Leading dashes are ignored. */
void suggestion_offer(suggestion *n, const char *word, size_t length);

/* " (did you mean WORD?)", or "" */
#define SUGGESTION_TEXT (SUGGESTION_MAX + 20)
const char *suggestion_text(const suggestion *n, char hint[SUGGESTION_TEXT]);

#endif
