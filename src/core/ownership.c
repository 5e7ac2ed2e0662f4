/* SPDX-License-Identifier: Apache-2.0 */
/* Ownerships and the handles on them: references, and the ways an ownership ends. */
#include <stdlib.h>
#include <string.h>

#include "core/core_internal.h"

#include "base/event.h"
#include "base/probe.h"
#include "core/histogram.h"

static hf__ownership *ownership_new(void) {
    hf__ownership *ownership = malloc(sizeof *ownership);
    if (ownership) *ownership = (hf__ownership){.refs = 1, .state = HF__RELEASED, .lost_fd = -1};
    return ownership;
}

bool hf__wait_prepare(hf__wait *w) {
    if (!w->grant) w->grant = malloc(sizeof *w->grant);
    if (!w->ownership) w->ownership = ownership_new();
    return w->grant && w->ownership;
}

void hf__wait_discard(hf__wait *w) {
    free(w->grant);
    hf__ownership_unref(w->ownership);
    w->grant = NULL;
    w->ownership = NULL;
}

hf__ownership *hf__ownership_ref(hf__ownership *ownership) {
    atomic_fetch_add_explicit(&ownership->refs, 1, memory_order_relaxed);
    return ownership;
}

void hf__ownership_unref(hf__ownership *ownership) {
    if (!ownership || atomic_fetch_sub_explicit(&ownership->refs, 1, memory_order_acq_rel) != 1)
        return;
    hf__event_free(ownership->lost_fd);
    free(ownership->name);
    free(ownership);
}

void hf__handle_attach(hf__handle *handle, hf__ownership *ownership) {
    handle->ownership = hf__ownership_ref(ownership);
    hf__list_append(&ownership->handles, handle, link);
    ownership->count++;
}

/* The reference to the ownership stays: a released handle still knows its token. */
void hf__handle_detach(hf__handle *handle) {
    hf__list_remove(&handle->ownership->handles, handle, link);
    handle->ownership->count--;
}

bool hf__ownership_valid(const hf__ownership *ownership, hf__time now) {
    return atomic_load_explicit(&ownership->state, memory_order_acquire) == HF__HELD &&
           now < atomic_load_explicit(&ownership->deadline, memory_order_relaxed);
}

hf_result hf__ownership_end_result(const hf__ownership *ownership) {
    int state = atomic_load(&ownership->state);
    return state == HF__LOST ? HF_LOST : state == HF__ENDED ? HF_CLOSED : HF_NOT_HELD;
}

void hf__ownership_set_deadline(hf__ownership *ownership) {
    hf__time deadline = ownership->entry->grant->deadline;
    atomic_store(&ownership->deadline, hf__sooner(deadline, ownership->max_hold_until));
}

void hf__ownership_end(hf__ownership *ownership, hf__state state, hf__time now) {
    hf__entry *entry = ownership->entry;
    hf__grant *grant = entry->grant;
    hf__core *core = entry->core;
    atomic_store_explicit(&ownership->state, (int)state, memory_order_release);
    ownership->entry = NULL;
    entry->ownership = NULL;
    entry->grant = NULL;
    core->stats.held--;
    if (state != HF__LOST) core->stats.released++;
    hf__histogram_add(&core->stats.holds, now - ownership->granted_at);
    if (state != HF__LOST)
        HF__PROBE3(released, entry->mapped.key, atomic_load(&ownership->token),
                   now - ownership->granted_at);
    hf_result left = hf__ownership_end_result(ownership);
    hf__calls_finish(core, &ownership->extend_calls, left, atomic_load(&ownership->lost_reason));
    hf__calls_finish(core, &entry->extending, left, atomic_load(&ownership->lost_reason));
    hf__calls_finish(core, &ownership->export_calls,
                     grant->export_unknown ? HF_UNKNOWN_OUTCOME : left,
                     atomic_load(&ownership->lost_reason));
    hf__calls_finish(core, &entry->exporting, HF_UNKNOWN_OUTCOME,
                     atomic_load(&ownership->lost_reason));
    if (grant->upgrades)
        hf__entry_finish_upgrades(entry, left, atomic_load(&ownership->lost_reason));
    hf__entry_add_pending_leave(entry, grant->acquire_id, grant->upgrade_queued_until);
    free(grant);
    hf__ownership_unref(ownership);
}

void hf__ownership_lose(hf__ownership *ownership, const char *why, hf__time now) {
    hf__core *core = ownership->entry->core;
    atomic_store_explicit(&ownership->lost_reason, why, memory_order_release);
    ownership->name = strndup(ownership->entry->mapped.key, ownership->entry->name_length);
    core->stats.lost++;
    HF__PROBE3(lost, ownership->entry->mapped.key, atomic_load(&ownership->token), why);
    hf__ownership_ref(ownership);
    hf__fifo_push(&core->lost, ownership);
    hf__ownership_end(ownership, HF__LOST, now);
}

hf__loss hf__ownership_loss(const hf__ownership *ownership) {
    return (hf__loss){.name = ownership->name,
                      .reason = atomic_load(&ownership->lost_reason),
                      .token = atomic_load(&ownership->token),
                      .fd = ownership->lost_fd,
                      .handles = ownership->handles.first};
}

/* ---- What a handle knows ---- */

hf__time hf__handle_valid_until(const hf__handle *handle, hf__time now) {
    const hf__ownership *ownership = handle->ownership;
    return hf__ownership_valid(ownership, now) ? atomic_load(&ownership->deadline) : 0;
}

uint64_t hf__handle_token(const hf__handle *handle) {
    return atomic_load(&handle->ownership->token);
}

const char *hf__handle_lost_reason(const hf__handle *handle) {
    return atomic_load_explicit(&handle->ownership->lost_reason, memory_order_acquire);
}

hf__holding hf__handle_holding(const hf__handle *handle) {
    const hf__ownership *ownership = handle->ownership;
    const hf__entry *e = ownership->entry;
    return (hf__holding){.result = e ? HF_OK : hf__ownership_end_result(ownership),
                         .name = e ? e->mapped.key : NULL,
                         .name_length = e ? e->name_length : 0,
                         .acquire_id = ownership->acquire_id,
                         .token = atomic_load(&ownership->token),
                         .lease_ms = e ? e->grant->lease_ms : 0,
                         .kind = ownership->kind,
                         .count = ownership->count};
}

bool hf__handle_lost(const hf__handle *handle, hf__time now) {
    const hf__ownership *ownership = handle->ownership;
    if (ownership->entry) hf__entry_expire(ownership->entry, now);
    return atomic_load(&ownership->state) == HF__LOST;
}

int *hf__handle_lost_fd(const hf__handle *handle) {
    return &handle->ownership->lost_fd;
}
