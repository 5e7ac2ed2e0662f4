/*
 * Which store a command means: -S, else $HOLDFAST_URL, else `store = URL` in the user's file, else
 * in the machine's, else the locks of this machine.
 */
#ifndef CLI_COMMON_STORE_H
#define CLI_COMMON_STORE_H

#include <stdint.h>

#include "holdfast.h"

typedef struct store {
    char *url;         /* may hold a password: not to be shown */
    char *shown;       /* the URL without credentials, by hf__url_shown */
    char *from;        /* where it was named, for people */
    int64_t lease_ms;  /* of a hold, unless --lease says otherwise */
    const char *label; /* of the client, unless the URL has one; NULL: none */
} store;

/* Take the value of -S: `option` gets a copy, and the command line, which ps(1) shows to
   everybody, keeps only what may be shown of it. ARGS_CONTINUE, or the exit code. */
int store_option(char *value, char **option);

/* Find and check it: 0, or the exit code, with the failure said. `option` is -S's, or NULL. */
int store_choose(store *s, const char *option);

/* The same for a URL from elsewhere; `from` says where, for messages. */
int store_choose_as(store *s, const char *url, const char *from);
void store_fini(store *s);

/* The URL's label, if it has one, does not count. */
void store_drop_label(store *s);

/* Open it: 0, or the exit code, with the failure said. */
int store_open(const store *s, hf_client **client);

#endif
