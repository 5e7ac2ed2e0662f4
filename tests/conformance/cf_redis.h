/* SPDX-License-Identifier: Apache-2.0 */
/* The private server that cases with the need CF_REDIS inspect. */
#ifndef HF_CONFORMANCE_REDIS_H
#define HF_CONFORMANCE_REDIS_H

#include "t_redis.h"

t_redis *cf_redis(void);

#endif
