/* SPDX-License-Identifier: Apache-2.0 */
/* This thread's last failure: see error.h. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static _Thread_local char detail[HF__DETAIL_MAX];

static const struct {
    hf_result result;
    const char *name, *text;
} results[] = {
#define ROW(name, number, text) {name, #name, text},
    HF_RESULTS(ROW)
#undef ROW
};

const char *hf_result_name(hf_result result) {
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        if (results[i].result == result) return results[i].name;
    return "HF_?";
}

const char *hf_result_text(hf_result result) {
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        if (results[i].result == result) return results[i].text;
    return "a result that this version does not know";
}

const char *hf_error_detail(void) {
    return detail;
}

__attribute__((format(printf, 2, 0))) static void format_line(char *out, const char *format,
                                                              va_list args) {
    vsnprintf(out, HF__DETAIL_MAX, format, args);
    hf__text_sanitize(out, HF__DETAIL_MAX, out, strlen(out));
}

hf_result hf__fail(hf_result result, const char *format, ...) {
    va_list args;
    va_start(args, format);
    format_line(detail, format, args);
    va_end(args);
    return result;
}

hf_result hf__fail_line(hf_result result, const char *line) {
    return hf__fail(result, "%s", line ? line : hf_result_text(result));
}

char *hf__line(const char *format, ...) {
    char *line = malloc(HF__DETAIL_MAX);
    if (!line) return NULL;
    va_list args;
    va_start(args, format);
    format_line(line, format, args);
    va_end(args);
    return line;
}
