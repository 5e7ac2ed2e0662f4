/* SPDX-License-Identifier: Apache-2.0 */
#include "world/trace.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/bytes.h"

void sim_trace_add(sim_trace *trace, hf__time now, int name, const char *format, ...) {
    char *said, *text;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&said, format, args);
    va_end(args);
    if (length < 0 || asprintf(&text, "%10.3f ms  %s", (double)now / HF__MS, said) < 0) abort();
    free(said);
    if (trace->count == trace->capacity) {
        trace->capacity = trace->capacity ? 2 * trace->capacity : 256;
        trace->lines = rm_realloc(trace->lines, trace->capacity * sizeof *trace->lines);
    }
    trace->lines[trace->count++] = (sim_line){name, text};
}

static bool concerns_name(const sim_line *line, int name) {
    return name == SIM_ANY || line->name == SIM_ANY || line->name == name;
}

void sim_trace_print(const sim_trace *trace, int name, size_t most) {
    size_t first = trace->count;
    for (size_t found = 0; first && found < most; first--)
        found += concerns_name(&trace->lines[first - 1], name);
    for (size_t i = first; i < trace->count; i++)
        if (concerns_name(&trace->lines[i], name)) printf("%s\n", trace->lines[i].text);
}

uint64_t sim_trace_hash(const sim_trace *trace) {
    uint64_t h = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < trace->count; i++)
        for (const char *at = trace->lines[i].text; *at; at++)
            h = (h ^ (unsigned char)*at) * UINT64_C(1099511628211);
    return h;
}

void sim_trace_fini(sim_trace *trace) {
    for (size_t i = 0; i < trace->count; i++) free(trace->lines[i].text);
    free(trace->lines);
    *trace = (sim_trace){.on = trace->on};
}
