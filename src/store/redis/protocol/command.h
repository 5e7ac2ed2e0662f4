/* SPDX-License-Identifier: Apache-2.0 */
/* Writes commands as they go over the wire: RESP arrays of bulk strings, and the keys of a name. */
#ifndef HF_STORE_REDIS_PROTOCOL_COMMAND_H
#define HF_STORE_REDIS_PROTOCOL_COMMAND_H

#include <stdint.h>

#include "base/buffer.h"

/* Begins a command of `count` parts, which must follow. A failure sets the buffer's `failed`: see
   buffer.h. */
void hf__command_begin(hf__buffer *out, int count);
void hf__command_bytes(hf__buffer *out, const void *bytes, size_t length);
void hf__command_string(hf__buffer *out, const char *string);
void hf__command_number(hf__buffer *out, int64_t number);
void hf__command_text(hf__buffer *out, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* client, sign and number, as in 3941…:12 and 3941…:t3. */
void hf__command_id(hf__buffer *out, const char *client, const char *sign, uint64_t number);

/* prefix:{name}suffix, with '{', '}' and '%' in the name percent-encoded. So the only braces in the
   key are those around the name, and all keys of a name are in one slot. */
void hf__command_key(hf__buffer *out, const char *prefix, const char *name, size_t length,
                     const char *suffix);

/* The same without a command. hf__key_length: the length of the key. hf__key_put: writes the key to
   `at`, which must have that much space, and returns its end. hf__key_escape: the escape for a byte
   of the name; NULL: the byte itself. */
size_t hf__key_length(const char *prefix, const char *name, size_t length, const char *suffix);
char *hf__key_put(char *at, const char *prefix, const char *name, size_t length,
                  const char *suffix);
const char *hf__key_escape(char c);

#endif
