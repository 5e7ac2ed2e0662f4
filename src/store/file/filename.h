/* SPDX-License-Identifier: Apache-2.0 */
/* The file name of a lock: readable where possible, and distinct for distinct lock names. */
#ifndef HF_STORE_FILE_FILENAME_H
#define HF_STORE_FILE_FILENAME_H

#include <stddef.h>

#include "base/url.h"

#define HF__FILENAME_MAX 255
#define HF__LOCK_START   "lock."

/* The longest key of a lock, as stored in its file: prefix, NUL, name. */
#define HF__KEY_MAX (HF__PREFIX_MAX + 1 + HF_NAME_MAX)

/* For example "lock.hf.orders:42". Bytes that are unsafe in a file name become %2F and the like. A
   name that would be too long becomes a hash; the key inside the file distinguishes such locks. */
void hf__filename(char out[HF__FILENAME_MAX + 1], const char *key, size_t length);

/* The key that a file name encodes. Returns its length; 0: the name is a hash or not a lock's. */
size_t hf__filename_key(char key[HF__KEY_MAX + 1], const char *name);

#endif
