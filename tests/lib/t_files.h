/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes calls on files and directories fail, as t_sys does for descriptors and threads. It covers
 * the calls of the file store: open, openat, mkdir, mkfifoat, unlinkat, fcntl, pread, pwrite,
 * fstat, fstatat, statx, fstatfs, epoll_ctl, fdopendir and futimens. Each fails with an errno that
 * it can have. Part of hf_testfiles, which is used together with hf_testalloc; its calls are
 * counted separately.
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
