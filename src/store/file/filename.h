/* The file of a lock, by its name: readable where it can be, and distinct for distinct names. */
#ifndef HF_STORE_FILE_FILENAME_H
#define HF_STORE_FILE_FILENAME_H

#include <stddef.h>

#include "base/url.h"

#define HF__FILENAME_MAX 255
#define HF__LOCK_START   "lock."

/* A name as it is kept inside the file: prefix, NUL, name. */
#define HF__KEY_MAX (HF__PREFIX_MAX + 1 + HF_NAME_MAX)

/* "lock.hf.orders:42"; bytes that a file name should not have as %2F. What would be too long is a hash
   of it: the key inside the file tells such names apart. */
void hf__filename(char out[HF__FILENAME_MAX + 1], const char *key, size_t length);

/* The key of a file that has it in its name; its length, or 0: the name is a hash, or no lock's. */
size_t hf__filename_key(char key[HF__KEY_MAX + 1], const char *name);

#endif
