/* JSON on a stream: what needs care in it. */
#ifndef CLI_COMMON_JSON_H
#define CLI_COMMON_JSON_H

#include <stdio.h>

/* A string with its quotes. Invalid UTF-8 becomes U+FFFD, so that every parser can read it;
   control characters are escaped, so that a terminal can show it. */
void json_write_string(FILE *to, const char *text);

/* The member "name_hex", behind "name": all bytes of a name that is not UTF-8. Two such names
   may look alike as strings. */
void json_write_name_hex(FILE *to, const char *name);

#endif
