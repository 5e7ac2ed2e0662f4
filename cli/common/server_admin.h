/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plain connection to a Redis server: one command, one reply, each with a deadline. It is for
 * `holdfast doctor` and `holdfast bench`, which examine a server; locks go through the store. It
 * connects and logs in like the store, with TLS if the URL asks for it.
 */
#ifndef CLI_COMMON_SERVER_ADMIN_H
#define CLI_COMMON_SERVER_ADMIN_H

#include <stddef.h>
#include <stdint.h>

#include "base/url.h"

#define SERVER_ADMIN_ITEMS 16        /* items of a reply that is a list */
#define SERVER_ADMIN_MAX   (1 << 20) /* bytes of a reply */

typedef struct server_admin server_admin;

/* A reply. It is stored in the connection and valid until the next command. */
typedef struct server_reply {
    char type;        /* '+', '-', ':', '$' or '*', as in the protocol; '_' for none */
    const char *text; /* terminated; the first item of a list, or "" */
    int64_t number;   /* the value of ':', or of a text that is a number */
    size_t count;     /* items of '*' */
    const char *item[SERVER_ADMIN_ITEMS];
} server_reply;

/* On failure sets *out to NULL and the error detail of this thread. */
hf_result server_admin_open(const hf__url *url, server_admin **out);
void server_admin_close(server_admin *admin);

/* Sends a command (words, up to NULL) and waits for the reply. An error from the server is a reply
   too. After a failure the connection is dead: later commands fail at once. */
hf_result server_admin_command(server_admin *admin, server_reply *reply, const char *const *words);

#endif
