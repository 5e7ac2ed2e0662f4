/* SPDX-License-Identifier: Apache-2.0 */
/* Reads, writes and sweeps sidecar files. See sidecar.h. */
#include "store/file/sidecar.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "store/file/clofork.h"
#include "store/file/ranges.h"

#define TRIES 16 /* while the file is being written or removed */

static const char magic[8] = {'h', 'f', 's', 'l', 'a', 't', 'e', '1'};

typedef struct sidecar_head {
    char magic[8];
    uint32_t key_length, body_length;
    uint64_t checksum; /* over lengths, key and body */
} sidecar_head;

typedef struct sidecar_page {
    sidecar_head head;
    char rest[HF__KEY_MAX + HF__SIDECAR_BODY_MAX];
} sidecar_page;

_Static_assert(offsetof(sidecar_page, rest) == 24, "the format fixes the offset of the key");

void hf__sidecar_init(hf__sidecar *s, int directory, const char *path, const char *start,
                      const char *key, size_t length) {
    *s = (hf__sidecar){
        .file = {.directory = directory, .path = path}, .key = key, .key_length = length, .fd = -1};
    hf__filename(s->file.name, key, length);
    memcpy(s->file.name, start, strlen(start));
}

static uint64_t checksum_of(const sidecar_page *p) {
    size_t length = p->head.key_length + p->head.body_length;
    uint64_t sum =
        UINT64_C(0xcbf29ce484222325) ^ p->head.key_length ^ (uint64_t)p->head.body_length << 32;
    for (size_t i = 0; i < length; i++)
        sum = (sum ^ (unsigned char)p->rest[i]) * UINT64_C(0x100000001b3);
    return sum;
}

static hf_result report_error(const hf__sidecar *s, const char *what, int error, char **detail) {
    return hf__lockfile_error(&s->file, what, error, detail);
}

static hf_result report_damaged(const hf__sidecar *s, const char *what, char **detail) {
    *detail = hf__line("%s/%s %s; remove the file when no program uses it", s->file.path,
                       s->file.name, what);
    return HF_PROTOCOL;
}

/* ---- Reading ---- */

/* HF_UNREACHABLE without a detail: the checksum is wrong, as it is during a write. */
static hf_result read_page(const hf__sidecar *s, sidecar_page *p, char **detail) {
    ssize_t n = pread(s->fd, p, sizeof *p, 0);
    if (n < 0) return report_error(s, "read", errno, detail);
    if (n == 0) return HF_NOT_HELD;
    if (n < (ssize_t)sizeof p->head || memcmp(p->head.magic, magic, sizeof magic) != 0)
        return report_damaged(s, "is not a Holdfast file, or is damaged", detail);
    size_t length = (size_t)p->head.key_length + p->head.body_length;
    if (p->head.key_length > HF__KEY_MAX || p->head.body_length > HF__SIDECAR_BODY_MAX)
        return report_damaged(s, "is damaged", detail);
    if ((size_t)n < sizeof p->head + length || checksum_of(p) != p->head.checksum)
        return HF_UNREACHABLE;
    if (p->head.key_length != s->key_length || memcmp(p->rest, s->key, s->key_length) != 0)
        return report_damaged(s, "belongs to another lock whose name has the same hash", detail);
    return HF_OK;
}

static hf_result read_body(const hf__sidecar *s, void *body, size_t *length, char **detail) {
    sidecar_page p;
    hf_result r = HF_UNREACHABLE;
    for (int i = 0; i < TRIES && r == HF_UNREACHABLE && !*detail; i++) {
        if (i) sched_yield();
        r = read_page(s, &p, detail);
    }
    if (r == HF_UNREACHABLE && !*detail) return HF_BUSY;
    if (r) return r;
    *length = p.head.body_length;
    memcpy(body, p.rest + p.head.key_length, *length);
    return HF_OK;
}

static hf_result open_sidecar(hf__sidecar *s, bool make, char **detail) {
    int flags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | (make ? O_CREAT : 0);
    s->fd = hf__clofork_open(s->file.directory, s->file.name, flags, 0600);
    if (s->fd >= 0) return HF_OK;
    return errno == ENOENT && !make ? HF_NOT_HELD : report_error(s, "open", errno, detail);
}

void hf__sidecar_close(hf__sidecar *s) {
    hf__clofork_close(s->fd); /* closing unlocks it */
    s->fd = -1;
}

hf_result hf__sidecar_read(hf__sidecar *s, void *body, size_t *length, char **detail) {
    if (s->fd >= 0) return read_body(s, body, length, detail);
    hf_result r = open_sidecar(s, false, detail);
    if (!r) r = read_body(s, body, length, detail);
    hf__sidecar_close(s);
    return r;
}

/* ---- Writing ---- */

/* 1: locked, and it has its name; 0: another process has it locked, or it has lost its name;
   negative: errno. */
static int lock_opened(const hf__sidecar *s) {
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct stat st;
    if (fcntl(s->fd, F_OFD_SETLK, &range) != 0)
        return errno == EAGAIN || errno == EACCES ? 0 : -errno;
    if (fstat(s->fd, &st) != 0) return -errno;
    return hf__lockfile_is_current(&s->file, st.st_dev, st.st_ino);
}

hf_result hf__sidecar_lock(hf__sidecar *s, bool make, char **detail) {
    for (int i = 0; i < TRIES; i++) {
        if (i) sched_yield();
        hf_result r = open_sidecar(s, make, detail);
        if (r) return r;
        int locked = lock_opened(s);
        if (locked == 1) return HF_OK;
        if (locked < 0) return report_error(s, "lock", -locked, detail);
        hf__sidecar_close(s);
    }
    *detail = hf__line("another process is writing %s/%s and may be stopped; try again",
                       s->file.path, s->file.name);
    return HF_UNREACHABLE;
}

hf_result hf__sidecar_write(hf__sidecar *s, const void *body, size_t length, char **detail) {
    sidecar_page p = {
        .head = {.key_length = (uint32_t)s->key_length, .body_length = (uint32_t)length}};
    memcpy(p.head.magic, magic, sizeof magic);
    memcpy(p.rest, s->key, s->key_length);
    memcpy(p.rest + s->key_length, body, length);
    p.head.checksum = checksum_of(&p);
    size_t all = sizeof p.head + s->key_length + length;
    ssize_t n;
    do n = pwrite(s->fd, &p, all, 0);
    while (n < 0 && errno == EINTR);
    if (n == (ssize_t)all) return HF_OK;
    int error = n < 0 ? errno : ENOSPC;
    /* an empty file is better than a truncated one */
    if (n >= 0 && ftruncate(s->fd, 0) != 0) error = errno;
    return report_error(s, "write", error, detail);
}

/* ---- Sweeping ---- */

static int64_t age_ms(int fd) {
    struct stat st;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) return -1;
    return (now.tv_sec - st.st_mtim.tv_sec) * INT64_C(1000) +
           (now.tv_nsec - st.st_mtim.tv_nsec) / 1000000;
}

/* The value of a leader must stay as long as the lock is held. */
static bool lock_is_held(int directory, const char *name) {
    char lock[HF__FILENAME_MAX + 1];
    hf__text_copy(lock, sizeof lock, name);
    memcpy(lock, HF__LOCK_START, sizeof HF__LOCK_START - 1);
    int fd = hf__clofork_open(directory, lock, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);
    if (fd < 0) return errno != ENOENT;
    bool held = hf__hold_holder(fd) != 0;
    hf__clofork_close(fd);
    return held;
}

/* The directory may contain other files. */
static bool has_magic(int fd) {
    char begins[sizeof magic];
    ssize_t n = pread(fd, begins, sizeof begins, 0);
    return n == (ssize_t)sizeof begins && !memcmp(begins, magic, sizeof magic);
}

bool hf__sidecar_sweep(int directory, const char *name, int64_t keep_ms) {
    hf__sidecar s = {.file = {.directory = directory, .path = "."}, .fd = -1};
    char *detail = NULL;
    bool gone = false;
    hf__text_copy(s.file.name, sizeof s.file.name, name);
    bool is_leader = !strncmp(name, HF__LEAD_START, strlen(HF__LEAD_START));
    if (open_sidecar(&s, false, &detail) == HF_OK && age_ms(s.fd) > keep_ms && has_magic(s.fd) &&
        lock_opened(&s) == 1 && age_ms(s.fd) > keep_ms &&
        !(is_leader && lock_is_held(directory, name)))
        gone = unlinkat(directory, name, 0) == 0;
    hf__sidecar_close(&s);
    free(detail);
    return gone;
}
