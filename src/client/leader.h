/* SPDX-License-Identifier: Apache-2.0 */
/* What the store knows of a leader. */
#ifndef HF_CLIENT_LEADER_H
#define HF_CLIENT_LEADER_H

#include "client/client.h"

/* The answers of the store, and the info that points into them. */
typedef struct hf__leader_answer {
    hf_leader_info info;
    hf__lock_info lock_info;
    hf__leader_value leader_value;
} hf__leader_answer;

void hf__leader_answer_fill(hf__leader_answer *answer);

#endif
