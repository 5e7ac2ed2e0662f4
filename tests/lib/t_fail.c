/* SPDX-License-Identifier: Apache-2.0 */
/* See t_fail.h. */
#include "t_fail.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "t_exempt.h"

static void (*at_end[4])(void);

void t_end(void) {
    for (int i = 0; i < 4; i++) {
        if (at_end[i]) at_end[i]();
    }
}

void t_at_end(void (*fn)(void)) {
    if (!at_end[0]) (void)atexit(t_end);
    for (int i = 0; i < 4; i++) {
        if (at_end[i] == fn) return;
        if (at_end[i]) continue;
        at_end[i] = fn;
        return;
    }
}

_Noreturn static void end_test(const char *file, int line) {
    /* The failure may come from inside an exempted helper, which cannot end its exemption any
       more. */
    t_exempt_reset();
    if (gettid() == getpid()) _fail(file, line);
    t_end();
    abort();
}

_Noreturn void t_fail(const char *format, ...) {
    va_list args;
    char message[4096];
    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    fprintf(stderr, "FAILED: %s\n", message);
    end_test("t_fail", 0);
}

_Noreturn void t_fail_at(const char *file, int line, const char *format, ...) {
    va_list args;
    char message[4096];
    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    fprintf(stderr, "FAILED: %s:%d: %s\n", file, line, message);
    end_test(file, line);
}

/* ---- Tests that are not run ------------------------------------------------------------------ */

static bool is_lacking(const char *ability) {
    const char *lacks = getenv("HOLDFAST_TEST_LACKS");
    size_t length = strlen(ability);
    for (const char *at = lacks; at && (at = strstr(at, ability)); at += length) {
        bool begins = at == lacks || at[-1] == ' ', ends = !at[length] || at[length] == ' ';
        if (begins && ends) return true;
    }
    return false;
}

void t_leave_out(const char *test, const char *ability) {
    if (!is_lacking(ability)) return;
    printf("left out: %s: the server lacks %s\n", test, ability);
    cmocka_set_skip_filter(test);
}
