/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the lock directory, and refuses one that is not safe. See directory.h. */
#include "store/file/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"

/* The parent of every user's default directory. No environment variable changes it, so it is the
   same from a shell and from cron. There is no fallback: a process in a mount namespace where
   this one is read-only would use the fallback while others do not, and both would hold the
   lock. */
#define DEFAULT_PARENT "/run/lock"

/* ---- Filesystem ---- */

/* From the headers of the kernel and of the filesystems; not all of them are in linux/magic.h. */
static const struct {
    long type;
    const char *name;
} shared[] = {
    {0x6969, "NFS"},        {0x517B, "SMB"},        {0xFF534D42, "CIFS"}, {0xFE534D42, "SMB"},
    {0x01021997, "9P"},     {0x00C36400, "Ceph"},   {0x65735546, "FUSE"}, {0x5346414F, "AFS"},
    {0x6B414653, "AFS"},    {0x0BD00BD0, "Lustre"}, {0x73757245, "Coda"}, {0x564C, "NCP"},
    {0x47504653, "GPFS"},   {0x7461636F, "OCFS2"},  {0x01161970, "GFS2"}, {0x786F4256, "vboxsf"},
    {0x19830326, "BeeGFS"}, {0x013111A8, "IBRIX"},
};

const char *hf__filesystem_shared(long type) {
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++)
        if ((unsigned)shared[i].type == (unsigned)type) return shared[i].name;
    return NULL;
}

static hf_result check_filesystem(int fd, const char *path) {
    struct statfs fs;
    if (fstatfs(fd, &fs) != 0)
        return hf__fail(HF_REFUSED, "cannot find out which filesystem %s is on: %s", path,
                        strerror(errno));
    const char *name = hf__filesystem_shared((long)fs.f_type);
    if (!name) return HF_OK;
    return hf__fail(HF_REFUSED,
                    "%s is on %s, where the kernel's locks may not exclude other machines; use a "
                    "local directory, or a redis:// store to lock across machines, or add "
                    "network=allow to the URL if only this machine uses it",
                    path, name);
}

/* ---- Owner and mode ---- */

static hf_result report_foreign(const struct stat *st, const char *path) {
    return hf__fail(HF_REFUSED,
                    "%s belongs to user %u, but this process runs as user %u; use a directory of "
                    "your own: file:///path",
                    path, (unsigned)st->st_uid, (unsigned)geteuid());
}

static hf_result check_owner(int fd, const char *path) {
    struct stat st;
    if (fstat(fd, &st) != 0)
        return hf__fail(HF_REFUSED, "cannot inspect %s: %s", path, strerror(errno));
    if (st.st_uid != geteuid()) return report_foreign(&st, path);
    if (st.st_mode & 022)
        return hf__fail(
            HF_REFUSED,
            "%s may be written by others (mode %03o), who could remove locks; make it yours "
            "alone (chmod 700 %s), or use another directory: file:///path",
            path, (unsigned)(st.st_mode & 0777), path);
    return HF_OK;
}

/* A user with write access to the parent can move this directory away from a holder. The next
   process would then make a new directory in its place. A sticky bit prevents that. */
static hf_result check_parent(int fd, const char *path) {
    struct stat st;
    if (fstatat(fd, "..", &st, 0) != 0 || !(st.st_mode & 002) || st.st_mode & S_ISVTX) return HF_OK;
    return hf__fail(HF_REFUSED,
                    "the parent directory of %s is writable for everyone (mode %04o), and any user "
                    "could move it away; use a directory elsewhere: file:///path",
                    path, (unsigned)(st.st_mode & 07777));
}

static hf_result check_writable(int fd, const char *path) {
    if (faccessat(fd, ".", W_OK, AT_EACCESS) == 0 || errno != EROFS) return HF_OK;
    return hf__fail(HF_REFUSED, "the directory %s is on a read-only filesystem", path);
}

/* ---- Opening ---- */

/* Some filesystems, such as /proc, also report ENOENT although the parent exists. */
static bool has_parent(const char *path) {
    struct stat st;
    size_t length = strlen(path);
    while (length && path[length - 1] == '/') length--;
    while (length && path[length - 1] != '/') length--;
    char *parent = strndup(path, length);
    bool found = parent && stat(length ? parent : ".", &st) == 0;
    free(parent);
    return found;
}

static hf_result report_cannot_make(const char *path, int error) {
    bool absent = error == ENOENT || error == ENOTDIR || error == EACCES || error == EPERM;
    return hf__fail(
        absent ? HF_UNREACHABLE : HF_REFUSED, "cannot create the directory %s: %s", path,
        error == ENOENT && !has_parent(path) ? "its parent directory is missing; create that first"
                                             : strerror(error));
}

static hf_result report_cannot_open(const char *path, int error) {
    struct stat st;
    if (error == EMFILE || error == ENFILE || error == ENOMEM)
        return hf__fail(HF_NOMEM, "cannot open the directory %s: %s", path, strerror(error));
    if (error == EACCES && lstat(path, &st) == 0 && st.st_uid != geteuid())
        return report_foreign(&st, path);
    return hf__fail(error == ENOENT ? HF_UNREACHABLE : HF_REFUSED,
                    "cannot open the directory %s: %s", path,
                    error == ELOOP || error == ENOTDIR ? "it is a link or a file, not a directory"
                                                       : strerror(error));
}

static hf_result open_path(const char *path, bool network, int *out) {
    int unmade = mkdir(path, 0700) != 0 ? errno : 0;
    if (unmade && unmade != EEXIST && unmade != EROFS) return report_cannot_make(path, unmade);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT && unmade == EROFS) return report_cannot_make(path, EROFS);
    if (fd < 0) return report_cannot_open(path, errno);
    hf_result r = check_owner(fd, path);
    if (!r) r = check_parent(fd, path);
    if (!r) r = check_writable(fd, path);
    if (!r && !network) r = check_filesystem(fd, path);
    if (r)
        close(fd);
    else
        *out = fd;
    return r;
}

/* Another directory is safe only if all processes that share the locks use it. So the user must
   choose it. */
static hf_result explain_default(void) {
    char why[HF__DETAIL_MAX];
    hf__text_copy(why, sizeof why, hf_error_detail());
    return hf__fail(
        HF_REFUSED,
        "%s. There is no second default directory, because processes could then use different "
        "ones; set HOLDFAST_URL=file:///DIRECTORY (or -S) for every process that shares the locks",
        why);
}

static hf_result open_default(bool network, int *fd, char **opened) {
    if (asprintf(opened, DEFAULT_PARENT "/holdfast-%u", (unsigned)geteuid()) < 0) {
        *opened = NULL;
        return hf__fail(HF_NOMEM, "out of memory");
    }
    hf_result r = open_path(*opened, network, fd);
    return r && r != HF_NOMEM ? explain_default() : r;
}

hf_result hf__directory_open(const char *path, bool network, int *fd, char **opened) {
    *fd = -1;
    *opened = path ? strdup(path) : NULL;
    hf_result r = !path     ? open_default(network, fd, opened)
                  : *opened ? open_path(path, network, fd)
                            : hf__fail(HF_NOMEM, "out of memory");
    if (!r) return r;
    free(*opened);
    *opened = NULL;
    return r;
}
