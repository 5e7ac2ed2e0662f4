/*
 * Between the files of an entry, which is too much for one: what it wants of the store and when (entry.c),
 * what comes of it (answer.c), how a wait becomes an ownership (grant.c) and how it ends otherwise (wait.c).
 */
#ifndef HF_CORE_ENTRY_H
#define HF_CORE_ENTRY_H

#include "core/core.h"

/* ---- wait.c ---- */

/* By its number a wait is found when the store says that it was granted. 0: it has none. */
void hf__wait_set_acquire_id(hf__wait *wait, uint64_t acquire_id);

/* Whether it stands in the store's line, and until when at most. */
void hf__wait_set_queued(hf__wait *wait, hf__time until);

/* Nothing of ours may be held by nobody any more. */
void hf__entry_clear_pending_release(hf__entry *entry);

/* An ask that acts at the latest then has left nothing in the store by this time. */
hf__time hf__entry_expired_by(const hf__entry *entry, hf__time latest, int64_t lease_ms);

/* An upgrade is not wanted any more. */
void hf__entry_cancel_upgrade(hf__entry *entry);

/* Somebody waits for the store, and not for a hold of this client. */
bool hf__entry_awaits_store(const hf__entry *entry);

/* End the waits for which the store has been silent too long; and when that will be. */
void hf__entry_fail_outage_waits(hf__entry *entry, hf__time now);
hf__time hf__entry_outage_due(const hf__entry *entry);

/* ---- grant.c ---- */

/* The lease that a wait asks for. */
int64_t hf__wait_lease(const hf__wait *wait);

/* The store has granted what the entry's operation says; to the wait, or if NULL to nobody any more. */
void hf__entry_acquired(hf__entry *entry, hf__wait *wait, hf__time now);
void hf__entry_upgraded(hf__entry *entry, hf__wait *wait, hf__time now);

/* A message says that it was granted: enter where that is safe, else ask. */
void hf__entry_enter_notified(hf__entry *entry, hf__wait *wait,
                              const hf__notification *notification, hf__time now);

/* When to renew what was asked for then. */
hf__time hf__core_renew_at(hf__core *core, hf__time sent_at, int64_t lease_ms);

/* Until when readers may join, after this answer. */
hf__time hf__ownership_joinable_until(const hf__entry *entry, const hf__ownership *ownership);

/* The store may have begun a lease of it, up to now. */
void hf__ownership_extend_lapse(hf__ownership *ownership, int64_t lease_ms, hf__time now);

/* ---- entry.c ---- */

/* Room for what is exported or adopted; false: no memory. */
bool hf__entry_reserve_export(hf__entry *entry);

void hf__entry_free(hf__entry *entry);

/* A hold past its deadline is lost. */
void hf__entry_expire_ownership(hf__entry *entry, hf__time now);

#endif
