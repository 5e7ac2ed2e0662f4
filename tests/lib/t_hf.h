/* Checks of the library's results that say, when they fail, what the result was and why. */
#ifndef T_HF_H
#define T_HF_H

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

#endif
