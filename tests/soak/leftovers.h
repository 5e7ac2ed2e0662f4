/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resources that a process has and did not have before it opened its first client: heap bytes and
 * descriptors. When all clients are closed there must be none.
 */
#ifndef HF_SOAK_LEFTOVERS_H
#define HF_SOAK_LEFTOVERS_H

#include "soak.h"

/* This process begins; its present resources are the baseline. */
void leftovers_begin(void);

/* Bytes in use beyond the baseline. */
long long leftovers_heap(void);

/* All clients are closed: store in `p` what is left. */
void leftovers_end(soak_process *p);

/* Print the worst process; returns how many have left too much. */
int leftovers_judge(soak *s);

#endif
