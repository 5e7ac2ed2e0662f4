/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The screen of `holdfast top`. The terminal is restored whenever the process ends, except by
 * SIGKILL.
 */
#ifndef CLI_TOP_TOP_SCREEN_H
#define CLI_TOP_TOP_SCREEN_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

#include "top/top_data.h"

typedef enum top_order { BY_WAITING, BY_HELD, BY_RATE, BY_NAME, TOP_ORDERS } top_order;

extern const char *const top_orders[TOP_ORDERS];

/* The state of the screen. */
typedef struct top_screen {
    const char *store;
    const char *pattern; /* of names; NULL: all */
    const top_view *view;
    const top_row **rows; /* rows that pass the filter, sorted */
    size_t count;
    top_order order;
    bool reverse, paused, help;
    char filter[TOP_TEXT];
    bool typing; /* the user is typing the filter */
    size_t selected, first;
    const char *inside; /* the lock whose details are shown; NULL: none */
    size_t queue_first;
} top_screen;

/* False if this terminal cannot be used; nothing was changed. */
bool top_screen_begin(void);
void top_screen_end(void);

void top_screen_draw(top_screen *s);

/* Returns a key, or TOP_NO_KEY. */
enum {
    TOP_NO_KEY = -1,
    TOP_UP = 0x10000,
    TOP_DOWN,
    TOP_PAGE_UP,
    TOP_PAGE_DOWN,
    TOP_HOME,
    TOP_END,
    TOP_ENTER,
    TOP_BACK,
    TOP_ESCAPE,
    TOP_OTHER
};
int top_screen_key(void);

/* poll(2). Signals are unblocked only here, so that none is missed. Handles a stop by the
   terminal. */
int top_screen_poll(struct pollfd *fds, nfds_t count, int timeout_ms);

/* The number of rows on a page. */
size_t top_screen_page(void);

/* The signal that asks the process to end, or 0. */
int top_screen_signalled(void);

#endif
