/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads of the library, and waiting for another thread. The library's threads block all signals,
 * so that the program's threads receive them.
 */
#ifndef HF_BASE_THREAD_H
#define HF_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

#include "base/time.h"

bool hf__thread_start(pthread_t *thread, void *(*run)(void *), void *arg);

/* A condition for hf__cond_wait, which waits until it is signalled or `until`. It may also return
   without a reason. */
void hf__cond_init(pthread_cond_t *cond);
void hf__cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, hf__time until);

#endif
