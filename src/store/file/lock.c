#include "store/file/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "store/file/kept.h"
#include "store/file/ranges.h"

#define LOOK_AGAIN_MS 1000 /* a waiter asks now and then, though it will be woken */
#define SOON_MS       2    /* what is in the way will be gone in a moment */
#define SOON_TRIES    16
#define UNWATCHED_MS  50      /* nobody tells us of a death */
#define STALLED       HF__SEC /* for how long the first in line may leave a free lock lying */
#define TRIES         32      /* against files that are removed while we open them */

/* ---- The file ---- */

static hf_result system_trouble(const hf__lock *l, const char *what, int error, char **detail) {
    *detail = hf__line("cannot %s %s/%s: %s", what, l->file.path, l->file.name, strerror(error));
    switch (error) {
    case EMFILE:
    case ENFILE:
    case ENOLCK:
    case ENOMEM: return HF_NOMEM;
    case EIO: return HF_UNREACHABLE;
    default: return HF_REFUSED;
    }
}

static hf_result open_file(hf__lock *l, char **detail) {
    hf_result why;
    hf__head head;
    int fd = hf__lockfile_open(&l->file, true, &why, detail);
    bool gone = fd < 0 ? why == HF_NOT_HELD : hf__lockfile_moved(&l->file);
    if (gone) {
        hf__kept_close(fd);
        *detail = hf__line("the directory %s is gone: removed, or moved away; open the store again",
                           l->file.path);
        return HF_REFUSED;
    }
    if (fd < 0) return why;
    struct stat st;
    if (fstat(fd, &st) != 0)
        why = system_trouble(l, "open", errno, detail);
    else
        why = hf__lockfile_read(&l->file, fd, l->mapped.key, l->mapped.length, &head, detail);
    if (why) {
        hf__kept_close(fd);
        return why;
    }
    l->fd = fd;
    l->blank = !head.version;
    l->device = st.st_dev;
    l->inode = st.st_ino;
    return HF_OK;
}

static void close_file(hf__lock *l) {
    hf__kept_close(l->fd);
    l->fd = -1;
}

/* ---- Giving up ---- */

static void unwatch(hf__lock *l) {
    hf__peers_unwatch(l->ahead);
    l->ahead = NULL;
}

/* Unlocking can fail, closing cannot. Who waits is still to be told, through the file opened again. */
static void unlock_by_closing(hf__lock *l) {
    hf_result why;
    char *detail = NULL;
    close_file(l);
    l->soiled = false;
    l->fd = hf__lockfile_open(&l->file, false, &why, &detail);
    free(detail);
}

static void wake_first(const hf__lock *l, hf__peers *peers, int64_t from) {
    if (l->fd < 0) return;
    hf__place first = hf__ticket_first(l->fd, from);
    if (first.ticket >= 0 && first.id) hf__peers_wake(peers, first.id, l->inode);
}

static void let_go(hf__lock *l, hf__peers *peers) {
    l->held = 0;
    if (hf__hold_drop(l->fd, peers->id) != 0 || l->soiled) unlock_by_closing(l);
    wake_first(l, peers, 0);
}

/* The next in line no longer waits behind us, and has to see behind whom. */
static void leave(hf__lock *l, hf__peers *peers) {
    l->standing = 0;
    unwatch(l);
    if (hf__ticket_drop(l->fd, peers->id, l->ticket) != 0) unlock_by_closing(l);
    wake_first(l, peers, l->ticket);
}

void hf__lock_close(hf__lock *l, hf__peers *peers) {
    if (l->standing) leave(l, peers);
    if (l->held) let_go(l, peers);
    close_file(l);
}

/* ---- Entering ---- */

static uint64_t next_token(uint64_t last, uint64_t seen, int64_t unix_us) {
    uint64_t token = (last > seen ? last : seen) + 1;
    return unix_us > 0 && token < (uint64_t)unix_us ? (uint64_t)unix_us : token;
}

static int64_t unix_us(void) {
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static void fill_record(hf__record *r, const hf__op *op, uint64_t last, hf__time now) {
    int64_t us = unix_us();
    r->token = next_token(last, op->token, us);
    r->number = op->number;
    r->until = now + op->lease_ms * HF__MS;
    r->since_unix_ms = us / 1000;
    r->owner = op->owner.id;
    r->logical = op->owner.logical;
    r->count = op->count;
}

/* Others stood in line before us: the hold is theirs. When there is no line any more, say so, and look
   again: who joins takes his ticket first and writes then, so that one of us sees the other. */
static bool barged(hf__lock *l, const hf__head *head) {
    if (l->served) return false;
    l->wary = (head->line || !head->version) && hf__ticket_first(l->fd, 0).ticket >= 0;
    if (!head->line || l->wary) return l->wary;
    (void)hf__lockfile_line(l->fd, false);
    if (hf__ticket_first(l->fd, 0).ticket >= 0) (void)hf__lockfile_line(l->fd, true);
    return false;
}

static hf_result damaged(const hf__lock *l, char **detail) {
    *detail = hf__line("%s/%s was damaged; when no program uses this lock, remove the file",
                       l->file.path, l->file.name);
    return HF_PROTOCOL;
}

/* The hold's range is ours: see what the file says, and write ourselves into it. HF_BUSY: it is not
   our turn. */
static hf_result enter(hf__lock *l, hf__peers *peers, const hf__record *self, hf__op *op,
                       hf__time now) {
    hf__head head;
    hf_result r = hf__lockfile_read(&l->file, l->fd, NULL, 0, &head, &op->detail);
    int error = 0;
    if (!r && barged(l, &head)) r = HF_BUSY;
    if (!r && !head.version) error = hf__lockfile_begin(l->fd, l->mapped.key, l->mapped.length);
    if (!r && head.version && !hf__record_whole(&head.record)) r = damaged(l, &op->detail);
    if (!r && !error) {
        l->record = *self;
        l->record.id = peers->id;
        fill_record(&l->record, op, head.record.token, now);
        error = hf__lockfile_record(l->fd, &l->record);
    }
    if (error) r = system_trouble(l, "write", error, &op->detail);
    if (r) {
        let_go(l, peers);
        return r;
    }
    l->held = op->number;
    op->token = l->record.token;
    return HF_OK;
}

/* ---- Waiting ---- */

static hf_result busy(hf__op *op, int64_t retry_ms, bool placed) {
    op->retry_ms = retry_ms;
    op->placed = placed;
    return HF_BUSY;
}

/* Who stands before us; the holder if nobody does. 0: nobody at all. HF__REMOVING: see ranges.h. */
static int64_t one_ahead(const hf__lock *l) {
    hf__place before = hf__ticket_before(l->fd, l->ticket);
    if (before.ticket < 0) return hf__hold_holder(l->fd);
    return before.id ? before.id : HF__REMOVING;
}

/* Be told when the one ahead dies; HF_OK if it is dead or gone already. */
static hf_result watch_ahead(hf__lock *l, hf__peers *peers, hf__op *op) {
    int64_t id = one_ahead(l);
    if (!id) return HF_OK;
    if (id < 0) return busy(op, UNWATCHED_MS, true);
    if (id == HF__REMOVING) return busy(op, SOON_MS, true);
    if (l->ahead && l->ahead->id == (uint32_t)id && l->ahead->life >= 0)
        return busy(op, LOOK_AGAIN_MS, true);
    unwatch(l);
    if (hf__peers_watch(peers, (uint32_t)id, &l->ahead) == 0) {
        l->unseen = 0;
        return busy(op, LOOK_AGAIN_MS, true);
    }
    /* Most often it is dying, and the kernel still tidying up. */
    return busy(op, l->unseen++ < SOON_TRIES ? SOON_MS : UNWATCHED_MS, true);
}

/* The lock is free and the first in line has left it lying for long: it is stopped, and whoever
   looks may go past it. */
static bool may_pass(hf__lock *l, hf__place first, hf__time now) {
    bool idle = hf__hold_holder(l->fd) == 0;
    if (idle && l->stalled_since && l->stalled_ticket == first.ticket)
        return now - l->stalled_since >= STALLED;
    l->stalled_since = idle ? now : 0;
    l->stalled_ticket = first.ticket;
    return false;
}

static bool our_turn(hf__lock *l, hf__time now) {
    hf__place first = hf__ticket_first(l->fd, 0);
    if (first.ticket < 0 || first.ticket > l->ticket) return true;
    return first.id && may_pass(l, first, now);
}

/* HF_OK: the hold's range is ours. */
static hf_result wait_in_line(hf__lock *l, hf__peers *peers, hf__op *op, hf__time now) {
    l->standing = op->number;
    for (int i = 0; i < TRIES; i++) {
        if (our_turn(l, now)) {
            int error = hf__hold_take(l->fd, peers->id);
            if (!error) {
                l->standing = 0;
                l->served = true;
                unwatch(l);
                l->soiled = hf__ticket_drop(l->fd, peers->id, l->ticket) != 0;
                return HF_OK;
            }
            if (error != EAGAIN) {
                leave(l, peers);
                return system_trouble(l, "lock", error, &op->detail);
            }
        }
        hf_result r = watch_ahead(l, peers, op);
        if (r) return r;
    }
    return busy(op, SOON_MS, true);
}

/* Not in a file that is new: its first holder writes it as a whole, and says so there. */
static int say_line(hf__lock *l) {
    hf__head head;
    char *detail = NULL;
    if (l->blank && hf__lockfile_read(&l->file, l->fd, NULL, 0, &head, &detail) == HF_OK)
        l->blank = !head.version;
    free(detail);
    return l->blank ? 0 : hf__lockfile_line(l->fd, true);
}

static hf_result stand(hf__lock *l, hf__peers *peers, hf__op *op, hf__time now) {
    int error = hf__peers_join(peers, true);
    if (error) return system_trouble(l, "wait for", error, &op->detail);
    error = hf__ticket_take(l->fd, peers->id, &l->ticket);
    if (error == EAGAIN) return busy(op, SOON_MS, false);
    if (error) return system_trouble(l, "wait for", error, &op->detail);
    l->stalled_since = 0;
    l->unseen = 0;
    error = say_line(l);
    if (error) {
        leave(l, peers);
        return system_trouble(l, "write", error, &op->detail);
    }
    return wait_in_line(l, peers, op, now);
}

/* HF_OK: the hold's range is ours. */
static hf_result take(hf__lock *l, hf__peers *peers, hf__op *op, hf__time now) {
    if (l->standing) return wait_in_line(l, peers, op, now);
    int error = hf__peers_join(peers, false);
    if (error) return system_trouble(l, "take", error, &op->detail);
    if (!l->wary || hf__ticket_first(l->fd, 0).ticket < 0) {
        error = hf__hold_take(l->fd, peers->id);
        l->served = false;
        if (!error) return HF_OK;
        if (error != EAGAIN) return system_trouble(l, "lock", error, &op->detail);
    }
    return op->stand ? stand(l, peers, op, now) : busy(op, LOOK_AGAIN_MS, false);
}

/* What was in the way is a file being removed, or is over: nobody holds it and nobody stands in line. */
static bool worth_another_try(const hf__lock *l) {
    int64_t holder = hf__hold_holder(l->fd);
    if (holder == HF__REMOVING) return true;
    return !holder && hf__ticket_first(l->fd, 0).ticket < 0;
}

/* Who removes a file has it for some microseconds, unless the processor is taken from it. */
static void give_way(int tries) {
    struct timespec moment = {.tv_nsec = 50000L << (tries < 8 ? 0 : (tries - 8) / 8)};
    if (tries < 8)
        sched_yield();
    else
        nanosleep(&moment, NULL);
}

hf_result hf__lock_ask(hf__lock *l, hf__peers *peers, const hf__record *self, hf__op *op,
                       hf__time now) {
    if (now > op->not_after) return HF_TIMEOUT;
    if (l->held == op->number) {
        op->token = l->record.token;
        return HF_OK;
    }
    if (l->held) let_go(l, peers); /* an older number of ours, which nobody wants any more */
    for (int i = 0; i < TRIES; i++) {
        hf_result r = l->fd < 0 ? open_file(l, &op->detail) : HF_OK;
        if (!r) r = take(l, peers, op, now);
        if (r == HF_BUSY && !op->placed && worth_another_try(l)) {
            give_way(i);
            close_file(l);
            continue;
        }
        if (r) return r;
        int current = hf__lockfile_current(&l->file, l->device, l->inode);
        if (current == 1) {
            r = enter(l, peers, self, op, now);
            if (r != HF_BUSY) return r;
            continue;
        }
        let_go(l, peers); /* whoever waits on a file that is gone has to see it too */
        if (current < 0) return system_trouble(l, "look at", -current, &op->detail);
        close_file(l);
    }
    op->detail = hf__line("%s/%s is being removed again and again", l->file.path, l->file.name);
    return HF_UNREACHABLE;
}

/* ---- Holding ---- */

hf_result hf__lock_renew(hf__lock *l, hf__op *op, hf__time now) {
    hf__head head;
    if (!l->held || l->held != op->number) return HF_LOST;
    hf_result r = hf__lockfile_read(&l->file, l->fd, NULL, 0, &head, &op->detail);
    if (r == HF_UNREACHABLE) return r;
    int current = hf__lockfile_current(&l->file, l->device, l->inode);
    bool ours = !r && head.record.token == l->record.token && head.broken != l->record.token;
    if (ours && current < 0) {
        op->detail =
            hf__line("cannot look at %s/%s: %s", l->file.path, l->file.name, strerror(-current));
        return HF_UNREACHABLE;
    }
    if (!ours || !current || hf__lockfile_moved(&l->file)) {
        free(op->detail);
        op->detail = NULL;
        return HF_LOST; /* and let go of when its holder has been told, not before */
    }
    l->record.count = op->count;
    if (op->lease_ms) l->record.until = hf__later(l->record.until, now + op->lease_ms * HF__MS);
    int error = hf__lockfile_record(l->fd, &l->record);
    return error == EIO ? system_trouble(l, "write", error, &op->detail) : HF_OK;
}

hf_result hf__lock_release(hf__lock *l, hf__peers *peers, const hf__op *op) {
    if (l->standing && l->standing <= op->number) leave(l, peers);
    if (!l->held || l->held > op->number) return HF_LOST;
    let_go(l, peers);
    return HF_OK;
}

/* ---- Looking ---- */

static hf_result cannot_look(const hf__lockfile *file, int error, char **detail) {
    *detail = hf__line("cannot look at %s/%s: %s", file->path, file->name, strerror(error));
    return HF_UNREACHABLE;
}

/* The record belongs to the holder once it names it; it is written right after the hold is taken. */
static hf_result read_holder(const hf__lockfile *file, int fd, hf__head *head, char **detail) {
    for (int i = 0; i < TRIES; i++) {
        int64_t holder = hf__hold_holder(fd);
        if (!holder || holder == HF__REMOVING) return HF_NOT_HELD;
        if (holder < 0) return cannot_look(file, (int)-holder, detail);
        hf_result r = hf__lockfile_read(file, fd, NULL, 0, head, detail);
        if (r) return r;
        if (hf__record_whole(&head->record) && head->record.id == holder) return HF_OK;
        sched_yield();
    }
    head->record = (hf__record){.count = 1};
    return HF_OK;
}

hf_result hf__lock_look(const hf__lockfile *file, const char *key, size_t length, int *out,
                        ino_t *inode, hf__head *head, char **detail) {
    hf_result r;
    struct stat st;
    int fd = hf__lockfile_open(file, false, &r, detail);
    if (fd < 0) return r;
    r = hf__lockfile_read(file, fd, key, length, head, detail);
    if (!r) r = read_holder(file, fd, head, detail);
    if (!r && out && fstat(fd, &st) != 0) r = cannot_look(file, errno, detail);
    if (r || !out) {
        hf__kept_close(fd);
        return r;
    }
    *inode = st.st_ino;
    *out = fd;
    return HF_OK;
}

uint32_t hf__lock_line(const hf__lockfile *file, uint32_t *ids, uint32_t size) {
    hf_result why;
    char *detail = NULL;
    uint32_t count = 0;
    int fd = hf__lockfile_open(file, false, &why, &detail);
    free(detail);
    if (fd < 0) return 0;
    for (hf__place at = {.ticket = -1}; (at = hf__ticket_first(fd, at.ticket + 1)).ticket >= 0;) {
        if (!at.id) break;
        if (count < size) ids[count] = at.id;
        count++;
    }
    hf__kept_close(fd);
    return count;
}
