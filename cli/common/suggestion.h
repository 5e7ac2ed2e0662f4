/* Which word was meant by one that is not known: a slip of the fingers, not a thesaurus. */
#ifndef CLI_COMMON_SUGGESTION_H
#define CLI_COMMON_SUGGESTION_H

#include <stddef.h>

#define SUGGESTION_MAX 32 /* bytes of a word; a longer one is like no other */

/* The nearest so far, over words that are offered one by one. */
typedef struct suggestion {
    const char *wanted;
    char word[SUGGESTION_MAX + 1]; /* "": none is near */
    size_t distance;
} suggestion;

void suggestion_init(suggestion *n, const char *wanted);

/* `word` need not end with a NUL. Dashes at the beginning do not count. */
void suggestion_offer(suggestion *n, const char *word, size_t length);

/* ", but there is WORD", or "" */
#define SUGGESTION_TEXT (SUGGESTION_MAX + 20)
const char *suggestion_text(const suggestion *n, char hint[SUGGESTION_TEXT]);

#endif
