/* SPDX-License-Identifier: Apache-2.0 */
#include "store/net/resolve.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/event.h"
#include "base/thread.h"

struct hf__resolve {
    atomic_int refs; /* one for the caller, one for the thread */
    atomic_bool done;
    int fd, error;
    struct addrinfo *list;
    char port[8];
    char host[];
};

static void look_up(hf__resolve *r, int flags) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags};
    r->error = getaddrinfo(r->host, r->port, &hints, &r->list);
    if (r->error) r->list = NULL;
}

static void finish_lookup(hf__resolve *r) {
    atomic_store(&r->done, true);
    hf__event_set(r->fd);
}

void hf__resolve_free(hf__resolve *r) {
    if (!r || atomic_fetch_sub(&r->refs, 1) != 1) return;
    if (r->list) freeaddrinfo(r->list);
    hf__event_free(r->fd);
    free(r);
}

static void *look_up_main(void *arg) {
    hf__resolve *r = arg;
    look_up(r, 0);
    finish_lookup(r);
    hf__resolve_free(r);
    return NULL;
}

static bool start_thread(hf__resolve *r) {
    pthread_t thread;
    atomic_fetch_add(&r->refs, 1);
    if (hf__thread_start(&thread, look_up_main, r)) {
        pthread_detach(thread);
        return true;
    }
    atomic_fetch_sub(&r->refs, 1);
    return false;
}

hf__resolve *hf__resolve_start(const char *host, int port) {
    size_t length = strlen(host);
    hf__resolve *r = calloc(1, sizeof *r + length + 1);
    if (!r) return NULL;
    atomic_init(&r->refs, 1);
    memcpy(r->host, host, length);
    snprintf(r->port, sizeof r->port, "%d", port);
    r->fd = hf__event_new();
    if (r->fd >= 0) {
        look_up(r, AI_NUMERICHOST);
        if (!r->error) finish_lookup(r);
        if (!r->error || start_thread(r)) return r;
    }
    hf__resolve_free(r);
    return NULL;
}

int hf__resolve_fd(const hf__resolve *r) {
    return r->fd;
}

bool hf__resolve_done(hf__resolve *r, struct addrinfo **list, const char **error) {
    if (!atomic_load(&r->done)) return false;
    *list = r->list;
    r->list = NULL;
    *error = r->error ? gai_strerror(r->error) : NULL;
    return true;
}
