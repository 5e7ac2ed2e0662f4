/*
 * The directory of the locks. It must be ours alone: whoever may write there can take our locks away,
 * and whoever made it before us could be anybody.
 */
#ifndef HF_STORE_FILE_DIRECTORY_H
#define HF_STORE_FILE_DIRECTORY_H

#include <stdbool.h>

#include "holdfast.h"

/* Open it, making it if need be; NULL: the user's default. On HF_OK the descriptor and the path, on the
   heap, are the caller's; else the failure is set as this thread's. */
hf_result hf__directory_open(const char *path, bool network, int *fd, char **opened);

/* Refused kinds of filesystems by name; NULL: not one of them. */
const char *hf__filesystem_shared(long type);

#endif
