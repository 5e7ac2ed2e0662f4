/* SPDX-License-Identifier: Apache-2.0 */
#include "run/on_lost_option.h"

#include <ctype.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static int signal_by_name(const char *name) {
    for (int i = 1; i < NSIG; i++) {
        const char *known = sigabbrev_np(i);
        if (known && strcmp(known, name) == 0) return i;
    }
    return 0;
}

static bool is_number(const char *text) {
    return *text && !text[strspn(text, "0123456789")];
}

static int signal_by_number(const char *text) {
    long n = strlen(text) <= 2 ? strtol(text, NULL, 10) : 0;
    return n > 0 && n < NSIG ? (int)n : 0;
}

bool on_lost_parse(on_lost_option *choice, const char *text) {
    bool prefixed = strncmp(text, "SIG", 3) == 0 && isupper((unsigned char)text[3]);
    bool number = is_number(text);
    int sig = number ? signal_by_number(text) : signal_by_name(prefixed ? text + 3 : text);
    if (sig || strcmp(text, "continue") == 0) {
        choice->signal = sig;
        choice->continues = !sig;
        return true;
    }
    if (prefixed || number || !*text) return false;
    choice->hook = text;
    return true;
}
