/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes calls fail that create descriptors or threads, as t_alloc does for memory: socket, eventfd,
 * pipe2, epoll_create1 and timerfd_create (EMFILE), and pthread_create (EAGAIN). Part of
 * hf_testalloc; memory and these are counted separately.
 */
#ifndef T_SYS_H
#define T_SYS_H

#include <stdbool.h>
#include <stdint.h>

#include "t_inject.h"

void t_sys_fail_at(int64_t n, bool forever);
void t_sys_reset(void);
int64_t t_sys_count(void);
int64_t t_sys_failed(void);
int64_t t_sys_each(t_inject_fn *fn, void *arg, int64_t max);

#endif
