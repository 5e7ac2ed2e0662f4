/* SPDX-License-Identifier: Apache-2.0 */
/* See ledger.h. */
#include "ledger.h"

#include "holdfast.h"
#include "t_time.h"

/* What was read from another slot's record, to be compared with a second reading. */
typedef struct sight {
    const ledger_record *record;
    unsigned version;
    int64_t until_us;
    uint32_t permits;
    int slot;
} sight;

enum { SIGHTS_MAX = 64 };

void ledger_enter(soak_ledger *l, int slot, int record, const ledger_stay *stay) {
    ledger_record *r = &l->slots[slot].records[record];
    atomic_fetch_add(&r->version, 1);
    atomic_store(&r->name, stay->name);
    atomic_store(&r->kind, stay->kind);
    atomic_store(&r->permits, stay->permits);
    atomic_store(&r->wipes, stay->wipes);
    atomic_store(&r->until_us, stay->until_us);
    atomic_fetch_add(&r->version, 1);
}

/* The version stays the same: the same stay is inside before and after. */
void ledger_extend(soak_ledger *l, int slot, int record, int64_t until_us) {
    atomic_store(&l->slots[slot].records[record].until_us, until_us);
}

void ledger_leave(soak_ledger *l, int slot, int record) {
    ledger_record *r = &l->slots[slot].records[record];
    atomic_fetch_add(&r->version, 1);
    atomic_store(&r->until_us, 0);
    atomic_fetch_add(&r->version, 1);
}

void ledger_set_dead(soak_ledger *l, int slot, bool dead) {
    atomic_store(&l->slots[slot].dead, dead);
    for (int i = 0; !dead && i < LEDGER_RECORDS; i++) {
        atomic_store(&l->slots[slot].records[i].until_us, 0);
        atomic_store(&l->slots[slot].records[i].version, 0);
    }
}

static bool is_exclusive(uint32_t kind, uint32_t other) {
    if (kind == HF_MUTEX || kind == HF_WRITE || other == HF_MUTEX || other == HF_WRITE) return true;
    if (kind == HF_PERMITS || other == HF_PERMITS) return kind != other;
    return kind == HF_UPGRADABLE && other == HF_UPGRADABLE;
}

/* Whether the record conflicts with the stay. */
static bool read_record(const ledger_record *r, const ledger_stay *stay, unsigned wipes,
                        sight *seen) {
    seen->record = r;
    seen->version = atomic_load(&r->version);
    seen->until_us = atomic_load(&r->until_us);
    if (seen->version % 2 || !seen->until_us) return false;
    if (atomic_load(&r->name) != stay->name || atomic_load(&r->wipes) != wipes) return false;
    seen->permits = atomic_load(&r->permits);
    uint32_t kind = atomic_load(&r->kind);
    return is_exclusive(stay->kind, kind) || (stay->kind == HF_PERMITS && kind == HF_PERMITS);
}

static int look_around(soak_ledger *l, int slot, const ledger_stay *stay, unsigned wipes,
                       sight *seen) {
    int count = 0;
    for (int i = 0; i < LEDGER_SLOTS; i++) {
        if (i == slot || atomic_load(&l->slots[i].dead)) continue;
        for (int k = 0; k < LEDGER_RECORDS && count < SIGHTS_MAX; k++) {
            seen[count].slot = i;
            if (read_record(&l->slots[i].records[k], stay, wipes, &seen[count])) count++;
        }
    }
    return count;
}

/* Whether the record is unchanged and valid at `now`, and its process has not been killed since. */
static bool still_so(soak_ledger *l, const sight *seen, int64_t now_us) {
    return seen->until_us > now_us && atomic_load(&seen->record->version) == seen->version &&
           !atomic_load(&l->slots[seen->slot].dead);
}

bool ledger_overlaps(soak_ledger *l, int slot, const ledger_stay *stay, unsigned wipes,
                     int *other) {
    sight seen[SIGHTS_MAX];
    if (wipes % 2 || stay->wipes != wipes) return false;
    int count = look_around(l, slot, stay, wipes, seen);
    int64_t now_us = t_now_us();
    uint64_t used = stay->permits;
    bool together = false;
    for (int i = 0; i < count; i++) {
        if (!still_so(l, &seen[i], now_us)) continue;
        *other = seen[i].slot;
        used += seen[i].permits;
        together = true;
    }
    if (!together || stay->until_us <= now_us) return false;
    return stay->kind != HF_PERMITS || used > stay->capacity;
}

bool ledger_token_grows(soak_ledger *l, int name, uint64_t token) {
    unsigned long long highest = atomic_load(&l->highest[name]);
    while (token > highest)
        if (atomic_compare_exchange_weak(&l->highest[name], &highest, token)) return true;
    return false;
}
