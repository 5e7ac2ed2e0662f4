/* SPDX-License-Identifier: Apache-2.0 */
/* The FIFOs of this client and of the clients it watches or wakes. See peers.h. */
#include "store/file/peers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/rand.h"
#include "store/file/clofork.h"
#include "store/file/ranges.h"

#define IDLE_MAX 8 /* unwatched peers that stay open, because they are likely to be needed again */
#define TRIES    16

void hf__peers_init(hf__peers *p, int directory, uint64_t *pollset_version) {
    *p = (hf__peers){.directory = directory,
                     .life = -1,
                     .wake = -1,
                     .watch = -1,
                     .pollset_version = pollset_version};
}

static void peer_filename(char out[HF__PEER_FILENAME_MAX], const char *start, uint32_t id) {
    (void)snprintf(out, HF__PEER_FILENAME_MAX, "%s%08x", start, id);
}

static int open_fifo(const hf__peers *p, const char *start, uint32_t id, int how) {
    char name[HF__PEER_FILENAME_MAX];
    peer_filename(name, start, id);
    return hf__clofork_open(p->directory, name, how | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY, 0);
}

/* ---- This client ---- */

static void remove_fifo(const hf__peers *p, const char *start, uint32_t id) {
    char name[HF__PEER_FILENAME_MAX];
    peer_filename(name, start, id);
    unlinkat(p->directory, name, 0);
}

static int make_fifo(const hf__peers *p, const char *start, uint32_t id, int *fd) {
    char name[HF__PEER_FILENAME_MAX];
    peer_filename(name, start, id);
    if (mkfifoat(p->directory, name, 0600) != 0) return errno;
    *fd = open_fifo(p, start, id, O_RDWR);
    int error = *fd < 0 ? errno : 0;
    if (error) remove_fifo(p, start, id);
    return error;
}

/* True: locked, and still in the directory. A sweep may have removed the file before it was locked,
   as if its client were dead. */
static bool claim_life(int fd) {
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct stat st;
    return fcntl(fd, F_OFD_SETLK, &range) == 0 && fstat(fd, &st) == 0 && st.st_nlink;
}

/* A sweep may have removed the FIFO before it was opened, or before it was locked. */
static bool is_worth_retry(int error) {
    return error == EEXIST || error == EAGAIN || error == ENOENT;
}

static int make_life(hf__peers *p) {
    int error = EEXIST;
    for (int i = 0; i < TRIES && is_worth_retry(error); i++) {
        uint32_t id = (uint32_t)hf__rand_seed() & HF__ID_MAX;
        if (!id) continue;
        error = make_fifo(p, HF__LIFE_START, id, &p->life);
        if (error) continue;
        if (claim_life(p->life)) {
            p->id = id;
            ++*p->pollset_version;
            return 0;
        }
        hf__clofork_close(p->life);
        p->life = -1;
        error = EAGAIN;
    }
    return error;
}

/* A symbolic link is written and read in one step. If it cannot be created, others see that a
   client waits, but not which one. */
static void write_introduction(const hf__peers *p) {
    char name[HF__PEER_FILENAME_MAX];
    peer_filename(name, HF__WHO_START, p->id);
    remove_fifo(p, HF__WHO_START, p->id);
    if (symlinkat(p->introduction, p->directory, name) != 0) return;
}

bool hf__peers_read_introduction(const hf__peers *p, uint32_t id, char out[HF__INTRODUCTION_MAX]) {
    char name[HF__PEER_FILENAME_MAX];
    peer_filename(name, HF__WHO_START, id);
    ssize_t n = readlinkat(p->directory, name, out, HF__INTRODUCTION_MAX - 1);
    out[n > 0 ? n : 0] = '\0';
    return n > 0;
}

int hf__peers_join(hf__peers *p, bool waits) {
    int error = p->id ? 0 : make_life(p);
    if (error || !waits || p->wake >= 0) return error;
    if (p->watch < 0) p->watch = hf__clofork_epoll();
    if (p->watch < 0) return errno;
    remove_fifo(p, HF__WAKE_START, p->id); /* of a dead client that had our id */
    error = make_fifo(p, HF__WAKE_START, p->id, &p->wake);
    if (!error) ++*p->pollset_version;
    if (!error) write_introduction(p);
    return error;
}

/* Closing alone is not enough: a helper process may have a copy, and epoll reports the FIFO as long
   as a copy is open. */
static void close_life(const hf__peers *p, hf__peer *peer) {
    if (peer->life >= 0) epoll_ctl(p->watch, EPOLL_CTL_DEL, peer->life, NULL);
    hf__clofork_close(peer->life);
    peer->life = -1;
}

static void drop_peer(hf__peers *p, hf__peer *peer) {
    hf__peer **link = &p->list;
    while (*link != peer) link = &(*link)->next;
    *link = peer->next;
    close_life(p, peer);
    hf__clofork_close(peer->wake);
    free(peer);
}

void hf__peers_fini(hf__peers *p, bool forked) {
    for (hf__peer *peer; (peer = p->list);) {
        p->list = peer->next;
        if (!forked) close_life(p, peer);
        if (!forked) hf__clofork_close(peer->wake);
        free(peer);
    }
    if (forked) return;
    if (p->wake >= 0) remove_fifo(p, HF__WAKE_START, p->id);
    if (p->wake >= 0) remove_fifo(p, HF__WHO_START, p->id);
    if (p->id) remove_fifo(p, HF__LIFE_START, p->id);
    hf__clofork_close(p->wake);
    hf__clofork_close(p->watch);
    hf__clofork_close(p->life);
}

/* ---- Other clients ---- */

/* Unwatched peers are closed, so that the list stays short. */
bool hf__peers_trim(hf__peers *p, unsigned keep) {
    unsigned idle = 0;
    bool dropped = false;
    for (hf__peer *it = p->list, *next; it; it = next) {
        next = it->next;
        if (it->watchers || idle++ < keep) continue;
        drop_peer(p, it);
        dropped = true;
    }
    return dropped;
}

static hf__peer *find_peer(hf__peers *p, uint32_t id) {
    for (hf__peer **link = &p->list; *link; link = &(*link)->next) {
        hf__peer *it = *link;
        if (it->id != id) continue;
        *link = it->next;
        it->next = p->list;
        return p->list = it;
    }
    hf__peer *made = malloc(sizeof *made);
    if (!made) return NULL;
    *made = (hf__peer){.next = p->list, .id = id, .life = -1, .wake = -1};
    p->list = made;
    hf__peers_trim(p, IDLE_MAX);
    return made;
}

/* A FIFO that is opened after the death of its client never hangs up. When a client dies, its lock
   ends before the hang-up. So if the FIFO is still locked after we opened it, we will see the
   hang-up. */
static bool is_alive(int life) {
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(life, F_OFD_GETLK, &range) == 0 && range.l_type != F_UNLCK;
}

static int open_life(hf__peers *p, hf__peer *peer) {
    int fd = open_fifo(p, HF__LIFE_START, peer->id, O_RDONLY);
    if (fd < 0) return errno == ENOENT ? ESRCH : errno;
    struct epoll_event event = {.data.u64 = peer->id}; /* epoll always reports hang-ups */
    int error = epoll_ctl(p->watch, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : errno;
    peer->life = fd;
    if (!error && !is_alive(fd)) error = ESRCH;
    if (error) close_life(p, peer);
    return error;
}

int hf__peers_watch(hf__peers *p, uint32_t id, hf__peer **out) {
    hf__peer *peer = find_peer(p, id);
    if (!peer) return ENOMEM;
    int error = peer->life < 0 ? open_life(p, peer) : is_alive(peer->life) ? 0 : ESRCH;
    if (!error) {
        peer->watchers++;
        *out = peer;
    } else if (!peer->watchers) {
        drop_peer(p, peer);
    }
    return error;
}

void hf__peers_unwatch(hf__peer *peer) {
    if (peer) peer->watchers--;
}

static void send_message(int fd, ino_t lock, uint64_t acquire_id) {
    const uint64_t message[] = {lock, acquire_id};
    /* The FIFO is full if its client does not read. That client rechecks by itself when it runs
       again. */
    if (fd >= 0 && write(fd, message, sizeof message) < 0) return;
}

/* Opened for reading too: writing to a FIFO without a reader would raise SIGPIPE. */
void hf__peers_wake(hf__peers *p, uint32_t id, ino_t lock, uint64_t acquire_id) {
    hf__peer *peer = find_peer(p, id);
    if (!peer) return;
    if (peer->wake < 0) peer->wake = open_fifo(p, HF__WAKE_START, id, O_RDWR);
    send_message(peer->wake, lock, acquire_id);
    if (peer->wake < 0 && !peer->watchers) drop_peer(p, peer);
}

/* Opened only for a moment: while we have the FIFO open for writing, others do not see the death of
   its client. */
void hf__peers_request_break(hf__peers *p, uint32_t id, ino_t lock) {
    int fd = open_fifo(p, HF__LIFE_START, id, O_RDWR);
    send_message(fd, lock, 0);
    hf__clofork_close(fd);
}

/* ---- Incoming messages ---- */

int hf__peers_pollset(const hf__peers *p, struct pollfd *fds, bool reading) {
    int count = 0;
    if (p->life >= 0) fds[count++] = (struct pollfd){.fd = p->life, .events = POLLIN};
    if (!reading || p->wake < 0) return count;
    fds[count++] = (struct pollfd){.fd = p->wake, .events = POLLIN};
    fds[count++] = (struct pollfd){.fd = p->watch, .events = POLLIN};
    return count;
}

bool hf__peers_next_message(hf__peers *p, int fd, ino_t *lock, uint64_t *acquire_id) {
    uint64_t message[2];
    if (fd < 0 || (fd != p->life && fd != p->wake)) return false;
    if (read(fd, message, sizeof message) != (ssize_t)sizeof message) return false;
    *lock = (ino_t)message[0];
    *acquire_id = message[1];
    return true;
}

bool hf__peers_next_death(hf__peers *p, uint32_t *id) {
    struct epoll_event event;
    if (p->watch < 0 || epoll_wait(p->watch, &event, 1, 0) != 1) return false;
    *id = (uint32_t)event.data.u64;
    for (hf__peer *it = p->list; it; it = it->next) {
        if (it->id != *id) continue;
        close_life(p, it);
        if (!it->watchers) drop_peer(p, it);
        return true;
    }
    return true;
}
