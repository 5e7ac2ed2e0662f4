/* What is known of a leader, as it is told. */
#ifndef HF_CLIENT_LEADER_H
#define HF_CLIENT_LEADER_H

#include "client/client.h"

/* The answers of the store, and the info that points at them. */
typedef struct hf__led {
    hf_leader_info info;
    hf__sight sight;
    hf__word word;
} hf__led;

void hf__led_fill(hf__led *led);

#endif
