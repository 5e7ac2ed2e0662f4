/*
 * Descriptors that no forked child may keep. A kernel's lock belongs to the open file, and after fork
 * the child has it too: if the child kept its copy, the lock would outlive the parent that took it.
 */
#ifndef HF_STORE_FILE_KEPT_H
#define HF_STORE_FILE_KEPT_H

#include <stdbool.h>

/* From now on a child closes it. Returns it, or -1 with errno set; it is then closed. -1 passes. */
int hf__kept_add(int fd);

/* Close it; -1 is nothing. Not in a child, where it is closed already. */
void hf__kept_close(int fd);

#endif
