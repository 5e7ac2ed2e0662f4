/* SPDX-License-Identifier: Apache-2.0 */
/* Lists locks by reading the directory once, a few entries per step, through one open stream. So
   each file that exists during the whole walk is found exactly once. A file stays for a day after
   its last use, so most files belong to locks that nobody uses; the caller inspects each one. */
#include "store/file/list.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "store/file/clofork.h"
#include "store/file/lockfile.h"

#define STEP 256 /* directory entries read per step */

static void end_walk(void *walk) {
    closedir(walk);
}

static hf_result begin_walk(int directory, const char *path, hf__op *op) {
    int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir) {
        op->list_walk->state = dir;
        op->list_walk->free_state = end_walk;
        return HF_OK;
    }
    bool out = errno == EMFILE || errno == ENFILE || errno == ENOMEM;
    op->detail = hf__line("cannot read the directory %s: %s", path, strerror(errno));
    if (fd >= 0) close(fd);
    return out ? HF_NOMEM : HF_UNREACHABLE;
}

/* The key is stored in the file if its name is a hash. Returns its length; 0: it cannot be read, or
   the file is not a lock's. */
static size_t read_key(int directory, const char *path, const char *name,
                       char key[HF__KEY_MAX + 1]) {
    hf_result r;
    hf__head head = {.key_length = 0};
    char *detail = NULL;
    hf__lockfile file = {.directory = directory, .path = path};
    hf__text_copy(file.name, sizeof file.name, name);
    int fd = hf__lockfile_open(&file, false, &r, &detail);
    if (fd >= 0) r = hf__lockfile_read(&file, fd, NULL, 0, &head, &detail);
    size_t length = !r && head.version ? hf__lockfile_read_key(fd, &head, key) : 0;
    hf__clofork_close(fd);
    free(detail);
    return length;
}

static void add_name(hf__list_walk *l, const char *key, size_t length, const char *prefix) {
    size_t before = strlen(key) + 1;
    if (strcmp(key, prefix) != 0 || before >= length || length - before > HF_NAME_MAX) return;
    if (strlen(key + before) != length - before) return;
    hf__list_item *to = &l->names[l->count++];
    to->from_queue = false;
    memcpy(to->name, key + before, length - before + 1);
}

static void add_entry(hf__list_walk *l, int directory, const char *path, const char *prefix,
                      const char *name) {
    char key[HF__KEY_MAX + 1];
    if (strncmp(name, HF__LOCK_START, strlen(HF__LOCK_START)) != 0) return;
    size_t length = hf__filename_key(key, name);
    if (!length) length = read_key(directory, path, name, key);
    if (length) add_name(l, key, length, prefix);
}

hf_result hf__file_list(int directory, const char *path, const char *prefix, hf__op *op) {
    hf__list_walk *l = op->list_walk;
    hf_result r = l->state ? HF_OK : begin_walk(directory, path, op);
    l->count = 0;
    for (int i = 0; !r && i < STEP && l->count < HF__LIST_BATCH; i++) {
        /* cppcheck-suppress readdirCalled ; the stream is this walk's own */
        struct dirent *entry = readdir(l->state);
        l->finished = !entry;
        if (!entry) break;
        add_entry(l, directory, path, prefix, entry->d_name);
    }
    return r;
}
