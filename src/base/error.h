/* SPDX-License-Identifier: Apache-2.0 */
/* This thread's last failure, as one line of text; and how such lines are made. */
#ifndef HF_BASE_ERROR_H
#define HF_BASE_ERROR_H

#include "holdfast.h"

#define HF__DETAIL_MAX 512

/* Set this thread's detail and return the result, so that a failure reads `return hf__fail(…)`. */
hf_result hf__fail(hf_result result, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Like hf__fail, with a line made elsewhere. NULL (out of memory) stands for the text of the
   result. */
hf_result hf__fail_line(hf_result result, const char *line);

/* A line on the heap, for an answer that another thread will read; NULL: out of memory. Control
   characters are replaced, so that a server cannot control a user's terminal. */
char *hf__line(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
