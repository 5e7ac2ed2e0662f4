/* SPDX-License-Identifier: Apache-2.0 */
/* The fork generation and thread ids, without a system call each time. */
#include "client/client.h"

static atomic_uint_fast64_t generation;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void count_fork_in_child(void) {
    atomic_fetch_add(&generation, 1);
}

static void watch_forks(void) {
    pthread_atfork(NULL, NULL, count_fork_in_child);
}

/* hf_open calls this before there is a client, so every later fork is noticed. */
uint64_t hf__fork_generation(void) {
    pthread_once(&once, watch_forks);
    return atomic_load_explicit(&generation, memory_order_relaxed);
}

uint64_t hf__fresh_owner_id(void) {
    static atomic_uint_fast64_t last;
    return atomic_fetch_add(&last, 1) + 1;
}

uint64_t hf__thread_id(void) {
    static _Thread_local uint64_t mine;
    if (!mine) mine = hf__fresh_owner_id();
    return mine;
}
