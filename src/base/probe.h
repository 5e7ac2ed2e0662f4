/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Static probes (USDT) for perf, bpftrace and SystemTap. A probe that is not in use is a single
 * no-op instruction. Without <sys/sdt.h> at build time there are no probes.
 *
 *   holdfast:acquire   name                        a call wants a lock
 *   holdfast:granted   name, token, nanoseconds    it has the lock, after this wait
 *   holdfast:renewed   name, token                 the store has confirmed a renewal
 *   holdfast:released  name, token, nanoseconds    it was released, after this time
 *   holdfast:lost      name, token, why            it was lost
 */
#ifndef HF_BASE_PROBE_H
#define HF_BASE_PROBE_H

#ifdef HF__HAS_PROBES
#include <sys/sdt.h>
#define HF__PROBE1(name, a)       DTRACE_PROBE1(holdfast, name, a)
#define HF__PROBE2(name, a, b)    DTRACE_PROBE2(holdfast, name, a, b)
#define HF__PROBE3(name, a, b, c) DTRACE_PROBE3(holdfast, name, a, b, c)
#else
#define HF__PROBE1(name, a)       ((void)(a))
#define HF__PROBE2(name, a, b)    ((void)(a), (void)(b))
#define HF__PROBE3(name, a, b, c) ((void)(a), (void)(b), (void)(c))
#endif

#endif
