/* SPDX-License-Identifier: Apache-2.0 */
/* Shell patterns: see glob.h. */
#include "base/glob.h"

#include <string.h>

/* The end of a set, after its ']'; NULL: not a set. The first byte of a set may be ']' itself. */
static const char *find_set_end(const char *set) {
    const char *at = set + 1;
    if (*at == '!' || *at == '^') at++;
    if (*at == ']') at++;
    while (*at && *at != ']') at += *at == '\\' && at[1] ? 2 : 1;
    return *at ? at + 1 : NULL;
}

static unsigned char read_set_member(const char **at) {
    if (**at == '\\') ++*at;
    return (unsigned char)*(*at)++;
}

static bool set_contains(const char *set, const char *end, unsigned char c) {
    const char *at = set + 1;
    bool not = *at == '!' || *at == '^', found = false;
    if (not ) at++;
    do {
        unsigned char low = read_set_member(&at), high = low;
        if (*at == '-' && at + 1 < end - 1) {
            at++;
            high = read_set_member(&at);
        }
        if (low <= c && c <= high) found = true;
    } while (at < end - 1);
    return found != not ;
}

/* Match one byte with the start of the pattern. Returns the rest of the pattern; NULL: no match. */
static const char *match_one(const char *pattern, char c) {
    const char *end = *pattern == '[' ? find_set_end(pattern) : NULL;
    if (end) return set_contains(pattern, end, (unsigned char)c) ? end : NULL;
    if (*pattern == '?') return pattern + 1;
    if (*pattern == '\\' && pattern[1]) pattern++;
    return *pattern == c ? pattern + 1 : NULL;
}

/* After a mismatch, the last star takes one byte more, and matching resumes behind it. Earlier
   stars need no second try. */
bool hf__glob(const char *pattern, const char *text) {
    const char *star = NULL, *from = NULL;
    while (*text) {
        const char *next = *pattern && *pattern != '*' ? match_one(pattern, *text) : NULL;
        if (*pattern == '*') {
            star = ++pattern;
            from = text;
        } else if (next) {
            pattern = next;
            text++;
        } else if (star) {
            pattern = star;
            text = ++from;
        } else {
            return false;
        }
    }
    while (*pattern == '*') pattern++;
    return !*pattern;
}

size_t hf__glob_prefix_length(const char *pattern) {
    return strcspn(pattern, "*?[\\");
}
