/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file in a directory that another user may own. That user can rename, remove and link entries at
 * any moment. So the directory is opened once, the file is created anew, symbolic links are not
 * followed, and only the file that was created is ever removed.
 */
#ifndef CLI_COMMON_SAFE_FILE_H
#define CLI_COMMON_SAFE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct safe_file {
    int dir;          /* 0: not open; descriptor 0 is always standard input */
    const char *base; /* the name of the file in `dir`; points into the path */
} safe_file;

/* False with errno. safe_file_close may be called in any case. */
bool safe_file_open(safe_file *f, const char *path);
void safe_file_close(safe_file *f);

/* Creates the file for appending. Returns a descriptor, or -1 with errno; EEXIST if the file
   exists. */
int safe_file_create(const safe_file *f, mode_t mode);

/* Opens the file for reading. Returns a descriptor, or -1 with errno; ELOOP if it is a symbolic
   link. */
int safe_file_open_existing(const safe_file *f);

/* True if this name still refers to the open file. */
bool safe_file_is_current(const safe_file *f, int fd);

/* Removes the file if this name still refers to the open file. */
void safe_file_remove(const safe_file *f, int fd);

/* Replaces the file atomically: readers see the old or the new content. `durable`: also after a
   power failure. */
bool safe_file_replace(const safe_file *f, mode_t mode, const char *text, size_t length,
                       bool durable);

/* Writes everything. False with errno. */
bool write_all(int fd, const char *text, size_t length);

#endif
