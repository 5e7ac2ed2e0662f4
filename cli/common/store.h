/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the store. The first of these that is set is used: -S, $HOLDFAST_URL, `store = URL` in
 * the configuration file of the user, the same in that of the machine, the locks of this machine.
 */
#ifndef CLI_COMMON_STORE_H
#define CLI_COMMON_STORE_H

#include <stdint.h>

#include "holdfast.h"

typedef struct store {
    char *url;         /* may contain a password: never show it */
    char *shown;       /* the URL without credentials, by hf__url_shown */
    char *from;        /* where the URL comes from, for messages */
    int64_t lease_ms;  /* default lease, unless --lease is given */
    const char *label; /* label of the client, unless the URL has one; NULL: none */
} store;

/* Takes the value of -S. *option gets a copy. Credentials are erased from the command line, which
   ps(1) shows to everybody. Returns ARGS_CONTINUE or the exit code. */
int store_option(char *value, char **option);

/* Finds and checks the store; `option` is the value of -S or NULL. Returns 0, or the exit code
   after printing the error. */
int store_choose(store *s, const char *option);

/* The same for a given URL; `from` says where it comes from, for messages. */
int store_choose_as(store *s, const char *url, const char *from);
void store_fini(store *s);

/* Removes the label from the URL, if it has one. */
void store_drop_label(store *s);

/* Opens the store. Returns 0, or the exit code after printing the error. */
int store_open(const store *s, hf_client **client);

#endif
