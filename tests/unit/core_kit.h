/*
 * The pure core on a stage: calls whose outcome is recorded, and a store that does nothing but keep
 * what it was asked, until the test answers. Time is what the test says it is.
 */
#ifndef HF_UNIT_CORE_KIT_H
#define HF_UNIT_CORE_KIT_H

#include "base/error.h"
#include "core/core.h"

/* ---- Calls ---- */

typedef struct kit_outcome {
    int times; /* how often it was finished: once, if all is well */
    hf__time at;
    hf_result result;
    char detail[HF__DETAIL_MAX];
} kit_outcome;

typedef struct kit_call {
    hf__call call;
    kit_outcome outcome;
} kit_call;

/* A call that wants a lock; what is not set is as in hf_options. */
typedef struct kit_wait {
    hf__wait wait;
    kit_outcome outcome;
    hf_hold *hold; /* once granted */
} kit_wait;

kit_call *kit_call_init(kit_call *call);

/* Allocates what a grant needs, and puts its times in. wait_ms 0 tries once. */
void kit_wait_init(kit_wait *w, uint64_t owner, int64_t wait_ms, int64_t lease_ms, hf__time now);
void kit_wait_fini(kit_wait *w); /* without the hold, which is the test's if it was granted */

/* Record what the core has finished; fails if a call is finished twice. */
void kit_collect(hf__core *core, hf__time now);

/* Take what is to be told of as lost: how many. */
int kit_take_lost(hf__core *core);

void kit_hold_free(hf_hold *hold);

/* The entry of a name, or NULL. */
hf__entry *kit_entry(const hf__core *core, const char *name);

/* ---- The stage ---- */

enum { STAGE_OPS = 64, STAGE_WAITS = 64 };

typedef struct stage {
    hf__store store;
    hf__core core;
    hf__time now;
    hf__op *asked[STAGE_OPS]; /* submitted and not answered, the oldest first */
    size_t count;
    kit_wait *waits[STAGE_WAITS]; /* given up when their time is up */
    size_t waiting;
    int lost;
    hf__time lost_at;
} stage;

#define STAGE_LEASE_MS   30000
#define STAGE_COMMAND_MS 5000
#define STAGE_OUTAGE_MS  10000

/* cmocka's setup and teardown: *state is a stage, connected. */
int stage_set_up(void **state);
int stage_tear_down(void **state);

/* Begin to acquire "name" (or another). */
void stage_acquire(stage *s, kit_wait *w, uint64_t owner, int64_t wait_ms, int64_t lease_ms);
void stage_acquire_named(stage *s, kit_wait *w, const char *name, uint64_t owner, int64_t wait_ms,
                         int64_t lease_ms);

/* Begin one that was initialised by hand. */
void stage_begin(stage *s, kit_wait *w, const char *name);

/* The only operation under way, which must be this verb. */
hf__op *stage_asked(stage *s, hf__verb verb);
void stage_nothing_asked(const stage *s);

/* Answer the oldest operation, which must be this verb. */
void stage_answer(stage *s, hf__verb verb, hf_result result);
void stage_answer_maybe(stage *s, hf__verb verb, hf_result result); /* failed, maybe done */
void stage_answer_busy(stage *s, int64_t retry_ms);

/* Acquire and grant: now held, under the token 7 if it is the first. */
hf_hold *stage_take(stage *s, kit_wait *w, const char *name, int64_t lease_ms);

/* Answers whatever is asked on the way; NULL: nothing is. */
typedef void stage_answerer(stage *s);

/* Let time go by, event by event. */
void stage_run(stage *s, hf__time until, stage_answerer *answerer);

/* Until something is asked; fails if that is not before `until`. */
hf__op *stage_run_to_ask(stage *s, hf__verb verb, hf__time until);

/* The connection breaks: what is under way may have been done. And comes back. */
void stage_link_down(stage *s);
void stage_link_up(stage *s);

void stage_release(stage *s, hf_hold *hold, kit_call *call);
void stage_extend(stage *s, hf_hold *hold, int64_t lease_ms, kit_call *call);
void stage_give_up(stage *s, kit_wait *w, hf_result why);

/* After anything that was done to the core directly. */
void stage_settle(stage *s);

#define ASSERT_FINISHED(outcome_, result_)                                         \
    do {                                                                           \
        if ((outcome_).times != 1 || (outcome_).result != (result_))               \
            fail_msg("finished %d times, %s (%s), not once, %s", (outcome_).times, \
                     hf_result_name((outcome_).result), (outcome_).detail,         \
                     hf_result_name(result_));                                     \
    } while (0)

#define ASSERT_WAITS(outcome_) assert_int_equal((outcome_).times, 0)

#endif
