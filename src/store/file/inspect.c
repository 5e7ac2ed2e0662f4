/* SPDX-License-Identifier: Apache-2.0 */
/* Describes a lock as another process sees it: its holder, then the table, then the tickets. */
#include "store/file/inspect.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/error.h"
#include "store/file/clofork.h"
#include "store/file/ranges.h"

#define TRIES 32 /* while a record is being written */

static hf_result report_error(const hf__lockfile *file, int error, char **detail) {
    *detail = hf__line("cannot inspect %s/%s: %s", file->path, file->name, strerror(error));
    return HF_UNREACHABLE;
}

/* A mutex writes its record right after it takes the hold. So the record is valid once it contains
   the id of the holder. While the kinds table is in use, a client has the range only for a
   moment. */
static hf_result read_holder(const hf__lockfile *file, int fd, hf__head *head, char **detail) {
    for (int i = 0; i < TRIES; i++) {
        int64_t holder = hf__hold_holder(fd);
        if (holder < 0) return report_error(file, (int)-holder, detail);
        hf_result r = hf__lockfile_read(file, fd, NULL, 0, head, detail);
        if (r) return r;
        if (!holder || holder >= HF__REMOVING || hf__kinds_in_use(head)) return HF_NOT_HELD;
        if (hf__record_is_intact(&head->record) && head->record.id == holder) return HF_OK;
        sched_yield();
    }
    head->record = (hf__record){.count = 1};
    return HF_OK;
}

/* Waiters in the table come first, because they have already had the entry lock. */
static void collect_waiters(hf__file_snapshot *snapshot) {
    for (unsigned i = 0; i < snapshot->table.count; i++) {
        const hf__slot *slot = &snapshot->table.views[i].slot;
        if (slot->token) continue;
        if (snapshot->waiter_count < HF__WAITERS_MAX)
            snapshot->waiters[snapshot->waiter_count] = *slot;
        snapshot->waiter_count++;
    }
    for (hf__ticket at = {.ticket = -1};
         (at = hf__ticket_first(snapshot->fd, at.ticket + 1)).ticket >= 0 && at.id;) {
        if (snapshot->waiter_count < HF__WAITERS_MAX)
            snapshot->waiters[snapshot->waiter_count] = (hf__slot){.id = at.id};
        snapshot->waiter_count++;
    }
}

static void count_holders(hf__file_snapshot *snapshot) {
    while (snapshot->holder_count < snapshot->table.count &&
           snapshot->table.views[snapshot->holder_count].slot.token)
        snapshot->holder_count++;
}

hf_result hf__file_inspect(const hf__lockfile *file, const char *key, size_t length,
                           hf__file_snapshot *snapshot, char **detail) {
    hf_result r;
    struct stat st;
    *snapshot = (hf__file_snapshot){.fd = hf__lockfile_open(file, false, &r, detail)};
    if (snapshot->fd < 0) return r == HF_NOT_HELD ? HF_OK : r;
    r = hf__lockfile_read(file, snapshot->fd, key, length, &snapshot->head, detail);
    if (!r) r = read_holder(file, snapshot->fd, &snapshot->head, detail);
    snapshot->held = !r;
    if (!r || r == HF_NOT_HELD)
        r = hf__slot_table_read(file, snapshot->fd, NULL, &snapshot->table, detail);
    if (!r && fstat(snapshot->fd, &st) != 0) r = report_error(file, errno, detail);
    if (r) {
        hf__file_inspect_end(snapshot);
        return r;
    }
    snapshot->inode = st.st_ino;
    count_holders(snapshot);
    collect_waiters(snapshot);
    return HF_OK;
}

void hf__file_inspect_end(hf__file_snapshot *snapshot) {
    hf__slot_table_fini(&snapshot->table);
    hf__clofork_close(snapshot->fd);
    snapshot->fd = -1;
}
