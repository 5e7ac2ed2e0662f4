/* SPDX-License-Identifier: Apache-2.0 */
/* Writes JSON strings to a stream. */
#ifndef CLI_COMMON_JSON_H
#define CLI_COMMON_JSON_H

#include <stdio.h>

/* Writes a string with its quotes. Invalid UTF-8 becomes U+FFFD, so that every parser can read it.
   Control characters are escaped, so that a terminal can show it. */
void json_write_string(FILE *to, const char *text);

/* Writes the member "name_hex" after "name": all bytes of a name that is not UTF-8. Two such names
   may look alike as strings. */
void json_write_name_hex(FILE *to, const char *name);

#endif
