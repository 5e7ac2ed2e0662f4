/* SPDX-License-Identifier: Apache-2.0 */
/* --metrics: writes the counters of this run to a file, for a collector that reads files. */
#ifndef CLI_RUN_METRICS_FILE_H
#define CLI_RUN_METRICS_FILE_H

#include "holdfast.h"

/* Replaces the file atomically. Prints a message on failure. Does nothing if `path` is NULL. */
void metrics_file_write(hf_client *client, const char *path);

#endif
