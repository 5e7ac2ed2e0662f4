/* Which word was meant by one that is not known: a slip of the fingers, not a thesaurus. */
#ifndef CLI_COMMON_NEAREST_H
#define CLI_COMMON_NEAREST_H

#include <stddef.h>

#define NEAREST_MAX 32 /* bytes of a word; a longer one is like no other */

/* The nearest so far, over words that are offered one by one. */
typedef struct nearest {
    const char *wanted;
    char word[NEAREST_MAX + 1]; /* "": none is near */
    size_t distance;
} nearest;

void nearest_init(nearest *n, const char *wanted);

/* `word` need not end with a NUL. Dashes at the beginning do not count. */
void nearest_offer(nearest *n, const char *word, size_t length);

/* ", but there is WORD", or "" */
#define NEAREST_HINT_BYTES (NEAREST_MAX + 20)
const char *nearest_hint(const nearest *n, char hint[NEAREST_HINT_BYTES]);

#endif
