/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The events of a run for programs: JSON objects on a descriptor, one per line. Each has `event`,
 * `time_unix_ms` and `name`.
 */
#ifndef CLI_RUN_JSON_EVENTS_H
#define CLI_RUN_JSON_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "holdfast.h"

typedef struct events {
    int fd; /* -1: no events */
    const char *name;
    bool stuck; /* nobody reads the events, and a message said so */
} events;

/* Checks that the descriptor is writable. Sets close-on-exec on it, unless it is a standard
   stream. */
bool events_check_fd(int fd);

/* Another holds the lock. `info` may be NULL. `ahead` is the number of waiters ahead; -1:
   unknown. */
void events_waiting(events *e, const hf_info *info, int64_t ahead);
void events_acquired(events *e, const hf_hold *hold, int names, int64_t waited_ms);
void events_started(events *e, int64_t pid);
void events_lost(events *e, const char *why);
void events_ended(events *e, int code, int sig);
void events_released(events *e, hf_result result);

/* The lock was not acquired. `result` is HF_BUSY, HF_TIMEOUT, …, or HF_OK if only the exit code is
   known. */
void events_failed(events *e, hf_result result, int code, const char *detail);

#endif
