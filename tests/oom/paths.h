/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The call paths on which the library reached its calls. The suite takes the same path again and
 * again: the first, second, fourth, eighth … call on each path is picked to fail. The innermost
 * functions on the stack identify a path.
 */
#ifndef OOM_PATHS_H
#define OOM_PATHS_H

#include <stdbool.h>

typedef struct paths paths;

/* Shared by the processes of a case. Programs that pass the same file also share the cases and the
   paths seen in them; NULL: this program is the only one. */
paths *paths_new(const char *file);
void paths_free(paths *p);

/* Starts the next case that none of the programs has started, and returns its index from 0. None of
   its calls is picked yet. */
long paths_begin(paths *p);

/* The library makes the nth call of its kind, from 1. */
void paths_note(paths *p, int kind, long nth);

bool paths_picked(const paths *p, int kind, long nth);

#endif
