/*
 * What a process has that it did not have before it opened its first client: bytes of the heap and
 * descriptors. When all of them are closed that must be nothing.
 */
#ifndef HF_SOAK_LEFT_H
#define HF_SOAK_LEFT_H

#include "soak.h"

/* This process begins; what it has now is what it counts from. */
void left_begin(void);

/* Bytes in use, beyond those. */
long long left_heap(void);

/* All is closed: say in `p` what is left. */
void left_end(soak_process *p);

/* Print the worst of all processes; how many have left too much. */
int left_judge(soak *s);

#endif
