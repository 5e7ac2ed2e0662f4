/* SPDX-License-Identifier: Apache-2.0 */
/* Lines for the user's log callback: see log.h. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"

void hf__log_init(hf__log *log, hf_log_fn *fn, void *arg, uint32_t level) {
    *log = (hf__log){.fn = fn, .arg = arg, .level = level ? level : HF_LOG_WARNING};
}

void hf__log_add(hf__log *log, int32_t level, const char *format, ...) {
    if (!log->fn || level > (int32_t)log->level || log->pending >= HF__LOG_PENDING_MAX) return;
    char text[HF__DETAIL_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    hf__log_line *line = malloc(sizeof *line);
    if (!line) return;
    *line = (hf__log_line){.level = level, .text = hf__line("%s", text)};
    if (!log->first) log->end = &log->first;
    *log->end = line;
    log->end = &line->next;
    log->pending++;
}

hf__log_line *hf__log_take(hf__log *log) {
    hf__log_line *lines = log->first;
    log->first = NULL;
    log->pending = 0;
    return lines;
}

void hf__log_run(hf__log_line *lines, hf_log_fn *fn, void *arg) {
    while (lines) {
        hf__log_line *line = lines;
        lines = line->next;
        if (fn && line->text) fn(line->level, line->text, arg);
        free(line->text);
        free(line);
    }
}
