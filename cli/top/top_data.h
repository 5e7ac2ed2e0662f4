/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data of `holdfast top`. A thread takes samples of the store and publishes each as a view. So
 * the screen reacts to keys even when the store does not answer.
 *
 * A change of the token between two samples counts as a hand-over. There are at most ten samples
 * per second, and fewer if a sample takes long: sampling takes at most a tenth of the time. If the
 * token changed in nearly every sample, there may have been more hand-overs, and `least` is set.
 */
#ifndef CLI_TOP_TOP_DATA_H
#define CLI_TOP_TOP_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/store.h"
#include "holdfast.h"

#define TOP_ROWS_MAX 10000 /* locks in a view; `more` is set if there are others */
#define TOP_TEXT     256

typedef struct top_row {
    char *name; /* unchanged; not safe for a terminal */
    bool held;
    uint32_t waiting;
    int64_t held_ms;
    uint64_t token;
    char state[32], holder[TOP_TEXT];
    double rate; /* hand-overs per second, over the last seconds */
    bool least;
    double changes, samples, seconds; /* the weighted sums from which `rate` is computed */
} top_row;

/* The details of one lock. */
typedef struct top_detail {
    bool there; /* the lock is in use */
    char lines[8][2][TOP_TEXT];
    size_t line_count;
    uint32_t waiting;
    size_t queue_count;
    char queue[64][TOP_TEXT];
} top_detail;

typedef struct top_view {
    top_row *rows; /* sorted by name */
    size_t count;
    bool more;         /* there are more than TOP_ROWS_MAX locks */
    char trouble[512]; /* why the last sample failed; "": it succeeded */
    top_detail detail; /* of the selected lock */
    char *detail_name; /* NULL: no details */
    uint64_t samples;
} top_view;

typedef struct top_data top_data;

/* Starts the thread. NULL if there is no memory or thread. Borrows its arguments. *woken becomes
   readable when there is a new view. */
top_data *top_data_new(hf_client *client, const store *s, const char *pattern, int *woken);

/* A copy of the newest view, which the caller frees with top_view_free. NULL: no memory. */
top_view *top_data_view(top_data *d);
void top_view_free(top_view *v);

/* Selects the lock whose details are wanted; NULL: none. */
void top_data_want(top_data *d, const char *name);

/* Stops the thread. False if the thread still waits for the store. Then `d` and the client must not
   be freed. */
bool top_data_end(top_data *d);

#endif
