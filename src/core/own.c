/* Ownerships and the handles on them: who keeps what alive, and the ways an ownership ends. */
#include <stdlib.h>
#include <string.h>

#include "core/core.h"

#include "base/event.h"
#include "base/probe.h"
#include "core/histogram.h"

hf__own *hf__own_new(void) {
    hf__own *own = calloc(1, sizeof *own);
    if (!own) return NULL;
    atomic_init(&own->refs, 1);
    atomic_init(&own->state, HF__RELEASED);
    own->lost_fd = -1;
    return own;
}

hf__own *hf__own_ref(hf__own *own) {
    atomic_fetch_add_explicit(&own->refs, 1, memory_order_relaxed);
    return own;
}

void hf__own_unref(hf__own *own) {
    if (!own || atomic_fetch_sub_explicit(&own->refs, 1, memory_order_acq_rel) != 1) return;
    hf__event_free(own->lost_fd);
    free(own->name);
    free(own);
}

hf_hold *hf__hold_new(hf_lost_fn *on_lost, void *arg) {
    hf_hold *hold = calloc(1, sizeof *hold);
    if (!hold) return NULL;
    atomic_init(&hold->refs, 1);
    hold->on_lost = on_lost;
    hold->arg = arg;
    return hold;
}

void hf__hold_attach(hf_hold *hold, hf__own *own) {
    hold->own = hf__own_ref(own);
    hold->next = own->handles;
    if (hold->next) hold->next->prev = hold;
    own->handles = hold;
    own->count++;
}

/* The reference to the own stays: a released handle still knows its token. */
void hf__hold_detach(hf_hold *hold) {
    if (hold->prev)
        hold->prev->next = hold->next;
    else
        hold->own->handles = hold->next;
    if (hold->next) hold->next->prev = hold->prev;
    hold->next = hold->prev = NULL;
    hold->own->count--;
}

bool hf__own_good(const hf__own *own, hf__time now) {
    return atomic_load_explicit(&own->state, memory_order_acquire) == HF__HELD &&
           now < atomic_load_explicit(&own->deadline, memory_order_relaxed);
}

void hf__own_end(hf__own *own, hf__state state, hf__time now) {
    hf__entry *entry = own->entry;
    hf__core *core = entry->core;
    atomic_store_explicit(&own->state, (int)state, memory_order_release);
    own->entry = NULL;
    entry->own = NULL;
    core->stats.held--;
    if (state != HF__LOST) core->stats.released++;
    hf__histogram_add(&core->stats.holds, now - own->since);
    if (state != HF__LOST)
        HF__PROBE3(released, entry->mapped.key, atomic_load(&own->token), now - own->since);
    hf_result left = state == HF__LOST ? HF_LOST : state == HF__ENDED ? HF_CLOSED : HF_NOT_HELD;
    hf__calls_finish(core, &own->extends, left, atomic_load(&own->why));
    hf__calls_finish(core, &entry->extending, left, atomic_load(&own->why));
    hf__calls_finish(core, &own->exports, own->export_maybe ? HF_UNKNOWN_OUTCOME : left,
                     atomic_load(&own->why));
    hf__calls_finish(core, &entry->exporting, HF_UNKNOWN_OUTCOME, atomic_load(&own->why));
    if (own->upgrades) hf__upgrades_finish(entry, left, atomic_load(&own->why));
    hf__entry_haunt_line(entry, own->acquire_id, own->upgrade_queued_until);
    hf__own_unref(own);
}

void hf__own_lose(hf__own *own, const char *why, hf__time now) {
    hf__core *core = own->entry->core;
    atomic_store_explicit(&own->why, why, memory_order_release);
    own->name = strndup(own->entry->mapped.key, own->entry->name_length);
    core->stats.lost++;
    HF__PROBE3(lost, own->entry->mapped.key, atomic_load(&own->token), why);
    own->next_lost = core->lost;
    core->lost = hf__own_ref(own);
    hf__own_end(own, HF__LOST, now);
}
