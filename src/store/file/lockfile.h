/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contents of a lock's file: the key, the last token, the record of the last hold. Locked
 * ranges (ranges.h) say whether the lock is held and by whom; the file only describes it. The
 * holder writes it in single writes within one page, which a kill cannot interrupt. An empty file
 * is new.
 *
 *   0     magic, version, length of the key    written once
 *   16    has_queue: others may be queued      set by a client that joins, cleared by a holder
 *   24    broken: token of a hold that an operator wants to end     written by any client
 *   32    head of the kinds table: whether it is in use, and its counters
 *   64    the record: the last hold
 *   512   the key: prefix, NUL, name           written once
 *   4096  the kinds table, see slot_table.h
 *
 * The head of the kinds table is written under the entry lock. The first use of the table makes the
 * file version 2, because programs that do not know the table would ignore its holders.
 */
#ifndef HF_STORE_FILE_LOCKFILE_H
#define HF_STORE_FILE_LOCKFILE_H

#include <sys/types.h>

#include "store/file/filename.h"
#include "store/store.h"

#define HF__PROGRAM_TEXT 64
#define HF__LABEL_TEXT   (HF__LABEL_MAX + 4)

/* The last mutex hold. Its token is the last one given outside the kinds table. */
typedef struct hf__record {
    uint64_t token, acquire_id;
    hf__time until; /* CLOCK_BOOTTIME: all readers are on this machine */
    int64_t since_unix_ms;
    uint64_t owner;
    uint32_t logical, count;
    uint32_t id; /* of the client: as in ranges.h */
    int32_t pid;
    char client[HF__UUID_LENGTH + 4];
    char program[HF__PROGRAM_TEXT], label[HF__LABEL_TEXT];
    uint64_t checksum; /* over all other fields; does not match while the record is being written */
} hf__record;

/* All zero if the kinds table was never in use. */
typedef struct hf__kinds_head {
    /* It has a holder or a waiter, or one died there. Mutexes are acquired there too. */
    uint64_t in_use;
    uint64_t token;        /* the last one given */
    int64_t last_position; /* of the newest waiter: the next one gets this plus 1 */
    uint64_t checksum;
} hf__kinds_head;

typedef struct hf__head {
    char magic[8];
    uint32_t version, key_length;
    uint64_t has_queue, broken;
    hf__kinds_head kinds;
    hf__record record;
} hf__head;

/* Identifies a file, for messages and to open it. */
typedef struct hf__lockfile {
    int directory;
    const char *path; /* of the directory; borrowed */
    char name[HF__FILENAME_MAX + 1];
} hf__lockfile;

/* Open the file, with close-on-fork (see clofork.h); `make` creates it. -1: `why` and `detail`
   (heap) are set; HF_NOT_HELD: there is no file. */
int hf__lockfile_open(const hf__lockfile *file, bool make, hf_result *why, char **detail);

/* 1: the open file is the one that has the name now; 0: it is not; negative: errno. */
int hf__lockfile_is_current(const hf__lockfile *file, dev_t device, ino_t inode);

/* Whether the directory has lost its path, as far as that can be determined. */
bool hf__lockfile_directory_moved(const hf__lockfile *file);

/* Read the head, and with `key` also check that it is the file of this key. HF_OK with a zero head:
   the file is new. HF_PROTOCOL: it is not a lock file, or the file of another lock or of a newer
   version. */
hf_result hf__lockfile_read(const hf__lockfile *file, int fd, const char *key, size_t length,
                            hf__head *head, char **detail);

/* Read the key of a file whose head was read, and add a NUL. Returns its length; 0: it cannot be
   read. */
size_t hf__lockfile_read_key(int fd, const hf__head *head, char key[HF__KEY_MAX + 1]);

/* Write a new file; its record has only a token, `last`. 0, or errno and the file is still
   empty. */
int hf__lockfile_write_new(int fd, const char *key, size_t length, uint64_t last);

/* Set the checksum of the record, and write it. 0 or errno. */
int hf__lockfile_write_record(int fd, hf__record *record);

/* Set or clear the queue flag. Not for a new file, where it is set. 0 or errno. */
int hf__lockfile_write_has_queue(int fd, bool has_queue);

/* Mark a token as broken. 0 or errno. */
int hf__lockfile_mark_broken(int fd, uint64_t token);

/* Set the checksum of the kinds table's head, and write it. Raises the version of the file if
   needed. 0 or errno. */
int hf__lockfile_write_kinds(int fd, hf__head *head);

/* The checksum is right: it is not being written. */
bool hf__record_is_intact(const hf__record *record);
bool hf__kinds_head_is_intact(const hf__kinds_head *kinds);

/* Whether the kinds table may have holders or waiters. True also if a version 2 file has an empty
   head. */
bool hf__kinds_in_use(const hf__head *head);

/* Write bytes at an offset. A kill cannot interrupt a write within one page. 0 or errno. */
int hf__lockfile_write(int fd, const void *bytes, size_t length, off_t offset);

/* A result that only this store uses: no space or no inode is left. The store frees some and tries
   again. If that fails, its callers see HF_REFUSED. */
#define HF__NO_SPACE ((hf_result)-1)

/* Set `detail` to what could not be done to the file, and return the result for this errno. */
hf_result hf__lockfile_error(const hf__lockfile *file, const char *what, int error, char **detail);

/* Set `detail`, and return HF_PROTOCOL. */
hf_result hf__lockfile_report_damaged(const hf__lockfile *file, const char *what, char **detail);

#endif
