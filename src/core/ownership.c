/* SPDX-License-Identifier: Apache-2.0 */
/* Ownerships and the handles on them: references, and the ways an ownership ends. */
#include <stdlib.h>
#include <string.h>

#include "core/core.h"

#include "base/event.h"
#include "base/probe.h"
#include "core/histogram.h"

hf__ownership *hf__ownership_new(void) {
    hf__ownership *ownership = calloc(1, sizeof *ownership);
    if (!ownership) return NULL;
    atomic_init(&ownership->refs, 1);
    atomic_init(&ownership->state, HF__RELEASED);
    ownership->lost_fd = -1;
    return ownership;
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

hf_hold *hf__hold_new(hf_lost_fn *on_lost, void *arg) {
    hf_hold *hold = calloc(1, sizeof *hold);
    if (!hold) return NULL;
    atomic_init(&hold->refs, 1);
    hold->on_lost = on_lost;
    hold->arg = arg;
    return hold;
}

void hf__hold_attach(hf_hold *hold, hf__ownership *ownership) {
    hold->ownership = hf__ownership_ref(ownership);
    hf__list_append(&ownership->handles, hold, link);
    ownership->count++;
}

/* The reference to the ownership stays: a released handle still knows its token. */
void hf__hold_detach(hf_hold *hold) {
    hf__list_remove(&hold->ownership->handles, hold, link);
    hold->ownership->count--;
}

bool hf__ownership_valid(const hf__ownership *ownership, hf__time now) {
    return atomic_load_explicit(&ownership->state, memory_order_acquire) == HF__HELD &&
           now < atomic_load_explicit(&ownership->deadline, memory_order_relaxed);
}

void hf__ownership_end(hf__ownership *ownership, hf__state state, hf__time now) {
    hf__entry *entry = ownership->entry;
    hf__core *core = entry->core;
    atomic_store_explicit(&ownership->state, (int)state, memory_order_release);
    ownership->entry = NULL;
    entry->ownership = NULL;
    core->stats.held--;
    if (state != HF__LOST) core->stats.released++;
    hf__histogram_add(&core->stats.holds, now - ownership->granted_at);
    if (state != HF__LOST)
        HF__PROBE3(released, entry->mapped.key, atomic_load(&ownership->token),
                   now - ownership->granted_at);
    hf_result left = state == HF__LOST ? HF_LOST : state == HF__ENDED ? HF_CLOSED : HF_NOT_HELD;
    hf__calls_finish(core, &ownership->extend_calls, left, atomic_load(&ownership->lost_reason));
    hf__calls_finish(core, &entry->extending, left, atomic_load(&ownership->lost_reason));
    hf__calls_finish(core, &ownership->export_calls,
                     ownership->export_unknown ? HF_UNKNOWN_OUTCOME : left,
                     atomic_load(&ownership->lost_reason));
    hf__calls_finish(core, &entry->exporting, HF_UNKNOWN_OUTCOME,
                     atomic_load(&ownership->lost_reason));
    if (ownership->upgrades)
        hf__entry_finish_upgrades(entry, left, atomic_load(&ownership->lost_reason));
    hf__entry_add_pending_leave(entry, ownership->acquire_id, ownership->upgrade_queued_until);
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
