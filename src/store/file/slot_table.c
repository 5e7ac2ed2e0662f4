/* SPDX-License-Identifier: Apache-2.0 */
/* Reads, checks and writes the slots of a lock's file. See slot_table.h. */
#include "store/file/slot_table.h"

#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "store/file/ranges.h"

#define TABLE_AT  4096
#define SLOT_SIZE 256
#define CHUNK     16 /* slots read at once */
#define TRIES     32 /* while a slot is being written */

_Static_assert(sizeof(hf__slot) <= SLOT_SIZE, "a slot fits into its space");
_Static_assert(sizeof(hf__slot) % 8 == 0, "the checksum covers whole words");
_Static_assert(HF__SLOTS_MAX % CHUNK == 0, "the table consists of whole chunks");

/* ---- One slot ---- */

static off_t offset_of(unsigned index) {
    return TABLE_AT + (off_t)index * SLOT_SIZE;
}

static uint64_t checksum_of(const hf__slot *slot) {
    enum { FIRST = offsetof(hf__slot, acquire_id) / 8, LAST = offsetof(hf__slot, checksum) / 8 };
    uint64_t words[sizeof *slot / 8], sum = 1;
    memcpy(words, slot, sizeof words);
    for (size_t i = FIRST; i < LAST; i++)
        sum = (sum ^ sum >> 29 ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
    return sum;
}

bool hf__slot_is_intact(const hf__slot *slot) {
    return slot->checksum == checksum_of(slot);
}

int hf__slot_read(int fd, unsigned index, hf__slot *slot) {
    *slot = (hf__slot){0};
    ssize_t n = pread(fd, slot, sizeof *slot, offset_of(index));
    if (n >= 0 && n < (ssize_t)sizeof *slot) *slot = (hf__slot){0};
    return n < 0 ? errno : 0;
}

int hf__slot_write(int fd, unsigned index, hf__slot *slot, bool whole) {
    size_t from = whole ? 0 : offsetof(hf__slot, until);
    char bytes[SLOT_SIZE] = {0}; /* the full size, so that the file ends where the last slot ends */
    slot->checksum = checksum_of(slot);
    memcpy(bytes, slot, sizeof *slot);
    return hf__lockfile_write(fd, bytes + from, sizeof bytes - from,
                              offset_of(index) + (off_t)from);
}

static int write_field(int fd, unsigned index, const void *word, size_t size, size_t at) {
    return hf__lockfile_write(fd, word, size, offset_of(index) + (off_t)at);
}

int hf__slot_clear(int fd, unsigned index) {
    hf__slot empty = {0};
    return hf__slot_write(fd, index, &empty, true);
}

int hf__slot_extend(int fd, unsigned index, hf__time until, uint32_t count) {
    struct {
        hf__time until;
        uint32_t count, spare;
    } words = {until, count, 0};
    return write_field(fd, index, &words, sizeof words, offsetof(hf__slot, until));
}

int hf__slot_mark_broken(int fd, unsigned index, uint64_t token) {
    return write_field(fd, index, &token, sizeof token, offsetof(hf__slot, broken));
}

/* ---- The table ---- */

static hf_result report_error(const hf__lockfile *file, int error, char **detail) {
    *detail = hf__line("cannot read %s/%s: %s", file->path, file->name, strerror(error));
    return HF_UNREACHABLE;
}

/* Adds a slot to the table; NULL: out of memory. */
static hf__slot_view *add_view(hf__slot_table *table, const hf__slot *slot, unsigned index,
                               bool own) {
    if (table->count % CHUNK == 0) {
        hf__slot_view *larger =
            realloc(table->views, (table->count + CHUNK) * sizeof *table->views);
        if (!larger) return NULL;
        table->views = larger;
    }
    hf__slot_view *view = &table->views[table->count++];
    *view = (hf__slot_view){.slot = *slot, .index = index, .is_ours = own};
    view->slot.client[sizeof view->slot.client - 1] = '\0';
    hf__slot_set_put(&table->taken, index, true);
    return view;
}

/* A slot that is not intact is being written. If we have the entry lock, it is damaged. */
static hf_result read_again(const hf__lockfile *file, int fd, unsigned index, hf__slot *slot,
                            char **detail) {
    for (int i = 0; i < TRIES && slot->acquire_id && !hf__slot_is_intact(slot); i++) {
        sched_yield();
        int error = hf__slot_read(fd, index, slot);
        if (error) return report_error(file, error, detail);
    }
    if (!slot->acquire_id || hf__slot_is_intact(slot)) return HF_OK;
    return hf__lockfile_report_damaged(file, "is damaged", detail);
}

/* The id of the client that has the slot; 0: none. Without the entry lock, the slot may be read
   while it passes from one owner to another. */
static hf_result read_owner(const hf__lockfile *file, int fd, const hf__slot_set *own,
                            unsigned index, hf__slot *slot, int64_t *owner, char **detail) {
    for (int i = 0; i < TRIES; i++) {
        *owner = hf__slot_holder(fd, index);
        if (*owner < 0) return report_error(file, (int)-*owner, detail);
        if (!*owner) return HF_OK;
        hf_result r = read_again(file, fd, index, slot, detail);
        if (r || !slot->acquire_id || slot->id == *owner) return r;
        if (own) break;
        sched_yield();
        int error = hf__slot_read(fd, index, slot);
        if (error) return report_error(file, error, detail);
    }
    return hf__lockfile_report_damaged(file, "is damaged", detail);
}

static hf_result read_own(const hf__lockfile *file, unsigned index, const hf__slot *slot,
                          hf__slot_table *table, char **detail) {
    hf__slot_set_put(&table->taken, index, true);
    if (!hf__slot_is_intact(slot)) return hf__lockfile_report_damaged(file, "is damaged", detail);
    if (!slot->acquire_id) return HF_OK;
    return add_view(table, slot, index, true) ? HF_OK : HF_NOMEM;
}

static hf_result read_slot(const hf__lockfile *file, int fd, const hf__slot_set *own,
                           unsigned index, hf__slot *slot, hf__slot_table *table, char **detail) {
    int64_t owner;
    if (own && hf__slot_set_has(own, index)) return read_own(file, index, slot, table, detail);
    if (!slot->acquire_id) return HF_OK;
    hf_result r = read_owner(file, fd, own, index, slot, &owner, detail);
    if (r || !slot->acquire_id) return r;
    if (owner) return add_view(table, slot, index, false) ? HF_OK : HF_NOMEM;
    if (own) table->died = hf__slot_clear(fd, index) == 0 || table->died;
    return HF_OK;
}

/* Checks a slot that was read as empty although its range is locked. Either its owner has cleared
   it, and is about to unlock it or failed to. Or its contents were cut off or overwritten, and
   there may be a holder. The slot may be read while it is being cleared. Without the entry lock, it
   may also be read while a client takes it. */
static hf_result check_cleared(const hf__lockfile *file, int fd, bool entry_locked, unsigned index,
                               char **detail) {
    for (int i = 0; i < TRIES; i++) {
        hf__slot slot;
        int error = hf__slot_read(fd, index, &slot);
        if (error) return report_error(file, error, detail);
        if (hf__slot_is_intact(&slot) && !(entry_locked && slot.acquire_id)) return HF_OK;
        int64_t owner = hf__slot_holder(fd, index);
        if (owner < 0) return report_error(file, (int)-owner, detail);
        if (!owner || (!entry_locked && hf__hold_holder(fd) != 0)) return HF_OK;
        sched_yield();
    }
    return hf__lockfile_report_damaged(file, "is damaged", detail);
}

static hf_result check_empty(const hf__lockfile *file, int fd, bool entry_locked, unsigned from,
                             unsigned until, hf__slot_table *table, char **detail) {
    for (int64_t found; from < until; from = (unsigned)found + 1) {
        found = hf__slot_first(fd, from, until);
        if (found < 0) return report_error(file, (int)-found, detail);
        if (found == until) break;
        hf_result r = check_cleared(file, fd, entry_locked, (unsigned)found, detail);
        if (r) return r;
        hf__slot_set_put(&table->taken, (unsigned)found, true);
    }
    return HF_OK;
}

/* Check that no slot is in use besides those seen among the first `read` slots. If we do not have
   the entry lock, the client that has it may be using another slot. */
static hf_result check_rest(const hf__lockfile *file, int fd, const hf__slot_set *own,
                            unsigned read, hf__slot_table *table, char **detail) {
    unsigned from = 0;
    hf_result r = HF_OK;
    for (unsigned i = 0; i < read && !r; i++) {
        if (!hf__slot_set_has(&table->taken, i)) continue;
        r = check_empty(file, fd, own, from, i, table, detail);
        from = i + 1;
    }
    for (unsigned i = read; own && i < HF__SLOTS_MAX && !r; i++)
        if (hf__slot_set_has(own, i)) r = hf__lockfile_report_damaged(file, "is truncated", detail);
    return r ? r : check_empty(file, fd, own, from, HF__SLOTS_MAX, table, detail);
}

static int compare_views(const void *a, const void *b) {
    const hf__slot *x = &((const hf__slot_view *)a)->slot, *y = &((const hf__slot_view *)b)->slot;
    if (!x->token != !y->token) return x->token ? -1 : 1;
    if (x->token != y->token) return x->token < y->token ? -1 : 1;
    return x->position < y->position ? -1 : x->position > y->position;
}

hf_result hf__slot_table_read(const hf__lockfile *file, int fd, const hf__slot_set *own,
                              hf__slot_table *table, char **detail) {
    char chunk[CHUNK * SLOT_SIZE];
    unsigned read = 0;
    *table = (hf__slot_table){0};
    for (ssize_t n = sizeof chunk; n == sizeof chunk && read < HF__SLOTS_MAX;) {
        n = pread(fd, chunk, sizeof chunk, offset_of(read));
        if (n < 0) return report_error(file, errno, detail);
        for (unsigned i = 0; i < (size_t)n / SLOT_SIZE; i++) {
            hf__slot slot;
            memcpy(&slot, chunk + (size_t)i * SLOT_SIZE, sizeof slot);
            hf_result r = read_slot(file, fd, own, read++, &slot, table, detail);
            if (r) return r;
        }
    }
    hf_result r = check_rest(file, fd, own, read, table, detail);
    if (r) return r;
    if (table->count) qsort(table->views, table->count, sizeof *table->views, compare_views);
    return HF_OK;
}

void hf__slot_table_fini(hf__slot_table *table) {
    free(table->views);
    table->views = NULL;
    table->count = 0;
}
