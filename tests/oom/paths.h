/*
 * The ways on which the library came to its calls. The suite makes a call on the same way again and again: the first,
 * second, fourth, eighth … of those are picked to fail. Ways are told apart by the innermost functions that were in the
 * middle of a call.
 */
#ifndef OOM_PATHS_H
#define OOM_PATHS_H

#include <stdbool.h>

typedef struct paths paths;

/* Shared by the processes of a case. Programs that give the same file share the cases, too, and what was seen in them;
   NULL: there is no other. */
paths *paths_new(const char *file);
void paths_free(paths *p);

/* A case begins, the nth from 0 that none of the programs has begun: none of its calls is picked yet. */
long paths_begin(paths *p);

/* The library makes the nth call of its kind, from 1. */
void paths_note(paths *p, int kind, long nth);

bool paths_picked(const paths *p, int kind, long nth);

#endif
