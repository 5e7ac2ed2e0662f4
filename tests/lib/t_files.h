/*
 * Files that cannot be had: what t_sys is for descriptors and threads, for the calls on files and
 * directories that the file store makes (open, openat, mkdir, mkfifoat, unlinkat, fcntl, pread,
 * pwrite, fstat, fstatat, statx, fstatfs, epoll_ctl, fdopendir, futimens), each with an errno that
 * it can have. In hf_testfiles, an addition to hf_testalloc; counted apart.
 */
#ifndef T_FILES_H
#define T_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "t_inject.h"

void t_files_fail_at(int64_t n, bool forever);
void t_files_reset(void);
int64_t t_files_each(t_inject_fn *fn, void *arg, int64_t max);

#endif
