/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of the locks. Only this user may have write access: any other writer could remove
   our locks. */
#ifndef HF_STORE_FILE_DIRECTORY_H
#define HF_STORE_FILE_DIRECTORY_H

#include <stdbool.h>

#include "holdfast.h"

/* Open the directory, and make it if it is missing; NULL: the user's default. On HF_OK the caller
   owns the descriptor and the path (heap). Otherwise the error is set for the calling thread. */
hf_result hf__directory_open(const char *path, bool network, int *fd, char **opened);

/* The name of a shared filesystem, which is refused; NULL: this type is not one of them. */
const char *hf__filesystem_shared(long type);

#endif
