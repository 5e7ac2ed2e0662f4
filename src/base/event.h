/* Descriptors that say "something happened": eventfds, never blocking, closed on exec. */
#ifndef HF_BASE_EVENT_H
#define HF_BASE_EVENT_H

/* -1 when descriptors are out. */
int hf__event_new(void);

/* Readable from now on. Safe in a signal handler; -1 is nobody to tell. */
void hf__event_set(int fd);

/* No longer readable. */
void hf__event_clear(int fd);

/* -1 is nothing to close. */
void hf__event_free(int fd);

#endif
