#include "base/glob.h"

#include <string.h>

/* Where a set ends, past its ']', or NULL: it is none. The first byte of one may be ']' itself. */
static const char *set_end(const char *set) {
    const char *at = set + 1;
    if (*at == '!' || *at == '^') at++;
    if (*at == ']') at++;
    while (*at && *at != ']') at += *at == '\\' && at[1] ? 2 : 1;
    return *at ? at + 1 : NULL;
}

static unsigned char member(const char **at) {
    if (**at == '\\') ++*at;
    return (unsigned char)*(*at)++;
}

static bool in_set(const char *set, const char *end, unsigned char c) {
    const char *at = set + 1;
    bool not = *at == '!' || *at == '^', found = false;
    if (not ) at++;
    do {
        unsigned char low = member(&at), high = low;
        if (*at == '-' && at + 1 < end - 1) {
            at++;
            high = member(&at);
        }
        if (low <= c && c <= high) found = true;
    } while (at < end - 1);
    return found != not ;
}

/* One byte against what stands first in the pattern; where that ends, or NULL: it does not match. */
static const char *match_one(const char *pattern, char c) {
    const char *end = *pattern == '[' ? set_end(pattern) : NULL;
    if (end) return in_set(pattern, end, (unsigned char)c) ? end : NULL;
    if (*pattern == '?') return pattern + 1;
    if (*pattern == '\\' && pattern[1]) pattern++;
    return *pattern == c ? pattern + 1 : NULL;
}

/* What follows the last star is tried at each place behind it; stars before it need no second try. */
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
