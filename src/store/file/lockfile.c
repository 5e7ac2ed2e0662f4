/* SPDX-License-Identifier: Apache-2.0 */
/* Opens, reads, checks and writes a lock's file. See lockfile.h. */
#include "store/file/lockfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/error.h"
#include "store/file/clofork.h"

#define VERSION_MUTEX 1 /* the kinds table was never in use */
#define VERSION_KINDS 2
#define KEY_AT        512

static const char magic[8] = {'h', 'o', 'l', 'd', 'f', 'a', 's', 't'};

_Static_assert(sizeof(hf__head) <= KEY_AT, "the head ends before the key");
_Static_assert(offsetof(hf__head, record) == 64, "the format fixes the offset of the record");
_Static_assert(offsetof(hf__head, broken) == 24, "the format fixes the offset of the broken mark");
_Static_assert(offsetof(hf__head, kinds) == 32, "the format fixes the offset of the kinds head");
_Static_assert(sizeof(hf__record) % 8 == 0, "the checksum covers whole words");

/* ---- The record ---- */

static uint64_t record_checksum(const hf__record *record) {
    /* four independent sums are faster */
    uint64_t words[sizeof *record / 8], sums[4] = {1, 2, 3, 4};
    memcpy(words, record, sizeof words);
    for (size_t i = 0; i < sizeof words / 8 - 1; i++)
        sums[i % 4] = (sums[i % 4] ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
    return (sums[0] ^ sums[1] >> 7) + (sums[2] ^ sums[3] >> 11);
}

bool hf__record_is_intact(const hf__record *record) {
    return record->checksum == record_checksum(record);
}

static uint64_t kinds_checksum(const hf__kinds_head *kinds) {
    uint64_t sum = kinds->in_use * UINT64_C(0x9e3779b97f4a7c15);
    sum = (sum ^ sum >> 29 ^ kinds->token) * UINT64_C(0xbf58476d1ce4e5b9);
    return (sum ^ sum >> 31 ^ (uint64_t)kinds->last_position) * UINT64_C(0x94d049bb133111eb);
}

bool hf__kinds_head_is_intact(const hf__kinds_head *kinds) {
    return kinds->checksum == kinds_checksum(kinds);
}

bool hf__kinds_in_use(const hf__head *head) {
    return head->kinds.in_use || (head->version >= VERSION_KINDS && !head->kinds.checksum);
}

/* The checksum covers the bytes as written. All texts we write end with a NUL. */
static void end_texts(hf__record *record) {
    record->client[sizeof record->client - 1] = '\0';
    record->program[sizeof record->program - 1] = '\0';
    record->label[sizeof record->label - 1] = '\0';
}

/* ---- Writing ---- */

int hf__lockfile_write(int fd, const void *bytes, size_t length, off_t offset) {
    ssize_t n;
    do n = pwrite(fd, bytes, length, offset);
    while (n < 0 && errno == EINTR);
    return n < 0 ? errno : n == (ssize_t)length ? 0 : ENOSPC;
}

int hf__lockfile_write_record(int fd, hf__record *record) {
    record->checksum = record_checksum(record);
    return hf__lockfile_write(fd, record, sizeof *record, offsetof(hf__head, record));
}

int hf__lockfile_write_has_queue(int fd, bool has_queue) {
    uint64_t word = has_queue;
    return hf__lockfile_write(fd, &word, sizeof word, offsetof(hf__head, has_queue));
}

int hf__lockfile_mark_broken(int fd, uint64_t token) {
    return hf__lockfile_write(fd, &token, sizeof token, offsetof(hf__head, broken));
}

int hf__lockfile_write_kinds(int fd, hf__head *head) {
    uint32_t version = VERSION_KINDS;
    int error = 0;
    if (head->version < VERSION_KINDS)
        error = hf__lockfile_write(fd, &version, sizeof version, offsetof(hf__head, version));
    if (error) return error;
    head->version = VERSION_KINDS;
    head->kinds.checksum = kinds_checksum(&head->kinds);
    return hf__lockfile_write(fd, &head->kinds, sizeof head->kinds, offsetof(hf__head, kinds));
}

int hf__lockfile_write_new(int fd, const char *key, size_t length, uint64_t last) {
    char page[KEY_AT + HF__KEY_MAX] = {0};
    hf__head head = {.version = VERSION_MUTEX, .key_length = (uint32_t)length, .has_queue = 1};
    memcpy(head.magic, magic, sizeof magic);
    head.record.token = last;
    head.record.checksum = record_checksum(&head.record);
    memcpy(page, &head, sizeof head);
    memcpy(page + KEY_AT, key, length);
    int error = hf__lockfile_write(fd, page, KEY_AT + length, 0);
    if (error && ftruncate(fd, 0) != 0) return errno;
    return error;
}

/* ---- Reading ---- */

hf_result hf__lockfile_report_damaged(const hf__lockfile *file, const char *what, char **detail) {
    *detail = hf__line("%s/%s %s; remove the file when no program uses this lock", file->path,
                       file->name, what);
    return HF_PROTOCOL;
}

static hf_result check_head(const hf__lockfile *file, const hf__head *head, char **detail) {
    if (memcmp(head->magic, magic, sizeof magic) != 0)
        return hf__lockfile_report_damaged(file, "is not a Holdfast lock file, or is damaged",
                                           detail);
    if (head->version > VERSION_KINDS) {
        *detail = hf__line("%s/%s was written by a newer version of Holdfast (format %u, this "
                           "program supports up to %d); update this program",
                           file->path, file->name, head->version, VERSION_KINDS);
        return HF_PROTOCOL;
    }
    if (head->version < VERSION_MUTEX || head->key_length > HF__KEY_MAX)
        return hf__lockfile_report_damaged(file, "is damaged", detail);
    return HF_OK;
}

static hf_result check_key(const hf__lockfile *file, const hf__head *head, const char *found,
                           const char *key, size_t length, char **detail) {
    if (head->key_length == length && !memcmp(found, key, length)) return HF_OK;
    *detail = hf__line("%s/%s belongs to another lock whose name has the same hash; "
                       "choose another name",
                       file->path, file->name);
    return HF_PROTOCOL;
}

hf_result hf__lockfile_read(const hf__lockfile *file, int fd, const char *key, size_t length,
                            hf__head *head, char **detail) {
    char page[KEY_AT + HF__KEY_MAX];
    ssize_t n = pread(fd, page, key ? sizeof page : sizeof *head, 0);
    if (n < 0) {
        *detail = hf__line("cannot read %s/%s: %s", file->path, file->name, strerror(errno));
        return HF_UNREACHABLE;
    }
    *head = (hf__head){0};
    if (n == 0) return HF_OK;
    if (n < (ssize_t)sizeof *head) return hf__lockfile_report_damaged(file, "is truncated", detail);
    memcpy(head, page, sizeof *head);
    end_texts(&head->record);
    hf_result r = check_head(file, head, detail);
    if (r || !key) return r;
    if (n < (ssize_t)(KEY_AT + head->key_length))
        return hf__lockfile_report_damaged(file, "is truncated", detail);
    return check_key(file, head, page + KEY_AT, key, length, detail);
}

size_t hf__lockfile_read_key(int fd, const hf__head *head, char key[HF__KEY_MAX + 1]) {
    size_t length = head->key_length;
    if (pread(fd, key, length, KEY_AT) != (ssize_t)length) return 0;
    key[length] = '\0';
    return length;
}

/* ---- Opening ---- */

hf_result hf__lockfile_error(const hf__lockfile *file, const char *what, int error, char **detail) {
    bool no_space = error == ENOSPC || error == EDQUOT;
    *detail = hf__line(
        "cannot %s %s/%s: %s%s", what, file->path, file->name, strerror(error),
        no_space ? "; free some space or inodes there, or set HOLDFAST_URL=file:///DIRECTORY "
                   "on a larger filesystem for every process that shares the locks"
                 : "");
    switch (error) {
    case EMFILE:
    case ENFILE:
    case ENOLCK:
    case ENOMEM: return HF_NOMEM;
    case EIO: return HF_UNREACHABLE;
    default: return no_space ? HF__NO_SPACE : HF_REFUSED;
    }
}

static hf_result report_open_failure(const hf__lockfile *file, int error, char **detail) {
    if (error == ENOENT) return HF_NOT_HELD;
    return hf__lockfile_error(file, "open", error, detail);
}

static hf_result check_file(const hf__lockfile *file, int fd, char **detail) {
    struct stat st;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 022))
        return HF_OK;
    *detail = hf__line("%s/%s is not a file that only this user may write to; remove it",
                       file->path, file->name);
    return HF_REFUSED;
}

int hf__lockfile_open(const hf__lockfile *file, bool make, hf_result *why, char **detail) {
    int flags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | (make ? O_CREAT : 0);
    int fd = hf__clofork_open(file->directory, file->name, flags, 0600);
    *why = fd < 0 ? report_open_failure(file, errno, detail) : check_file(file, fd, detail);
    if (fd >= 0 && *why) {
        hf__clofork_close(fd);
        return -1;
    }
    return fd;
}

/* Requests only the inode. If it requested times, the next write would have to store an exact time,
   which costs more than the rest of acquiring a lock. */
static int is_same_inode(int directory, const char *name, dev_t device, ino_t inode) {
    struct statx st;
    if (statx(directory, name, AT_SYMLINK_NOFOLLOW, STATX_INO, &st) != 0)
        return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
    return st.stx_ino == inode && makedev(st.stx_dev_major, st.stx_dev_minor) == device;
}

int hf__lockfile_is_current(const hf__lockfile *file, dev_t device, ino_t inode) {
    return is_same_inode(file->directory, file->name, device, inode);
}

bool hf__lockfile_directory_moved(const hf__lockfile *file) {
    struct stat st;
    return fstat(file->directory, &st) == 0 &&
           is_same_inode(AT_FDCWD, file->path, st.st_dev, st.st_ino) == 0;
}
