/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the core alone. Calls record their outcome, and the store only keeps submitted operations
 * until the test answers them. The test sets the time.
 */
#ifndef HF_UNIT_CORE_KIT_H
#define HF_UNIT_CORE_KIT_H

#include "base/error.h"
#include "core/core_internal.h"

/* ---- Calls ---- */

typedef struct kit_outcome {
    int times; /* how often it was finished; must be once */
    hf__time at;
    hf_result result;
    char detail[HF__DETAIL_MAX];
} kit_outcome;

typedef struct kit_call {
    hf__call call;
    kit_outcome outcome;
} kit_call;

/* A call that acquires a lock; unset fields are as in hf_options. */
typedef struct kit_wait {
    hf__wait wait;
    kit_outcome outcome;
    hf__handle *hold; /* once granted */
} kit_wait;

kit_call *kit_call_init(kit_call *call);

/* Allocates what a grant needs, and sets its times. wait_ms 0 tries once. */
void kit_wait_init(kit_wait *w, uint64_t owner, int64_t wait_ms, int64_t lease_ms, hf__time now);
void kit_wait_fini(kit_wait *w); /* does not free a granted hold, which belongs to the test */

/* Records what the core has finished; fails if a call is finished twice. */
void kit_collect(hf__core *core, hf__time now);

/* Takes the losses that are to be reported; returns their number. */
int kit_take_lost(hf__core *core);

void kit_hold_free(hf__handle *hold);

/* Returns the entry of a name, or NULL. */
hf__entry *kit_entry(const hf__core *core, const char *name);

/* ---- The stage ---- */

enum { STAGE_OPS = 64, STAGE_WAITS = 64 };

typedef struct core_stage {
    hf__store store;
    hf__core core;
    hf__time now;
    hf__op *pending[STAGE_OPS]; /* submitted and not answered, oldest first */
    size_t count;
    kit_wait *waits[STAGE_WAITS]; /* given up when their time is over */
    size_t waiting;
    int lost;
    hf__time lost_at;
} core_stage;

#define STAGE_LEASE_MS   30000
#define STAGE_COMMAND_MS 5000
#define STAGE_OUTAGE_MS  10000

/* cmocka's setup and teardown: *state is a connected stage. */
int stage_set_up(void **state);
int stage_tear_down(void **state);

/* Start to acquire "name" (or another). */
void stage_acquire(core_stage *s, kit_wait *w, uint64_t owner, int64_t wait_ms, int64_t lease_ms);
void stage_acquire_named(core_stage *s, kit_wait *w, const char *name, uint64_t owner,
                         int64_t wait_ms, int64_t lease_ms);

/* Starts a wait that the test has initialised itself. */
void stage_begin(core_stage *s, kit_wait *w, const char *name);

/* Returns the only pending operation, which must have this verb. */
hf__op *stage_pending_op(core_stage *s, hf__verb verb);
void stage_nothing_pending(const core_stage *s);

/* Answers the oldest operation, which must have this verb. */
void stage_answer(core_stage *s, hf__verb verb, hf_result result);
/* Failed, but may have been executed. */
void stage_answer_maybe(core_stage *s, hf__verb verb, hf_result result);
void stage_answer_busy(core_stage *s, int64_t retry_ms);

/* Acquires and grants: it is held now, under token 7 if it is the first. */
hf__handle *stage_take(core_stage *s, kit_wait *w, const char *name, int64_t lease_ms);

/* Answers operations that come up meanwhile; NULL: there must be none. */
typedef void stage_answerer(core_stage *s);

/* Advances the time, event by event. */
void stage_run(core_stage *s, hf__time until, stage_answerer *answerer);

/* Advances until an operation is submitted; fails if that is not before `until`. */
hf__op *stage_run_to_op(core_stage *s, hf__verb verb, hf__time until);

/* The first breaks the connection, and operations in flight may have been executed. The second
   restores it. */
void stage_link_down(core_stage *s);
void stage_link_up(core_stage *s);

void stage_release(core_stage *s, hf__handle *hold, kit_call *call);
void stage_extend(core_stage *s, hf__handle *hold, int64_t lease_ms, kit_call *call);
void stage_give_up(core_stage *s, kit_wait *w, hf_result why);

/* Call this after any direct action on the core. */
void stage_process(core_stage *s);

#define ASSERT_FINISHED(outcome_, result_)                                         \
    do {                                                                           \
        if ((outcome_).times != 1 || (outcome_).result != (result_))               \
            fail_msg("finished %d times, %s (%s), not once, %s", (outcome_).times, \
                     hf_result_name((outcome_).result), (outcome_).detail,         \
                     hf_result_name(result_));                                     \
    } while (0)

#define ASSERT_WAITS(outcome_) assert_int_equal((outcome_).times, 0)

#endif
