/* SPDX-License-Identifier: Apache-2.0 */
/* The names of a soak, and its list of violations. */
#include <stdarg.h>
#include <stdio.h>

#include "soak.h"

typedef struct name_family {
    const char *text;
    int count;
} name_family;

static const name_family families[SOAK_FAMILIES] = {
    [SOAK_MUTEX] = {"mutex", 4},   [SOAK_SHARED] = {"shared", 3}, [SOAK_PERMIT] = {"permits", 2},
    [SOAK_MANY] = {"together", 6}, [SOAK_LEAD] = {"lead", 1},     [SOAK_LONE] = {"lone", 200},
};

int soak_names_of(int of) {
    return families[of].count;
}

int soak_name(int store, int of, int number, char *text) {
    int at = 0, each = 0;
    for (int i = 0; i < SOAK_FAMILIES; i++) {
        if (i < of) at += families[i].count;
        each += families[i].count;
    }
    snprintf(text, SOAK_NAME_ROOM, "%s-%d", families[of].text, number);
    return store * each + at + number;
}

void soak_violated(soak *s, const char *format, ...) {
    va_list args;
    int i = atomic_fetch_add(&s->violations, 1);
    if (i >= SOAK_NOTES) return;
    va_start(args, format);
    vsnprintf(s->notes[i], SOAK_NOTE_ROOM, format, args);
    va_end(args);
}
