/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internal to the files that implement an entry: which operation it sends next and when (entry.c),
 * what an answer changes (answer.c), how a wait becomes an ownership (grant.c), and the other ways
 * a wait ends (wait.c).
 */
#ifndef HF_CORE_ENTRY_H
#define HF_CORE_ENTRY_H

#include "core/core.h"

/* ---- wait.c ---- */

/* Set the id by which a wait is found when the store notifies us of its grant. 0: none. */
void hf__wait_set_acquire_id(hf__wait *wait, uint64_t acquire_id);

/* Set until when the wait is in the store's queue; 0: it is not. */
void hf__wait_set_queued(hf__wait *wait, hf__time until);

/* No acquire id of this entry needs a release any more. */
void hf__entry_clear_pending_release(hf__entry *entry);

/* When an ACQUIRE that is executed at `latest` has surely expired: its hold, and its queue
   position, which lasts longer. */
hf__time hf__entry_expired_by(const hf__entry *entry, hf__time latest, int64_t lease_ms);

/* An upgrade is no longer wanted. */
void hf__entry_cancel_upgrade(hf__entry *entry);

/* Whether a wait of the entry depends on the store, and not on a hold of this client. */
bool hf__entry_awaits_store(const hf__entry *entry);

/* End the waits for which the store has been silent too long. And when the next one is due. */
void hf__entry_fail_outage_waits(hf__entry *entry, hf__time now);
hf__time hf__entry_outage_due(const hf__entry *entry);

/* ---- grant.c ---- */

/* The lease to request for a wait. */
int64_t hf__wait_lease(const hf__wait *wait);

/* The store has granted the entry's operation; `wait` is NULL if it has given up. */
void hf__entry_acquired(hf__entry *entry, hf__wait *wait, hf__time now);
void hf__entry_upgraded(hf__entry *entry, hf__wait *wait, hf__time now);

/* A notification says that the wait was granted. Accept it where that is safe; otherwise send an
   ACQUIRE to confirm it. */
void hf__entry_enter_notified(hf__entry *entry, hf__wait *wait,
                              const hf__notification *notification, hf__time now);

/* When to renew a lease that was requested at `sent_at`. */
hf__time hf__core_renew_at(hf__core *core, hf__time sent_at, int64_t lease_ms);

/* Until when other readers may join the ownership, according to the last answer. */
hf__time hf__ownership_joinable_until(const hf__entry *entry, const hf__ownership *ownership);

/* The store may have begun a lease of the ownership as late as `now`. */
void hf__ownership_extend_lapse(hf__ownership *ownership, int64_t lease_ms, hf__time now);

/* ---- entry.c ---- */

/* Allocate `exported`, for an export or an adoption; false: no memory. */
bool hf__entry_reserve_export(hf__entry *entry);

void hf__entry_free(hf__entry *entry);

/* An ownership past its deadline is lost. */
void hf__entry_expire_ownership(hf__entry *entry, hf__time now);

#endif
