/* SPDX-License-Identifier: Apache-2.0 */
/* The scripts of lua/, embedded at build time: each file is one constant. */
#ifndef HF_STORE_REDIS_PROTOCOL_SCRIPT_H
#define HF_STORE_REDIS_PROTOCOL_SCRIPT_H

#include <stddef.h>

typedef struct hf__script {
    const char *name;
    const char *text;
    size_t length;
    const char *sha1;
    const struct hf__script *in_cluster; /* variant for cluster nodes; NULL: the same */
} hf__script;

extern const hf__script hf__script_acquire;
extern const hf__script hf__script_uptime;
extern const hf__script hf__script_acquire_all;
extern const hf__script hf__script_break;
extern const hf__script hf__script_shared_acquire;
extern const hf__script hf__script_transfer;
extern const hf__script hf__script_inspect;
extern const hf__script hf__script_shared_renew;
extern const hf__script hf__script_shared_release;
extern const hf__script hf__script_latch_count_down;
extern const hf__script hf__script_latch_get;
extern const hf__script hf__script_latch_set;
extern const hf__script hf__script_leader;
extern const hf__script hf__script_list;
extern const hf__script hf__script_proclaim;
extern const hf__script hf__script_raise_token;
extern const hf__script hf__script_register_client;
extern const hf__script hf__script_release;
extern const hf__script hf__script_renew;
extern const hf__script hf__script_touch_hold;

#endif
