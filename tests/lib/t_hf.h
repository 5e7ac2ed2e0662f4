/* Checks of the library's results that say, when they fail, what the result was and why. */
#ifndef T_HF_H
#define T_HF_H

#include <stdbool.h>
#include <string.h>

#include "holdfast.h"

#include "t_fail.h"

/* T_HF(HF_OK, hf_open(url, NULL, &client)); on any thread. */
#define T_HF(expected, call)                                                                   \
    do {                                                                                       \
        const hf_result t_result_ = (call);                                                    \
        if (t_result_ != (expected))                                                           \
            t_fail_at(__FILE__, __LINE__, "%s is %s (%s), not %s", #call,                      \
                      hf_result_name(t_result_), hf_error_detail(), hf_result_name(expected)); \
    } while (0)

/* Of a call some of whose memory or system calls failed: true: it did without. It may also say HF_NOMEM, or what comes of
   that: a connection that broke over it, what that leaves open, and `also`, which HF_OK ends. With a reason, all of them. */
static inline bool t_hf_did_without(hf_result r, const char *what, const hf_result *also) {
    bool fair = r == HF_OK || r == HF_NOMEM || r == HF_UNREACHABLE || r == HF_UNKNOWN_OUTCOME;
    for (; *also != HF_OK; also++) fair = fair || r == *also;
    /* The first look at a machine that was busy: too short a lease for so slow a store. */
    if (r == HF_INVALID && strstr(hf_error_detail(), "less than four round trips")) fair = true;
    if (!fair) t_fail("%s is %s: %s", what, hf_result_name(r), hf_error_detail());
    if (r) T_CHECK(*hf_error_detail());
    return r == HF_OK;
}

#endif
