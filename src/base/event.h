/* SPDX-License-Identifier: Apache-2.0 */
/* Event descriptors: eventfds that never block and are closed on exec. */
#ifndef HF_BASE_EVENT_H
#define HF_BASE_EVENT_H

/* -1: no descriptor available. */
int hf__event_new(void);

/* Make it readable. Safe in a signal handler; -1 does nothing. */
void hf__event_set(int fd);

/* Make it unreadable. */
void hf__event_clear(int fd);

/* -1 does nothing. */
void hf__event_free(int fd);

#endif
