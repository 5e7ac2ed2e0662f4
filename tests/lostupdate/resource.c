/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resource that is updated: see run.h. It runs in its own process, and only it changes the
 * registers.
 */
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "run.h"
#include "t_fail.h"

typedef struct resource_request {
    int32_t which;
    bool write;
    uint32_t base;
    uint64_t token;
} resource_request;

typedef struct answer {
    bool done;
    uint32_t version;
} answer;

/* A read also presents its token. If only writes did, a paused process could still write between
   the next holder's read and write. Its token would be the highest so far, and the update would be
   lost. */
static bool check_token(reg *r, const resource_request *q) {
    if (q->which != FENCED) return true;
    if (q->token < r->highest) {
        r->refused++;
        return false;
    }
    r->highest = q->token;
    return true;
}

static answer apply_request(reg *r, const resource_request *q) {
    if (!check_token(r, q)) return (answer){false, 0};
    if (q->write) {
        if (r->versions + 1 >= VERSIONS_MAX) t_fail("too many updates: raise VERSIONS_MAX");
        r->parent[++r->versions] = q->base;
        r->current = r->versions;
    }
    return (answer){true, r->current};
}

/* False: the client has ended. */
static bool serve_request(shared *s, int fd) {
    resource_request q;
    if (recv(fd, &q, sizeof q, 0) != sizeof q) return false;
    answer a = apply_request(&s->registers[q.which], &q);
    return send(fd, &a, sizeof a, MSG_NOSIGNAL) == sizeof a;
}

int resource_main(void *arg) {
    shared *s = arg;
    struct pollfd fds[CLIENTS];
    int open = CLIENTS;
    for (int i = 0; i < CLIENTS; i++) {
        close(s->sockets[i][0]);
        fds[i] = (struct pollfd){.fd = s->sockets[i][1], .events = POLLIN};
    }
    while (open > 0 && poll(fds, CLIENTS, -1) >= 0) {
        for (int i = 0; i < CLIENTS; i++) {
            if (!fds[i].revents || serve_request(s, fds[i].fd)) continue;
            fds[i].fd = -1;
            open--;
        }
    }
    return 0;
}

static answer send_request(int fd, const resource_request *q) {
    answer a = {0};
    if (send(fd, q, sizeof *q, MSG_NOSIGNAL) != sizeof *q || recv(fd, &a, sizeof a, 0) != sizeof a)
        t_fail("the resource does not answer");
    return a;
}

bool resource_read(int fd, int which, uint64_t token, uint32_t *version) {
    answer a = send_request(fd, &(resource_request){.which = which, .token = token});
    *version = a.version;
    return a.done;
}

bool resource_write(int fd, int which, uint64_t token, uint32_t base) {
    return send_request(
               fd, &(resource_request){.which = which, .write = true, .base = base, .token = token})
        .done;
}

/* The final value contains its version, the version that it was based on, and so on. */
uint32_t resource_lost(const reg *r) {
    uint32_t kept = 0;
    for (uint32_t v = r->current; v; v = r->parent[v]) kept++;
    return r->versions - kept;
}
