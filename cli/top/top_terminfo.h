/* Whether a terminal can be drawn on. Apart from the screen: <term.h> takes many a good name for
   itself. */
#ifndef CLI_TOP_TOP_TERMINFO_H
#define CLI_TOP_TOP_TERMINFO_H

#include <stdbool.h>

/* $TERM is known, and its cursor can be moved. */
bool top_terminfo_good(void);

#endif
