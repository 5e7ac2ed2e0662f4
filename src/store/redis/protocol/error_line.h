/* What a server's error line says, whichever server sent it: how one that a script raised is worded differs. */
#ifndef HF_STORE_REDIS_PROTOCOL_ERROR_LINE_H
#define HF_STORE_REDIS_PROTOCOL_ERROR_LINE_H

#include <stdbool.h>

#define HF__ERROR_CODE 24

typedef struct hf__error_line {
    char code[HF__ERROR_CODE]; /* "OOM". NOPERM for every missing right. "": the line has none */
    const char *text;          /* the error itself, inside the line: its code first if it has one */
    int length; /* of the text: without the place in a script, without a command's arguments */
    long script_line; /* the line of our script that raised it; 0: none, or not told */
} hf__error_line;

/* Takes off what the server put around the error. The result points into `line`. */
hf__error_line hf__error_unwrap(const char *line);

bool hf__error_has_code(const hf__error_line *error, const char *code);

/* Whether the text contains a phrase. */
bool hf__error_says(const hf__error_line *error, const char *phrase);

#endif
