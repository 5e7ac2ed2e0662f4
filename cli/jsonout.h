/* JSON on a stream: what needs care in it. */
#ifndef CLI_JSONOUT_H
#define CLI_JSONOUT_H

#include <stdio.h>

/* A string with its quotes. Bytes that are no UTF-8 become U+FFFD, so that it can always be read. */
void jsonout_string(FILE *to, const char *text);

#endif
