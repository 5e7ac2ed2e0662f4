/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that updates the registers under the lock, unaware that it is stopped now and then. See
 * run.h.
 */
#include <stdlib.h>
#include <unistd.h>

#include "holdfast.h"
#include "run.h"
#include "t_fail.h"
#include "t_time.h"

enum { THINK_MS = 50, THINK_MORE_MS = 300 };

/* The client's own deadline: now plus the time that it reports as remaining. */
static int64_t deadline_us(const hf_hold *hold) {
    int64_t now = t_now_us();
    return now + 1000 * hf_remaining_ms(hold);
}

/* Computes the new value. Meanwhile the background thread renews, and the hold lasts longer. */
static void compute_value(const hf_hold *hold, hold_span *here) {
    int ms = THINK_MS + rand() % THINK_MORE_MS;
    for (int i = 0; i < ms; i++) {
        t_sleep_ms(1);
        if (!hf_held(hold)) continue;
        int64_t end = deadline_us(hold);
        if (end > here->to_us) here->to_us = end;
    }
}

/* Trusts its check, as a naive program would: if hf_held says yes, it updates. */
static void update_registers(updater *v, int fd, const hf_hold *hold, hold_span *here) {
    uint64_t token = hf_fence(hold);
    uint32_t open = 0, fenced = 0;
    bool may = resource_read(fd, FENCED, token, &fenced);
    (void)resource_read(fd, OPEN, token, &open);
    if (!hf_held(hold)) {
        v->unsure++;
        return;
    }
    compute_value(hold, here);
    (void)resource_write(fd, OPEN, token, open);
    if (may) (void)resource_write(fd, FENCED, token, fenced);
}

static void visit_lock(updater *v, hf_client *client, int fd) {
    hf_hold *hold = NULL;
    if (hf_acquire(client, "register", &(hf_options){.wait_ms = 10000}, &hold) != HF_OK) {
        v->troubled++;
        return;
    }
    if (v->stays == HOLDS_MAX) t_fail("too many holds: raise HOLDS_MAX");
    hold_span *here = &v->stay[v->stays];
    *here = (hold_span){t_now_us(), 0, hf_fence(hold)};
    here->to_us = deadline_us(hold);
    if (here->to_us > here->from_us) v->stays++; /* otherwise it was over when it arrived */
    update_registers(v, fd, hold, here);
    int64_t now = t_now_us();
    if (now < here->to_us) here->to_us = now;
    v->lost += hf_release(hold) == HF_LOST;
}

int client_main(void *arg) {
    const client_arg *a = arg;
    shared *s = a->s;
    hf_client *client = NULL;
    for (int i = 0; i < CLIENTS; i++) {
        close(s->sockets[i][1]);
        if (i != a->index) close(s->sockets[i][0]);
    }
    srand((unsigned)(a->index + 1) * 7919U);
    if (hf_open(s->url, NULL, &client) != HF_OK) t_fail("cannot open: %s", hf_error_detail());
    while (!atomic_load(&s->over))
        visit_lock(&s->visitors[a->index], client, s->sockets[a->index][0]);
    hf_close(client);
    return 0;
}
