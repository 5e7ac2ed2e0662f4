/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of the library's results. A failed check prints the actual result and its detail. */
#ifndef T_HF_H
#define T_HF_H

#include <stdbool.h>
#include <string.h>

#include "holdfast.h"

#include "t_fail.h"

/* T_HF(HF_OK, hf_open(url, NULL, &client)); works on any thread. */
#define T_HF(expected, call)                                                                   \
    do {                                                                                       \
        const hf_result t_result_ = (call);                                                    \
        if (t_result_ != (expected))                                                           \
            t_fail_at(__FILE__, __LINE__, "%s is %s (%s), not %s", #call,                      \
                      hf_result_name(t_result_), hf_error_detail(), hf_result_name(expected)); \
    } while (0)

/* For a call during which memory or system calls failed. True: the call succeeded anyway. It may
   also fail with HF_NOMEM, with an error that follows from it (a broken connection, an unknown
   outcome), or with one of `also`, a list that HF_OK ends. Every failure must have a detail. */
static inline bool t_hf_did_without(hf_result r, const char *what, const hf_result *also) {
    bool fair = r == HF_OK || r == HF_NOMEM || r == HF_UNREACHABLE || r == HF_UNKNOWN_OUTCOME;
    for (; *also != HF_OK; also++) fair = fair || r == *also;
    /* A busy machine can make the first measurement too slow for the lease. */
    if (r == HF_INVALID && strstr(hf_error_detail(), "less than four round trips")) fair = true;
    if (!fair) t_fail("%s is %s: %s", what, hf_result_name(r), hf_error_detail());
    if (r) T_CHECK(*hf_error_detail());
    return r == HF_OK;
}

#endif
