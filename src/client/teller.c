/*
 * Telling of losses. The descriptor is set at once; on_lost runs on a thread of its own, started
 * with the first acquire that has one, so that a callback which takes its time, or locks something
 * else, keeps no other hold from being renewed.
 */
#include "base/thread.h"
#include "client/client.h"
#include "client/hold.h"

static hf_hold *untold(hf__own *own) {
    hf_hold *hold = own->handles;
    while (hold && (hold->told || !hold->on_lost)) hold = hold->next;
    return hold;
}

void hf__tell(hf_client *c) {
    while (c->core.lost) {
        hf__own *own = c->core.lost;
        c->core.lost = own->next_lost;
        hf__event_set(own->lost_fd);
        hf__log_add(&c->log, HF_LOG_WARNING, "lost %s (token %" PRIu64 "): %s",
                    own->name ? own->name : "a lock", own->token, atomic_load(&own->why));
        if (untold(own)) {
            own->next_lost = c->telling;
            c->telling = own;
            pthread_cond_signal(&c->teller_work);
        } else {
            hf__own_unref(own);
        }
    }
}

/* Run one callback, without the mutex. The handle is kept alive meanwhile. */
static void tell_one(hf_client *c, hf_hold *hold) {
    hf_ref(hold);
    hold->told = hold->telling = true;
    hf_lost_fn *fn = hold->on_lost;
    void *arg = hold->arg;
    pthread_mutex_unlock(&c->mutex);
    fn(hold, arg);
    pthread_mutex_lock(&c->mutex);
    hold->telling = false;
    pthread_cond_broadcast(&c->telling_over);
    pthread_mutex_unlock(&c->mutex);
    hf_unref(hold);
    pthread_mutex_lock(&c->mutex);
}

static void *teller_main(void *arg) {
    hf_client *c = arg;
    pthread_mutex_lock(&c->mutex);
    for (;;) {
        hf__own *own = c->telling;
        if (own) {
            c->telling = own->next_lost;
            for (hf_hold *hold; (hold = untold(own));) tell_one(c, hold);
            hf__own_unref(own);
        } else if (c->teller_stop) {
            break;
        } else {
            pthread_cond_wait(&c->teller_work, &c->mutex);
        }
    }
    pthread_mutex_unlock(&c->mutex);
    return NULL;
}

hf_result hf__teller_start(hf_client *c) {
    if (c->teller_runs) return HF_OK;
    if (!hf__thread_start(&c->teller, teller_main, c))
        return hf__fail(HF_NOMEM,
                        "no thread to be had that could call on_lost; nothing was acquired");
    c->teller_runs = true;
    return HF_OK;
}

void hf__tell_wait(hf_client *c, const hf_hold *hold) {
    while (hold->telling && !pthread_equal(c->teller, pthread_self())) {
        if (hf__pending(c)) { /* others need not wait for this */
            hf__unlock(c);
            pthread_mutex_lock(&c->mutex);
        } else {
            pthread_cond_wait(&c->telling_over, &c->mutex);
        }
    }
}

void hf__teller_join(hf_client *c) {
    pthread_mutex_lock(&c->mutex);
    bool runs = c->teller_runs;
    c->teller_stop = true;
    c->teller_runs = false;
    pthread_cond_signal(&c->teller_work);
    pthread_mutex_unlock(&c->mutex);
    if (runs) pthread_join(c->teller, NULL);
}
