/*
 * A file in a directory that another user may own, who can rename, remove and link entries at any
 * moment. So the directory is opened once, the file is created anew, no symbolic link is followed,
 * and nothing is removed except the file that was created.
 */
#ifndef CLI_COMMON_PLACE_H
#define CLI_COMMON_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct place {
    int dir;          /* 0: not open; 0 itself is always the standard input */
    const char *base; /* the name of the file in it; points into the path */
} place;

/* False with errno. place_close is allowed in every case. */
bool place_open(place *p, const char *path);
void place_close(place *p);

/* Create the file, for appending: a descriptor, or -1 with errno; EEXIST if there is one. */
int place_create(const place *p, mode_t mode);

/* Open the file for reading: a descriptor, or -1 with errno; ELOOP if it is a symbolic link. */
int place_read(const place *p);

/* Whether the open file is still the one with this name. */
bool place_has(const place *p, int fd);

/* Remove the file if it is still the open one. */
void place_remove(const place *p, int fd);

/* Replace the file atomically: readers find the old content or the new. `durable`: also after a
   power failure. */
bool place_replace(const place *p, mode_t mode, const char *text, size_t length, bool durable);

/* Write all of it; false with errno. */
bool write_all(int fd, const char *text, size_t length);

#endif
