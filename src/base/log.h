/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines for the user's log callback. They are noted under the client's mutex. The thread that
 * unlocks the mutex then delivers them.
 */
#ifndef HF_BASE_LOG_H
#define HF_BASE_LOG_H

#include <stdbool.h>

#include "holdfast.h"

#define HF__LOG_PENDING_MAX 64 /* lines noted and not delivered yet; more are dropped */

typedef struct hf__log_line {
    struct hf__log_line *next;
    int32_t level;
    char *text;
} hf__log_line;

typedef struct hf__log {
    hf_log_fn *fn;
    void *arg;
    uint32_t level;
    unsigned pending;
    hf__log_line *first, **end;
} hf__log;

void hf__log_init(hf__log *log, hf_log_fn *fn, void *arg, uint32_t level);
void hf__log_add(hf__log *log, int32_t level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Take the pending lines. hf__log_run then delivers and frees them (`fn` NULL: only frees). */
hf__log_line *hf__log_take(hf__log *log);
void hf__log_run(hf__log_line *lines, hf_log_fn *fn, void *arg);

#endif
