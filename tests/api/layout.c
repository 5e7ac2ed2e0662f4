/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout of the structs that cross the library's boundary. Other languages copy it by hand (as
 * ctypes_smoke.py does), and compiled programs rely on it. So lines may only be added here.
 *
 * The file is compiled as C11 and as C++17, which also shows that the header is valid in both.
 */
#include <holdfast.h>

#include <assert.h>

#if UINTPTR_MAX == UINT64_MAX

#define AT(type, field, offset) static_assert(offsetof(type, field) == (offset), #type "." #field)
#define SIZE(type, size)        static_assert(sizeof(type) == (size), #type)

AT(hf_options, wait_ms, 0);
AT(hf_options, lease_ms, 8);
AT(hf_options, max_hold_ms, 16);
AT(hf_options, owner, 24);
AT(hf_options, cancel, 32);
AT(hf_options, on_lost, 40);
AT(hf_options, arg, 48);
AT(hf_options, kind, 56);
AT(hf_options, permits, 60);
AT(hf_options, capacity, 64);
AT(hf_options, flags, 68);
SIZE(hf_options, 72);

AT(hf_request, name, 0);
AT(hf_request, kind, 8);
AT(hf_request, permits, 12);
AT(hf_request, capacity, 16);
AT(hf_request, flags, 20);
SIZE(hf_request, 24);

AT(hf_client_options, lease_ms, 0);
AT(hf_client_options, connect_timeout_ms, 8);
AT(hf_client_options, command_timeout_ms, 16);
AT(hf_client_options, outage_ms, 24);
AT(hf_client_options, label, 32);
AT(hf_client_options, log, 40);
AT(hf_client_options, log_arg, 48);
AT(hf_client_options, log_level, 56);
AT(hf_client_options, flags, 60);
SIZE(hf_client_options, 64);

AT(hf_info, held, 0);
AT(hf_info, kind, 4);
AT(hf_info, count, 8);
AT(hf_info, waiting, 12);
AT(hf_info, remaining_ms, 16);
AT(hf_info, token, 24);
AT(hf_info, since_unix_ms, 32);
AT(hf_info, pid, 40);
AT(hf_info, client, 48);
AT(hf_info, owner, 56);
AT(hf_info, host, 64);
AT(hf_info, program, 72);
AT(hf_info, label, 80);
AT(hf_info, waiters, 88);
AT(hf_info, holders, 96);
AT(hf_info, used, 100);
AT(hf_info, capacity, 104);
SIZE(hf_info, 112);

AT(hf_waiter, pid, 0);
AT(hf_waiter, client, 8);
AT(hf_waiter, owner, 16);
AT(hf_waiter, host, 24);
AT(hf_waiter, program, 32);
AT(hf_waiter, label, 40);
SIZE(hf_waiter, 48);

AT(hf_leader_info, token, 0);
AT(hf_leader_info, remaining_ms, 8);
AT(hf_leader_info, pid, 16);
AT(hf_leader_info, value, 24);
AT(hf_leader_info, client, 32);
AT(hf_leader_info, host, 40);
AT(hf_leader_info, program, 48);
AT(hf_leader_info, label, 56);
AT(hf_leader_info, value_length, 64);
SIZE(hf_leader_info, 72);

AT(hf_stats, acquired, 0);
AT(hf_stats, reentered, 8);
AT(hf_stats, released, 16);
AT(hf_stats, refused, 24);
AT(hf_stats, lost, 32);
AT(hf_stats, renewed, 40);
AT(hf_stats, commands, 48);
AT(hf_stats, reconnects, 56);
AT(hf_stats, held, 64);
AT(hf_stats, waiting, 72);
AT(hf_stats, handed_over, 80);
AT(hf_stats, waits, 88);
AT(hf_stats, holds, 424);
SIZE(hf_stats, 760);

AT(hf_histogram, count, 0);
AT(hf_histogram, sum_us, 8);
AT(hf_histogram, bucket, 16);
SIZE(hf_histogram, 336);

#endif

/* Other languages copy the numbers of results too. */
#define NUMBER(name, number, text) static_assert(name == (number), #name);
HF_RESULTS(NUMBER)
static_assert(HF_OK == 0 && HF_LOST == 4 && HF_NOMEM == 15, "a result was renumbered");
static_assert(HF_NO_RENEW == 1 && HF_NOT_REENTRANT == 2 && HF_FRESH_OWNER == 4,
              "a flag was renumbered");
