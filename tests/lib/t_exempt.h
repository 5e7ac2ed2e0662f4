/*
 * What the injected failures of t_alloc and t_sys must not hit: the helpers themselves. Their
 * threads run exempt, and so does the caller while it is inside one of them. A test that allocates
 * for itself within t_alloc_each does so between t_exempt_begin and t_exempt_end, which nest.
 */
#ifndef T_EXEMPT_H
#define T_EXEMPT_H

#include <stdbool.h>

void t_exempt_begin(void);
void t_exempt_end(void);
void t_exempt_reset(void);
bool t_exempt(void);

#endif
