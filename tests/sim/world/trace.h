/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A log of what happened. Most runs write none. A failing run is repeated with a trace, because the
 * same seed makes the same run.
 */
#ifndef SIM_WORLD_TRACE_H
#define SIM_WORLD_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/time.h"

#define SIM_ANY (-1) /* no particular name */

typedef struct sim_line {
    int name;
    char *text;
} sim_line;

typedef struct sim_trace {
    bool on;
    sim_line *lines;
    size_t count, capacity;
} sim_trace;

void sim_trace_add(sim_trace *trace, hf__time now, int name, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Prints the last lines that concern this name or all names. */
void sim_trace_print(const sim_trace *trace, int name, size_t most);
uint64_t sim_trace_hash(const sim_trace *trace);
void sim_trace_fini(sim_trace *trace);

#endif
