/* Threads of the library, which take no signal: those are for the program. And waiting for another thread. */
#ifndef HF_BASE_THREAD_H
#define HF_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

#include "base/time.h"

bool hf__thread_start(pthread_t *thread, void *(*run)(void *), void *arg);

/* A condition to be waited for with hf__cond_wait: until it is signalled, the time has come, or for no reason. */
void hf__cond_init(pthread_cond_t *cond);
void hf__cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, hf__time until);

#endif
