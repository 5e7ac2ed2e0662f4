/* SPDX-License-Identifier: Apache-2.0 */
#include "common/suggestion.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static size_t smaller_of(size_t a, size_t b) {
    return a < b ? a : b;
}

/* The number of letters to insert, delete, change or swap with their neighbour. */
static size_t edit_distance(const char *a, size_t a_length, const char *b, size_t b_length) {
    size_t rows[3][SUGGESTION_MAX + 1];
    size_t *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t j = 0; j <= b_length; j++) last[j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            row[j] = smaller_of(last[j - 1] + (a[i - 1] != b[j - 1]),
                                smaller_of(last[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = smaller_of(row[j], before[j - 2] + 1);
        }
        size_t *oldest = before;
        before = last;
        last = row;
        row = oldest;
    }
    return last[b_length];
}

void suggestion_init(suggestion *n, const char *wanted) {
    /* Allow one typing error in a short word, two in a longer one. */
    size_t length = strcspn(wanted + strspn(wanted, "-"), "=");
    *n = (suggestion){.wanted = wanted, .distance = length > 4 ? 3 : 2};
}

void suggestion_offer(suggestion *n, const char *word, size_t length) {
    const char *wanted = n->wanted + strspn(n->wanted, "-");
    size_t wanted_length = strcspn(wanted, "="), dashes = strspn(word, "-");
    if (dashes >= length || length > SUGGESTION_MAX || wanted_length > SUGGESTION_MAX) return;
    size_t d = edit_distance(wanted, wanted_length, word + dashes, length - dashes);
    if (d >= n->distance || d >= wanted_length) return;
    n->distance = d;
    memcpy(n->word, word, length);
    n->word[length] = '\0';
}

const char *suggestion_text(const suggestion *n, char hint[SUGGESTION_TEXT]) {
    if (!*n->word) return "";
    snprintf(hint, SUGGESTION_TEXT, " (did you mean %s?)", n->word);
    return hint;
}
