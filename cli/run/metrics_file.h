/* --metrics: the counters of this run in a file, for a collector that reads files. */
#ifndef CLI_RUN_METRICS_FILE_H
#define CLI_RUN_METRICS_FILE_H

#include "holdfast.h"

/* Write them, in the place of what the file had, all at once. A failure is said; NULL is no
   file. */
void metrics_file_write(hf_client *client, const char *path);

#endif
