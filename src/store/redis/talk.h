/*
 * A plain conversation with a server: one command, one answer, each with a deadline. Not for locks, which
 * go through the store, but for those who examine a server: `holdfast doctor` and `holdfast bench`.
 * It connects and logs in as the store does, over TLS where the URL says so.
 */
#ifndef HF_STORE_REDIS_TALK_H
#define HF_STORE_REDIS_TALK_H

#include <stddef.h>
#include <stdint.h>

#include "base/url.h"

#define HF__TALK_ITEMS 16        /* of an answer that is a list */
#define HF__TALK_MAX   (1 << 20) /* bytes of an answer */

typedef struct hf__talk hf__talk;

/* An answer, in the talk's memory until the next command. */
typedef struct hf__said {
    char type;        /* '+', '-', ':', '$' or '*', as in the protocol; '_' for none */
    const char *text; /* terminated; of a list: its first item, or "" */
    int64_t number;   /* of ':', or of text that is one */
    size_t count;     /* of '*' */
    const char *item[HF__TALK_ITEMS];
} hf__said;

/* Any result but HF_OK has set this thread's detail, and *talk to NULL. */
hf_result hf__talk_open(const hf__url *url, hf__talk **talk);
void hf__talk_close(hf__talk *talk);

/* Send a command, words up to NULL, and wait for its answer. An error of the server is an answer. Any
   result but HF_OK ends the conversation: what is asked after it fails at once. */
hf_result hf__talk_ask(hf__talk *talk, hf__said *said, const char *const *words);

#endif
