/*
 * Telling of losses, and the thread that runs callbacks. The descriptor is set at once; on_lost runs on
 * a thread of its own, as do the callbacks of calls that do not block, started with the first that
 * needs it: so a callback which takes its time, or locks something else, keeps no other hold from
 * being renewed. A client with a loop of the user's has no such thread: hf_dispatch does it.
 */
#include <sys/epoll.h>

#include "base/thread.h"
#include "client/async.h"
#include "client/hold.h"

/* What the user has of a handle: of one among many, the first of them. */
static hf_hold *as_user_has_it(hf_hold *hold) {
    return hold->head ? hold->head : hold;
}

static hf_hold *untold(hf__ownership *ownership) {
    for (hf_hold *each = ownership->handles; each; each = each->next) {
        hf_hold *hold = as_user_has_it(each);
        if (!hold->told && hold->on_lost) return hold;
    }
    return NULL;
}

static void set_descriptors(const hf__ownership *ownership) {
    hf__event_set(ownership->lost_fd);
    for (hf_hold *each = ownership->handles; each; each = each->next) {
        const hf__bundle *bundle = as_user_has_it(each)->bundle;
        if (bundle) hf__event_set(bundle->lost_fd);
    }
}

void hf__tell(hf_client *c) {
    while (c->core.lost) {
        hf__ownership *ownership = c->core.lost;
        c->core.lost = ownership->next_lost;
        set_descriptors(ownership);
        hf__log_add(&c->log, HF_LOG_WARNING, "lost %s (token %" PRIu64 "): %s",
                    ownership->name ? ownership->name : "a lock", ownership->token,
                    atomic_load(&ownership->lost_reason));
        if (untold(ownership)) {
            ownership->next_lost = c->telling;
            c->telling = ownership;
            pthread_cond_signal(&c->teller_work);
        } else {
            hf__ownership_unref(ownership);
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

void hf__tell_run(hf_client *c) {
    for (hf__ownership *ownership; (ownership = c->telling);) {
        c->telling = ownership->next_lost;
        for (hf_hold *hold; (hold = untold(ownership));) tell_one(c, hold);
        hf__ownership_unref(ownership);
    }
}

static void *teller_main(void *arg) {
    hf_client *c = arg;
    pthread_mutex_lock(&c->mutex);
    for (;;) {
        if (hf__callbacks_due(c)) {
            hf__callbacks_run(c);
            hf__turn(c, NULL); /* what they have begun */
            (void)hf__relay(c);
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
    if (c->cancels < 0) {
        c->cancels = epoll_create1(EPOLL_CLOEXEC);
        if (c->keeper_runs) hf__event_set(c->keeper_kick); /* it polls it from now on */
    }
    /* Where it stops, this is the thread itself: it will see to what its callback has begun. */
    if (c->teller_runs || c->teller_stop || c->loop.fd >= 0) return HF_OK;
    if (c->cancels < 0 || !hf__thread_start(&c->teller, teller_main, c))
        return hf__fail(HF_NOMEM, "no thread or descriptor to be had for callbacks; nothing was "
                                  "begun");
    c->teller_runs = true;
    return HF_OK;
}

void hf__tell_wait(hf_client *c, const hf_hold *hold) {
    while (hold->telling && !hf__in_callback(c))
        if (!hf__relay(c)) pthread_cond_wait(&c->telling_over, &c->mutex);
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
