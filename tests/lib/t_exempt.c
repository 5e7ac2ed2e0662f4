/* SPDX-License-Identifier: Apache-2.0 */
/* See t_exempt.h. Separate from t_inject.c, because every test links this file but not that one. */
#include "t_exempt.h"

static _Thread_local int depth;

void t_exempt_begin(void) {
    depth++;
}

void t_exempt_end(void) {
    depth--;
}

void t_exempt_reset(void) {
    depth = 0;
}

bool t_exempt(void) {
    return depth > 0;
}
