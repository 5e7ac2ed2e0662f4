/* SPDX-License-Identifier: Apache-2.0 */
/* Acquiring many names: sort, merge duplicates, pass to the core, wait. The result is one hold. */
#include <stdlib.h>
#include <string.h>

#include "client/acquire.h"
#include "client/hold.h"
#include "client/options.h"

/* A request, and its index in the caller's array. */
typedef struct request_item {
    hf_request request;
    size_t length;
    unsigned index;
} request_item;

typedef struct request_list {
    unsigned count;
    request_item at[HF_NAMES_MAX];
    unsigned parts; /* different names: this many at the start of `at`, once merged */
    unsigned part_of[HF_NAMES_MAX];
} request_list;

/* ---- Requests ---- */

static int compare_by_name(const void *a, const void *b) {
    const request_item *x = a, *y = b;
    int order = strcmp(x->request.name, y->request.name);
    return order ? order : (int)x->index - (int)y->index;
}

static hf_result copy_requests(request_list *w, const hf_request *requests, size_t count,
                               size_t size) {
    if (!count || count > HF_NAMES_MAX)
        return hf__fail(HF_INVALID, "%zu names were requested; 1 to %d are allowed", count,
                        HF_NAMES_MAX);
    if (!requests) return hf__fail(HF_INVALID, "requests is NULL");
    for (size_t i = 0; i < count; i++) {
        request_item *each = &w->at[i];
        const void *from = (const char *)requests + i * size;
        hf_result r =
            hf__options_copy("hf_request", &each->request, sizeof each->request, from, size);
        if (!r) r = hf__name_check(each->request.name, &each->length);
        if (r) return r;
        each->index = (unsigned)i;
        if (each->request.kind == HF_PERMITS && !each->request.permits) each->request.permits = 1;
    }
    w->count = (unsigned)count;
    qsort(w->at, count, sizeof w->at[0], compare_by_name);
    return HF_OK;
}

/* A name is requested twice: permits are added; of two other kinds, the stronger one is
   acquired. */
static hf_result merge_request(hf_request *into, const hf_request *more) {
    into->flags |= more->flags;
    if (into->kind == HF_PERMITS && more->kind == HF_PERMITS) {
        if (into->capacity != more->capacity)
            return hf__fail(HF_INVALID, "%s is requested twice, with a capacity of %u and of %u",
                            into->name, into->capacity, more->capacity);
        into->permits += more->permits; /* each is at most HF_PERMITS_MAX */
    } else if (hf__kind_covers(more->kind, into->kind)) {
        into->kind = more->kind;
    } else if (!hf__kind_covers(into->kind, more->kind)) {
        return hf__fail(HF_INVALID,
                        "%s is requested twice, as two kinds that do not include each other",
                        into->name);
    }
    return HF_OK;
}

static hf_result merge_requests(request_list *w) {
    for (unsigned i = 0; i < w->count; i++) {
        request_item *last = w->parts ? &w->at[w->parts - 1] : NULL;
        const request_item each = w->at[i];
        if (last && !strcmp(last->request.name, each.request.name)) {
            hf_result r = merge_request(&last->request, &each.request);
            if (r) return r;
        } else {
            w->at[w->parts++] = each;
        }
        w->part_of[each.index] = w->parts - 1;
    }
    return HF_OK;
}

/* The options for one of the names. */
static hf_options make_part_options(const hf_options *all, const hf_request *request) {
    hf_options o = *all;
    o.kind = request->kind;
    o.permits = request->permits;
    o.capacity = request->capacity;
    o.flags |= request->flags;
    return o;
}

static hf_result check_first_requests(hf_client *c, const request_list *w, unsigned count,
                                      const hf_options *o) {
    for (unsigned i = 0; i < count; i++) {
        if (w->at[i].request.flags & ~(uint32_t)HF_NOT_REENTRANT)
            return hf__fail(HF_UNSUPPORTED, "the only flag of a request is HF_NOT_REENTRANT; set "
                                            "other flags in the options, for all names");
        const hf_options one = make_part_options(o, &w->at[i].request);
        hf_result r = hf__acquire_check(c, &one);
        if (r) return r;
    }
    return HF_OK;
}

/* Check each request by itself, and then the merged ones. */
static hf_result check_requests(hf_client *c, request_list *w, const hf_options *o) {
    if (o->kind || o->permits || o->capacity)
        return hf__fail(HF_INVALID,
                        "set kind, permits and capacity in each request, not in the options");
    hf_result r = check_first_requests(c, w, w->count, o);
    if (!r) r = merge_requests(w);
    return r ? r : check_first_requests(c, w, w->parts, o);
}

/* ---- Preparation ---- */

static hf__bundle *bundle_new(const request_list *w) {
    size_t parts = w->parts * sizeof(hf__handle *), part_of = w->count * sizeof(unsigned);
    size_t release_size = sizeof(hf__multi_release) + w->parts * sizeof(hf__call);
    hf__bundle *b = calloc(1, sizeof *b + parts + release_size + part_of);
    if (!b) return NULL;
    b->lost_fd = -1;
    b->count = w->parts;
    b->requests = w->count;
    b->parts = (hf__handle **)(b + 1);
    b->multi_release = (hf__multi_release *)(b->parts + w->parts);
    b->part_of = (unsigned *)((char *)b->multi_release + release_size);
    memcpy(b->part_of, w->part_of, part_of);
    return b;
}

/* The user gets the first handle. Before that, no loss is reported. */
static hf_result prepare_part(hf_client *c, hf__multi_part *p, hf__bundle *b, unsigned i,
                              const hf_options *o) {
    hf_options one = *o;
    if (i) one.on_lost = NULL;
    hf_result r = hf__acquire_prepare(c, &p->wait, &one);
    if (r) return r;
    hf_hold *hold = hf__hold_of(p->wait.handle);
    b->parts[i] = &hold->handle;
    hold->lost_reported = true;
    hold->bundle = b;
    return HF_OK;
}

static void fill_part(hf__multi_part *p, const hf_client *c, const request_item *each,
                      const hf_options *o, hf__owner owner, hf__time now) {
    hf_options one = make_part_options(o, &each->request);
    /* the names that are held first are renewed until all are held */
    one.flags &= ~(uint32_t)HF_NO_RENEW;
    p->name = each->request.name;
    p->length = each->length;
    hf__acquire_fill(&p->wait, c, &one, owner, now);
}

static void free_parts(hf_client *c, hf__multi_acquire *t) {
    for (unsigned i = 0; i < t->count; i++) hf__acquire_undo(c, &t->parts[i].wait);
}

static hf_result prepare_parts(hf_client *c, hf__multi_acquire *t, hf__bundle *b,
                               const request_list *w, const hf_options *o) {
    hf__time now = hf__now();
    t->multi.core = c->core;
    t->count = w->parts;
    t->try_once = o->wait_ms == 0;
    t->until = t->try_once ? HF__NEVER : hf__after_ms(now, o->wait_ms);
    t->max_hold_ms = o->max_hold_ms;
    t->no_renew = o->flags & HF_NO_RENEW;
    hf__owner owner = hf__owner_of(o); /* one owner for all, even if it is a fresh one */
    for (unsigned i = 0; i < w->parts; i++) {
        hf_result r = prepare_part(c, &t->parts[i], b, i, o);
        if (r) return r;
        fill_part(&t->parts[i], c, &w->at[i], o, owner, now);
    }
    return HF_OK;
}

/* ---- The call ---- */

static hf_result wait_for_all(hf_client *c, hf__multi_acquire *t, hf_cancel *cancel) {
    hf__time now = hf__now();
    hf__time until = t->try_once ? hf__command_until(c, now) : t->until;
    hf__core_acquire_all(t, now);
    hf__awaited how = hf__await(c, &t->call, until, cancel);
    if (how != HF__DONE) {
        hf__core_give_up_all(t, how == HF__FIRED ? HF_CANCELLED : HF_TIMEOUT, hf__now());
        hf__run_once(c, NULL);
    }
    return hf__call_result(&t->call);
}

/* A part may have been lost since the last part was granted. */
static hf_result return_hold(hf_client *c, hf_hold *hold) {
    hf__time now = hf__now();
    if (!hf__hold_valid(hold, now)) {
        hf__hold_release(c, hold, NULL, now);
        hf__run_once(c, NULL);
        return hf__fail(HF_LOST, "all were granted, but one was lost before the call returned");
    }
    hold->lost_reported = false;
    return HF_OK;
}

static hf_result acquire_all(hf_client *c, const request_list *w, const hf_options *o,
                             hf__bundle *b, hf_hold **out) {
    hf__multi_acquire *t = calloc(1, sizeof *t + w->parts * sizeof t->parts[0]);
    if (!t) return hf__fail(HF_NOMEM, "out of memory; nothing was acquired");
    hf_result r = prepare_parts(c, t, b, w, o);
    if (!r) r = wait_for_all(c, t, o->cancel);
    if (r) {
        free_parts(c, t);
    } else {
        *out = hf__hold_of(t->parts[0].wait.handle);
        r = return_hold(c, *out);
    }
    free(t);
    return r;
}

/* Mutex held before and after. */
static hf_result acquire_requests(hf_client *c, request_list *w, hf_options *o, hf_hold **hold) {
    hf_result r = check_requests(c, w, o);
    if (!r) r = hf__lease_fits(c, hf__lease_of(c, o), &o->wait_ms, o->cancel);
    if (r) return r;
    if (o->cancel && atomic_load(&o->cancel->fired)) {
        hf__core_stats(c->core)->refused++;
        return hf__fail(HF_CANCELLED, "the cancel was fired before the call began");
    }
    hf__bundle *b = bundle_new(w);
    if (!b) return hf__fail(HF_NOMEM, "out of memory; nothing was acquired");
    hf_hold *made = NULL;
    r = acquire_all(c, w, o, b, &made);
    if (!made) free(b);
    if (made && r) {
        hf__unlock(c);
        hf_unref(made);
        pthread_mutex_lock(&c->mutex);
    }
    if (!r) *hold = made;
    return r;
}

hf_result hf_acquire_all_v(hf_client *c, const hf_request *requests, size_t count,
                           size_t request_size, const hf_options *options, size_t options_size,
                           hf_hold **hold) {
    hf_options o;
    if (!hold) return hf__fail(HF_INVALID, "hf_acquire_all needs a pointer for the hold");
    *hold = NULL;
    hf_result r = hf__options_copy("hf_options", &o, sizeof o, options, options_size);
    if (r) return r;
    request_list *w = calloc(1, sizeof *w);
    if (!w) return hf__fail(HF_NOMEM, "out of memory; nothing was acquired");
    r = copy_requests(w, requests, count, request_size);
    if (!r) r = hf__call_begin(c);
    if (!r) {
        r = acquire_requests(c, w, &o, hold);
        hf__call_end(c);
    }
    free(w);
    return r;
}
