/*
 * A file in a directory that another user may own, who can rename, remove and link entries at any
 * moment. So the directory is opened once, the file is created anew, no symbolic link is followed,
 * and nothing is removed except the file that was created.
 */
#ifndef CLI_COMMON_SAFE_FILE_H
#define CLI_COMMON_SAFE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct safe_file {
    int dir;          /* 0: not open; 0 itself is always the standard input */
    const char *base; /* the name of the file in it; points into the path */
} safe_file;

/* False with errno. safe_file_close is allowed in every case. */
bool safe_file_open(safe_file *f, const char *path);
void safe_file_close(safe_file *f);

/* Create the file, for appending: a descriptor, or -1 with errno; EEXIST if there is one. */
int safe_file_create(const safe_file *f, mode_t mode);

/* Open the file for reading: a descriptor, or -1 with errno; ELOOP if it is a symbolic link. */
int safe_file_open_existing(const safe_file *f);

/* Whether the open file is still the one with this name. */
bool safe_file_is_current(const safe_file *f, int fd);

/* Remove the file if it is still the open one. */
void safe_file_remove(const safe_file *f, int fd);

/* Replace the file atomically: readers find the old content or the new. `durable`: also after a
   power failure. */
bool safe_file_replace(const safe_file *f, mode_t mode, const char *text, size_t length,
                       bool durable);

/* Write all of it; false with errno. */
bool write_all(int fd, const char *text, size_t length);

#endif
