/*
 * Points at which perf, bpftrace or SystemTap can look into a running program (USDT). One that nobody
 * looks at is a single instruction that does nothing; without <sys/sdt.h> at build there is not even that.
 *
 *   holdfast:acquire   name                        a call wants a lock
 *   holdfast:granted   name, token, nanoseconds    and has it, after so long
 *   holdfast:renewed   name, token                 the store has confirmed it anew
 *   holdfast:released  name, token, nanoseconds    it was let go, after so long
 *   holdfast:lost      name, token, why            or it was lost
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
