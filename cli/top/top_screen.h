/*
 * The screen of `holdfast top`. Whatever ends the process, but SIGKILL, the terminal is given back
 * as it was.
 */
#ifndef CLI_TOP_TOP_SCREEN_H
#define CLI_TOP_TOP_SCREEN_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

#include "top/top_data.h"

typedef enum top_order { BY_WAITING, BY_HELD, BY_RATE, BY_NAME, TOP_ORDERS } top_order;

extern const char *const top_orders[TOP_ORDERS];

/* What is shown, and how. */
typedef struct top_screen {
    const char *store;
    const char *pattern; /* of names; NULL: all */
    const top_view *view;
    const top_row **rows; /* those that the filter lets through, in order */
    size_t count;
    top_order order;
    bool reverse, paused, help;
    char filter[TOP_TEXT];
    bool typing; /* the filter */
    size_t selected, first;
    const char *inside; /* the lock that is looked at closely; NULL: none */
    size_t queue_first;
} top_screen;

/* False: this terminal is not one to draw on, and nothing was done. */
bool top_screen_begin(void);
void top_screen_end(void);

void top_screen_draw(top_screen *s);

/* A key, or TOP_NO_KEY. */
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

/* poll(2), and the only place where signals come in: none is missed. A stop by the terminal is
   seen to. */
int top_screen_poll(struct pollfd *fds, nfds_t count, int timeout_ms);

/* Lines of a page, to move by. */
size_t top_screen_page(void);

/* The signal that asks us to end, or 0. */
int top_screen_signalled(void);

#endif
