/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the directory of `file:`: owner, filesystem, free space. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "doctor/doctor.h"
#include "store/file/directory.h"

#define LOCK_BYTES  4096  /* minimum size of the file of a lock */
#define FEW_LOCKS   256   /* space for fewer is a warning */
#define SMALL_LOCKS 10000 /* a filesystem with space for fewer is small */
#define MANY_FILES  10000

static const char *filesystem_name(long type) {
    static const struct {
        long type;
        const char *name;
    } known[] = {{0x01021994, "tmpfs"}, {0xEF53, "ext4"},     {0x58465342, "XFS"},
                 {0x9123683E, "btrfs"}, {0x2FC12FC1, "ZFS"},  {0x794c7630, "overlayfs"},
                 {0xF2F52010, "F2FS"},  {0x858458f6, "ramfs"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if ((unsigned)known[i].type == (unsigned)type) return known[i].name;
    return NULL;
}

static void check_filesystem(findings *all, int fd) {
    struct statfs fs;
    if (fstatfs(fd, &fs) != 0) return;
    const char *shared = hf__filesystem_shared((long)fs.f_type);
    const char *name = shared ? shared : filesystem_name((long)fs.f_type);
    if (shared)
        findings_add(all, LEVEL_WARNING, "filesystem",
                     "These locks work on one machine only: other machines that share the "
                     "directory are not excluded.",
                     "Use a local directory, or a redis:// store for several machines.",
                     "%s, a network filesystem", name);
    else if (name)
        findings_add(all, LEVEL_OK, "filesystem", NULL, NULL, "%s, local", name);
    else
        findings_add(all, LEVEL_NOTE, "filesystem", "It is treated as a local filesystem.", NULL,
                     "unknown type (0x%lx)", (unsigned long)fs.f_type);
}

static void check_space(findings *all, int fd) {
    struct statvfs fs;
    if (fstatvfs(fd, &fs) != 0) return;
    uint64_t block = fs.f_frsize ? fs.f_frsize : 1;
    uint64_t blocks_each = block < LOCK_BYTES ? LOCK_BYTES / block : 1;
    uint64_t room = fs.f_bavail / blocks_each, in_all = fs.f_blocks / blocks_each;
    bool inodes = fs.f_files && room > fs.f_favail; /* some filesystems do not count inodes */
    if (inodes) room = fs.f_favail;
    severity level = !room                  ? LEVEL_ERROR
                     : room < FEW_LOCKS     ? LEVEL_WARNING
                     : in_all < SMALL_LOCKS ? LEVEL_NOTE
                                            : LEVEL_OK;
    bool fine = level == LEVEL_OK;
    char space[128];
    if (inodes)
        snprintf(space, sizeof space, "%" PRIu64 " inodes free, one for each lock", room);
    else
        snprintf(space, sizeof space,
                 "%" PRIu64 " MiB free, enough for about %" PRIu64 " more locks",
                 (uint64_t)fs.f_bavail * block >> 20, room);
    findings_add(
        all, level, "space",
        fine ? NULL
             : "Every lock in use needs a file, and cannot be acquired when the filesystem is "
               "full. Files of idle locks are removed when space runs short.",
        fine ? NULL
             : "Free some space or inodes there, or use a directory on a larger filesystem: set "
               "HOLDFAST_URL=file:///DIRECTORY for every process that shares the locks.",
        "%s", space);
}

static void check_files(findings *all, const char *path) {
    uint64_t count = 0;
    DIR *dir = opendir(path);
    if (!dir) return;
    /* cppcheck-suppress readdirCalled ; the stream is this call's own */
    for (const struct dirent *e; (e = readdir(dir));) count += e->d_name[0] != '.';
    closedir(dir);
    bool many = count > MANY_FILES;
    findings_add(all, many ? LEVEL_NOTE : LEVEL_OK, "files",
                 many ? "Many files do no harm, but finding one takes longer." : NULL,
                 many ? "Use fewer names, or a shorter keep= in the URL." : NULL,
                 "%" PRIu64 " files of locks and clients", count);
}

bool doctor_file(findings *all, const hf__url *url) {
    int fd;
    char *path;
    struct stat st;
    hf_result r = hf__directory_open(url->path, url->network_allowed, &fd, &path);
    if (r) {
        findings_add(all, LEVEL_ERROR, "directory", "No lock can be acquired there.", NULL, "%s",
                     hf_error_detail());
        return false;
    }
    if (fstat(fd, &st) == 0)
        findings_add(all, LEVEL_OK, "directory", NULL, NULL, "%s, owned by user id %u, mode %04o",
                     path, (unsigned)st.st_uid, (unsigned)(st.st_mode & 07777));
    check_filesystem(all, fd);
    check_space(all, fd);
    if (access(path, W_OK) != 0)
        findings_add(all, LEVEL_ERROR, "directory", "A lock with a new name cannot be acquired.",
                     "Make it writable, or use another directory: file:///DIRECTORY.", "%s: %s",
                     path, strerror(errno));
    check_files(all, path);
    free(path);
    close(fd);
    return true;
}
