/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of `holdfast run`. */
#ifndef CLI_RUN_RUN_ARGS_H
#define CLI_RUN_RUN_ARGS_H

#include <stdbool.h>
#include <stdint.h>

#include "holdfast.h"
#include "run/on_lost_option.h"

typedef struct run_args {
    char *store;                     /* NULL: not given */
    const char *names[HF_NAMES_MAX]; /* the first is NAME, the others are from --also */
    int name_count;
    char **command;                   /* NULL: hold until signalled */
    char *shell[4];                   /* the words of `command` with -c */
    int64_t wait_ms;                  /* HF_FOREVER by default */
    int64_t lease_ms;                 /* 0: not given */
    int64_t grace_ms;                 /* -1: not given */
    int64_t min_hold_ms, max_hold_ms; /* 0: not given */
    int conflict_code;
    uint32_t kind, permits, capacity;
    on_lost_option lost;
    const char *label; /* NULL: not given */
    const char *on_wait, *on_acquire;
    int json;            /* a descriptor; -1: not given */
    const char *metrics; /* a file; NULL: not given */
    bool tries_once;     /* -n */
} run_args;

/* ARGS_CONTINUE or the exit code. */
int run_args_parse(run_args *a, int argc, char **argv);

#endif
