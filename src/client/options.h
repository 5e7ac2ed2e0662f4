/* SPDX-License-Identifier: Apache-2.0 */
/* Option structs that grow: how a struct of another version is read. */
#ifndef HF_CLIENT_OPTIONS_H
#define HF_CLIENT_OPTIONS_H

#include <stddef.h>

#include "holdfast.h"

/* Copy a caller's options of `size` bytes into ours of `known` bytes. Fields that an older caller
   lacks are zero. Fields that a newer caller has beyond ours must be zero; otherwise
   HF_UNSUPPORTED. NULL is all zero. */
hf_result hf__options_copy(const char *what, void *to, size_t known, const void *from, size_t size);

#endif
