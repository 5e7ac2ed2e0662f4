/* Threads of the library: they take no signal, those are for the program. */
#ifndef HF_BASE_THREAD_H
#define HF_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

bool hf__thread_start(pthread_t *thread, void *(*run)(void *), void *arg);

#endif
