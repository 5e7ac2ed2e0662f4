/*
 * Descriptors that no forked child may keep. A kernel's lock belongs to the open file, and after fork
 * the child has it too: if the child kept its copy, the lock would outlive the parent that took it.
 *
 * Each is opened and noted in one step, as far as a fork can see.
 */
#ifndef HF_STORE_FILE_CLOFORK_H
#define HF_STORE_FILE_CLOFORK_H

#include <sys/types.h>

/* As openat and epoll_create1, always closed on exec; -1 with errno set. */
int hf__clofork_open(int directory, const char *name, int flags, mode_t mode);
int hf__clofork_epoll(void);

/* Close it; -1 is nothing. Not in a child, where it is closed already. */
void hf__clofork_close(int fd);

#endif
