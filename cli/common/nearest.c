#include "common/nearest.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* How many letters must be put in, left out, changed or swapped with their neighbour. */
static size_t distance(const char *a, size_t a_length, const char *b, size_t b_length) {
    size_t rows[3][NEAREST_MAX + 1];
    size_t *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t j = 0; j <= b_length; j++) last[j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            row[j] = least(last[j - 1] + (a[i - 1] != b[j - 1]), least(last[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], before[j - 2] + 1);
        }
        size_t *oldest = before;
        before = last;
        last = row;
        row = oldest;
    }
    return last[b_length];
}

void nearest_init(nearest *n, const char *wanted) {
    /* One slip in a short word, two in a longer one: more makes another word. */
    size_t length = strcspn(wanted + strspn(wanted, "-"), "=");
    *n = (nearest){.wanted = wanted, .distance = length > 4 ? 3 : 2};
}

void nearest_offer(nearest *n, const char *word, size_t length) {
    const char *wanted = n->wanted + strspn(n->wanted, "-");
    size_t wanted_length = strcspn(wanted, "="), dashes = strspn(word, "-");
    if (dashes >= length || length > NEAREST_MAX || wanted_length > NEAREST_MAX) return;
    size_t d = distance(wanted, wanted_length, word + dashes, length - dashes);
    if (d >= n->distance || d >= wanted_length) return;
    n->distance = d;
    memcpy(n->word, word, length);
    n->word[length] = '\0';
}

const char *nearest_hint(const nearest *n, char hint[NEAREST_HINT_BYTES]) {
    if (!*n->word) return "";
    snprintf(hint, NEAREST_HINT_BYTES, ", but there is %s", n->word);
    return hint;
}
