/* SPDX-License-Identifier: Apache-2.0 */
/* A configuration file: `store = URL`, blank lines, and comments that begin with '#'. */
#ifndef CLI_COMMON_CONFIG_H
#define CLI_COMMON_CONFIG_H

/*
 * If the file exists and names a store, sets *url, and *from to "PATH:LINE"; the caller frees both.
 * Returns 0, or the exit code after printing the error. A file that cannot be read is an error and
 * never skipped: a user who expects locks across machines must not get local locks.
 */
int config_read(const char *path, char **url, char **from);

#endif
