/* SPDX-License-Identifier: Apache-2.0 */
#include "top/top_terminfo.h"

#include <ncurses.h>
#include <term.h>
#include <unistd.h>

bool top_terminfo_good(void) {
    int error;
    if (setupterm(NULL, STDOUT_FILENO, &error) != OK) return false;
    bool good = cursor_address != NULL;
    del_curterm(cur_term);
    return good;
}
