/* See t_exempt.h. It is apart from t_inject.c because it is linked into every test, that is not. */
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
