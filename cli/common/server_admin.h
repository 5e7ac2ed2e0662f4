/*
 * A plain conversation with a server: one command, one answer, each with a deadline. Not for locks,
 * which go through the store, but for those who examine a server: `holdfast doctor` and `holdfast
 * bench`. It connects and logs in as the store does, over TLS where the URL says so.
 */
#ifndef CLI_COMMON_SERVER_ADMIN_H
#define CLI_COMMON_SERVER_ADMIN_H

#include <stddef.h>
#include <stdint.h>

#include "base/url.h"

#define SERVER_ADMIN_ITEMS 16        /* of an answer that is a list */
#define SERVER_ADMIN_MAX   (1 << 20) /* bytes of an answer */

typedef struct server_admin server_admin;

/* An answer, in the talk's memory until the next command. */
typedef struct server_reply {
    char type;        /* '+', '-', ':', '$' or '*', as in the protocol; '_' for none */
    const char *text; /* terminated; of a list: its first item, or "" */
    int64_t number;   /* of ':', or of text that is one */
    size_t count;     /* of '*' */
    const char *item[SERVER_ADMIN_ITEMS];
} server_reply;

/* Any result but HF_OK has set this thread's detail, and *talk to NULL. */
hf_result server_admin_open(const hf__url *url, server_admin **admin);
void server_admin_close(server_admin *admin);

/* Send a command, words up to NULL, and wait for its answer. An error of the server is an
   answer. Any result but HF_OK ends the conversation: what is asked after it fails at once. */
hf_result server_admin_command(server_admin *admin, server_reply *reply, const char *const *words);

#endif
