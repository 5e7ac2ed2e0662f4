/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protects the helpers of the test library from the failures that t_alloc and t_sys inject. Their
 * threads are exempt, and so is a caller while it is inside a helper. A test that allocates for
 * itself inside t_alloc_each does so between t_exempt_begin and t_exempt_end. Calls may be nested.
 */
#ifndef T_EXEMPT_H
#define T_EXEMPT_H

#include <stdbool.h>

void t_exempt_begin(void);
void t_exempt_end(void);
void t_exempt_reset(void);
bool t_exempt(void);

#endif
