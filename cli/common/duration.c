/* SPDX-License-Identifier: Apache-2.0 */
#include "common/duration.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int64_t ms;
} units[] = {{"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool parse_unit(const char *text, int64_t *ms) {
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(text, units[i].name) != 0) continue;
        *ms = units[i].ms;
        return true;
    }
    return false;
}

/* Saturates at INT64_MAX instead of overflowing. */
static int64_t parse_whole(const char **text) {
    int64_t n = 0;
    for (; is_digit(**text); (*text)++)
        if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, **text - '0', &n))
            n = INT64_MAX;
    return n;
}

/* The digits after the decimal point as a fraction of `ms`, rounded up. */
static int64_t parse_fraction(int64_t ms, const char *digits, size_t count) {
    int64_t sum = 0, rest = ms;
    bool more = false;
    for (size_t i = 0; i < count; i++) {
        /* Each digit is worth a tenth of the one before. In nanoseconds, ten digits are enough. */
        rest = i ? rest / 10 : ms * 1000000 / 10;
        sum += rest * (digits[i] - '0');
        more |= digits[i] != '0';
    }
    int64_t up = (sum + 999999) / 1000000;
    return more && !up ? 1 : up;
}

bool duration_parse(const char *text, int64_t *ms) {
    bool digits = is_digit(*text);
    int64_t whole = parse_whole(&text), unit;
    const char *fraction = "";
    size_t places = 0;
    if (*text == '.') {
        fraction = ++text;
        while (is_digit(*text)) text++;
        places = (size_t)(text - fraction);
    }
    if ((!digits && !places) || !parse_unit(text, &unit)) return false;
    if (__builtin_mul_overflow(whole, unit, ms) ||
        __builtin_add_overflow(*ms, parse_fraction(unit, fraction, places), ms))
        *ms = INT64_MAX;
    return true;
}

const char *duration_text(int64_t ms, char text[DURATION_TEXT]) {
    static const struct {
        const char *name;
        int64_t ms;
    } shown[] = {{"days", 86400000}, {"h", 3600000}, {"min", 60000}, {"s", 1000}, {"ms", 1}};
    size_t i = 0;
    while (i < sizeof shown / sizeof *shown - 1 && ms < 2 * shown[i].ms) i++;
    snprintf(text, DURATION_TEXT, "%" PRId64 " %s", ms / shown[i].ms, shown[i].name);
    return text;
}
