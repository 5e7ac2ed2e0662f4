/* SPDX-License-Identifier: Apache-2.0 */
/* Parses a server's error line. The wording of an error that a script raised depends on the server
   version. */
#ifndef HF_STORE_REDIS_PROTOCOL_ERROR_LINE_H
#define HF_STORE_REDIS_PROTOCOL_ERROR_LINE_H

#include <stdbool.h>

#define HF__ERROR_CODE 24

typedef struct hf__error_line {
    char code[HF__ERROR_CODE]; /* "OOM"; NOPERM for every missing right; "": the line has none */
    const char *text;          /* the error inside the line; begins with its code if it has one */
    /* of the text, without the position in a script and without a command's arguments */
    int length;
    long script_line; /* line of our script that raised it; 0: none, or unknown */
} hf__error_line;

/* Removes what the server put around the error. The result points into `line`. */
hf__error_line hf__error_unwrap(const char *line);

bool hf__error_has_code(const hf__error_line *error, const char *code);

bool hf__error_says(const hf__error_line *error, const char *phrase);

#endif
