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

/* The same from a shell and from cron: no variable of the environment has a say. */
static const char *const homes[] = {"/run/lock", "/var/tmp"};

/* ---- Which filesystem ---- */

/* Numbers from the kernel's headers and the filesystems' own; not all are in linux/magic.h. */
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
        return hf__fail(HF_REFUSED, "cannot tell which filesystem %s is on: %s", path,
                        strerror(errno));
    const char *name = hf__filesystem_shared((long)fs.f_type);
    if (!name) return HF_OK;
    return hf__fail(HF_REFUSED,
                    "%s is on %s, where the kernel's locks may not exclude other machines; use a "
                    "local directory, or a redis:// store to lock across machines, or add "
                    "network=allow to the URL if only this machine uses it",
                    path, name);
}

/* ---- Whose ---- */

static hf_result check_owner(int fd, const char *path) {
    struct stat st;
    if (fstat(fd, &st) != 0)
        return hf__fail(HF_REFUSED, "cannot look at %s: %s", path, strerror(errno));
    if (st.st_uid != geteuid())
        return hf__fail(HF_REFUSED,
                        "%s belongs to user %u, not to user %u who runs this; name a directory of "
                        "your own: file:///path",
                        path, (unsigned)st.st_uid, (unsigned)geteuid());
    if (st.st_mode & 022)
        return hf__fail(
            HF_REFUSED,
            "%s may be written by others (mode %03o), who could take locks away; name a "
            "directory that is yours alone, such as one in it: file://%s/locks",
            path, (unsigned)(st.st_mode & 0777), path);
    return HF_OK;
}

/* ---- Opening ---- */

/* HF_UNREACHABLE says that it cannot be there, for anybody who asks: then another place may do. What may pass,
   as a full disk does, must not lead two processes to two places. */
static hf_result cannot_make(const char *path) {
    bool never = errno == ENOENT || errno == ENOTDIR || errno == EACCES || errno == EPERM;
    return hf__fail(never ? HF_UNREACHABLE : HF_REFUSED, "cannot make the directory %s: %s", path,
                    errno == ENOENT ? "the one that it is to be in is missing; make that first"
                                    : strerror(errno));
}

static hf_result open_path(const char *path, bool network, int *out) {
    if (mkdir(path, 0700) != 0 && errno != EEXIST && errno != EROFS) return cannot_make(path);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
        return hf__fail(HF_NOMEM, "cannot open the directory %s: %s", path, strerror(errno));
    if (fd < 0)
        return hf__fail(
            errno == ENOENT ? HF_UNREACHABLE : HF_REFUSED, "cannot open the directory %s: %s", path,
            errno == ELOOP || errno == ENOTDIR ? "it is no directory, but a link or a file"
                                               : strerror(errno));
    hf_result r = check_owner(fd, path);
    if (!r && !network) r = check_filesystem(fd, path);
    if (r)
        close(fd);
    else
        *out = fd;
    return r;
}

static hf_result open_default(bool network, int *fd, char **opened) {
    hf_result r = HF_UNREACHABLE;
    for (size_t i = 0; i < sizeof homes / sizeof *homes && r == HF_UNREACHABLE; i++) {
        free(*opened);
        if (asprintf(opened, "%s/holdfast-%u", homes[i], (unsigned)geteuid()) < 0) {
            *opened = NULL;
            return hf__fail(HF_NOMEM, "out of memory");
        }
        r = open_path(*opened, network, fd);
    }
    return r;
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
