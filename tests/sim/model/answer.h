/* SPDX-License-Identifier: Apache-2.0 */
/* Writes RESP2 answers to the end of a buffer. */
#ifndef SIM_MODEL_ANSWER_H
#define SIM_MODEL_ANSWER_H

#include "base/buffer.h"
#include "model/bytes.h"

void rm_status(hf__buffer *out, const char *text);

/* "ERR …", without the minus sign. Line breaks in the text become spaces. */
void rm_error(hf__buffer *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
void rm_number(hf__buffer *out, int64_t n);
void rm_bulk(hf__buffer *out, rm_bytes b);
void rm_null(hf__buffer *out);
void rm_null_array(hf__buffer *out);
void rm_array(hf__buffer *out, size_t count);

#endif
