/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the terminal. A separate file, because <term.h> defines many common names as macros. */
#ifndef CLI_TOP_TOP_TERMINFO_H
#define CLI_TOP_TOP_TERMINFO_H

#include <stdbool.h>

/* True if $TERM is known and its cursor can be moved. */
bool top_terminfo_good(void);

#endif
