/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the locks of a directory: one step of a walk over its files. */
#ifndef HF_STORE_FILE_LIST_H
#define HF_STORE_FILE_LIST_H

#include "store/store.h"

hf_result hf__file_list(int directory, const char *path, const char *prefix, hf__op *op);

#endif
