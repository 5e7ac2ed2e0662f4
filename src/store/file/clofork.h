/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors that are closed in a forked child. A kernel lock belongs to the open file
 * description, and after fork the child shares it. If the child kept its copy, the lock would
 * outlive the parent that took it.
 *
 * A descriptor is opened and registered in one step: a fork in another thread comes before both or
 * after both.
 */
#ifndef HF_STORE_FILE_CLOFORK_H
#define HF_STORE_FILE_CLOFORK_H

#include <sys/types.h>

/* Like openat and epoll_create1, always with close-on-exec; -1 with errno set on failure. */
int hf__clofork_open(int directory, const char *name, int flags, mode_t mode);
int hf__clofork_epoll(void);

/* Close a descriptor; -1 is ignored. Not for a child, where it is closed already. */
void hf__clofork_close(int fd);

#endif
