/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Includes the whole test library, and cmocka with the headers it requires.
 *
 *     t_fail    end a test from anywhere           t_redis   a private server
 *     t_time    clocks and waiting                 t_proxy   a bad network in front of one
 *     t_proc    processes, threads, shared memory  t_fake    a server that follows a script
 *     t_alloc   failing memory                     t_net     sockets
 *     t_sys     failing descriptors and threads    t_hf      checks of the library's results
 *     t_files   failing files                      t_queue   the queue of a file store's lock
 *     t_nodes   independent servers, for a quorum  t_cluster a cluster of six nodes
 */
#ifndef T_H
#define T_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "t_acl.h"
#include "t_alloc.h"
#include "t_cluster.h"
#include "t_exempt.h"
#include "t_fail.h"
#include "t_fake.h"
#include "t_files.h"
#include "t_hf.h"
#include "t_net.h"
#include "t_nodes.h"
#include "t_proc.h"
#include "t_proxy.h"
#include "t_queue.h"
#include "t_redis.h"
#include "t_sentinel.h"
#include "t_sys.h"
#include "t_time.h"

#endif
