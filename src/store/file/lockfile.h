/*
 * What stands in a lock's file: which lock it is, the last token, who holds it. The kernel's ranges
 * say whether it is held and by whom (ranges.h); the file only says more about it. It is written by
 * who holds the lock, in single writes within one page, which a kill cannot cut in two. An empty
 * file is a new one.
 *
 *   0     magic, version, length of the key      written once
 *   16    has_queue: others may stand in line          written by who joins it; taken back by a holder
 *   24    broken: the token of a hold that an operator wants ended     written by anybody
 *   32    the room: whether it is in use, and what it counts
 *   64    the record: the last hold
 *   512   the key: prefix, NUL, name              written once
 *   4096  the table of the room, see slot_table.h
 *
 * The room is written by who has the door. A file is of version 2 once it was in use: programs that
 * do not know of it would take the lock past those inside.
 */
#ifndef HF_STORE_FILE_LOCKFILE_H
#define HF_STORE_FILE_LOCKFILE_H

#include <sys/types.h>

#include "store/file/filename.h"
#include "store/store.h"

#define HF__PROGRAM_TEXT 64
#define HF__LABEL_TEXT   (HF__LABEL_MAX + 4)

/* The last hold. Its token is the last token of the lock. */
typedef struct hf__record {
    uint64_t token, acquire_id;
    hf__time until; /* CLOCK_BOOTTIME: all who read it are on this machine */
    int64_t since_unix_ms;
    uint64_t owner;
    uint32_t logical, count;
    uint32_t id; /* of the client: as in ranges.h */
    int32_t pid;
    char client[HF__UUID_LENGTH + 4];
    char program[HF__PROGRAM_TEXT], label[HF__LABEL_TEXT];
    uint64_t checksum; /* over the rest: a record that is being written reads as none */
} hf__record;

/* All zero in a file where it was never in use. */
typedef struct hf__kinds_head {
    uint64_t in_use;       /* somebody is inside or in line, or died there: mutexes ask there too */
    uint64_t token;        /* the last of the room */
    int64_t last_position; /* in line: who comes gets the next */
    uint64_t checksum;
} hf__kinds_head;

typedef struct hf__head {
    char magic[8];
    uint32_t version, key_length;
    uint64_t has_queue, broken;
    hf__kinds_head kinds;
    hf__record record;
} hf__head;

/* Which file, for messages and for opening. */
typedef struct hf__lockfile {
    int directory;
    const char *path; /* of the directory */
    char name[HF__FILENAME_MAX + 1];
} hf__lockfile;

/* Open (close-on-fork, see clofork.h), and make it if `make`. -1: the result and a line on the heap are set;
   HF_NOT_HELD: there is none. */
int hf__lockfile_open(const hf__lockfile *file, bool make, hf_result *why, char **detail);

/* The open file is the one that has the name now; 0: it is not; errno negative: that cannot be
   told. */
int hf__lockfile_is_current(const hf__lockfile *file, dev_t device, ino_t inode);

/* The directory has another path, or none: as far as can be told. */
bool hf__lockfile_directory_moved(const hf__lockfile *file);

/* Read the head, and with `key` also see that it is of this key. HF_OK with a zero head when the
   file is new; HF_PROTOCOL when it is no lock file, or one of another lock or of a newer
   version. */
hf_result hf__lockfile_read(const hf__lockfile *file, int fd, const char *key, size_t length,
                            hf__head *head, char **detail);

/* The key that stands in a file whose head was read, with a NUL behind it; its length, 0: it cannot be
   read. */
size_t hf__lockfile_read_key(int fd, const hf__head *head, char key[HF__KEY_MAX + 1]);

/* Write everything of a new file; of the record only its token, the last one of the lock. 0, or
   errno and it is as new as before. */
int hf__lockfile_write_new(int fd, const char *key, size_t length, uint64_t last);

/* Write the record, summed. 0 or errno. */
int hf__lockfile_write_record(int fd, hf__record *record);

/* Say whether there may be a line. Not in a new file, which says that there may. 0 or errno. */
int hf__lockfile_write_has_queue(int fd, bool has_queue);

/* Mark a token as broken. 0 or errno. */
int hf__lockfile_mark_broken(int fd, uint64_t token);

/* Write the head of the room, summed; and see to the version, if the head says that it is too
   low. 0 or errno. */
int hf__lockfile_write_kinds(int fd, hf__head *head);

/* The record is whole: not one that is being written. So is the room's head. */
bool hf__record_is_intact(const hf__record *record);
bool hf__kinds_head_is_intact(const hf__kinds_head *kinds);

/* Somebody may be in the room: it says so; or it says nothing, though it was in use. */
bool hf__kinds_in_use(const hf__head *head);

/* Bytes at an offset, all or none as far as a kill goes if they lie in one page. 0 or errno. */
int hf__lockfile_write(int fd, const void *bytes, size_t length, off_t offset);

/* A result between the files of this store: neither space nor an inode is left. The store makes
   room and tries again; what it cannot mend is HF_REFUSED to all others. */
#define HF__NO_SPACE ((hf_result)-1)

/* A line for a person that says what could not be done to the file, and the result for this
   errno. */
hf_result hf__lockfile_error(const hf__lockfile *file, const char *what, int error, char **detail);

/* A line for a person, and HF_PROTOCOL. */
hf_result hf__lockfile_report_damaged(const hf__lockfile *file, const char *what, char **detail);

#endif
