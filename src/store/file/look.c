/* See look.h. */
#include "store/file/look.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/error.h"
#include "store/file/clofork.h"
#include "store/file/ranges.h"

#define TRIES 32 /* against a record that is being written */

static hf_result cannot_look(const hf__lockfile *file, int error, char **detail) {
    *detail = hf__line("cannot look at %s/%s: %s", file->path, file->name, strerror(error));
    return HF_UNREACHABLE;
}

/* The record belongs to the holder once it names it; it is written right after the hold is
   taken. Who has the range while the room is open only passes. */
static hf_result read_holder(const hf__lockfile *file, int fd, hf__head *head, char **detail) {
    for (int i = 0; i < TRIES; i++) {
        int64_t holder = hf__hold_holder(fd);
        if (holder < 0) return cannot_look(file, (int)-holder, detail);
        hf_result r = hf__lockfile_read(file, fd, NULL, 0, head, detail);
        if (r) return r;
        if (!holder || holder >= HF__REMOVING || hf__room_open(head)) return HF_NOT_HELD;
        if (hf__record_whole(&head->record) && head->record.id == holder) return HF_OK;
        sched_yield();
    }
    head->record = (hf__record){.count = 1};
    return HF_OK;
}

/* Those in line: of the room first, since they have come through the door. */
static void see_line(hf__view *view) {
    for (unsigned i = 0; i < view->table.count; i++) {
        const hf__slot *slot = &view->table.spots[i].slot;
        if (slot->token) continue;
        if (view->waiting < HF__LINE_SEEN) view->line[view->waiting] = *slot;
        view->waiting++;
    }
    for (hf__ticket at = {.ticket = -1};
         (at = hf__ticket_first(view->fd, at.ticket + 1)).ticket >= 0 && at.id;) {
        if (view->waiting < HF__LINE_SEEN) view->line[view->waiting] = (hf__slot){.id = at.id};
        view->waiting++;
    }
}

static void see_inside(hf__view *view) {
    while (view->inside < view->table.count && view->table.spots[view->inside].slot.token)
        view->inside++;
}

hf_result hf__look(const hf__lockfile *file, const char *key, size_t length, hf__view *view,
                   char **detail) {
    hf_result r;
    struct stat st;
    *view = (hf__view){.fd = hf__lockfile_open(file, false, &r, detail)};
    if (view->fd < 0) return r == HF_NOT_HELD ? HF_OK : r;
    r = hf__lockfile_read(file, view->fd, key, length, &view->head, detail);
    if (!r) r = read_holder(file, view->fd, &view->head, detail);
    view->held = !r;
    if (!r || r == HF_NOT_HELD) r = hf__table_read(file, view->fd, NULL, &view->table, detail);
    if (!r && fstat(view->fd, &st) != 0) r = cannot_look(file, errno, detail);
    if (r) {
        hf__look_end(view);
        return r;
    }
    view->inode = st.st_ino;
    see_inside(view);
    see_line(view);
    return HF_OK;
}

void hf__look_end(hf__view *view) {
    hf__table_fini(&view->table);
    hf__clofork_close(view->fd);
    view->fd = -1;
}
