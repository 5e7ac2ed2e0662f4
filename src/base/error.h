/* This thread's last failure, in a line; and how lines travel from where a failure is found. */
#ifndef HF_BASE_ERROR_H
#define HF_BASE_ERROR_H

#include "holdfast.h"

#define HF__DETAIL_MAX 512

/* Set this thread's detail and return the result, so that a failure reads `return hf__fail(…)`. */
hf_result hf__fail(hf_result result, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* As hf__fail, with a line made elsewhere; NULL (memory was out) is the result's own text. */
hf_result hf__fail_line(hf_result result, const char *line);

/* A line on the heap, or NULL: for an answer that another thread will read. Control characters of
   foreign text are replaced, so that a server cannot write on a person's terminal. */
char *hf__line(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
