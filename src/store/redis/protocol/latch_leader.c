/* SPDX-License-Identifier: Apache-2.0 */
#include "store/redis/protocol/latch_leader.h"

#include "store/redis/protocol/command.h"

/* When to ask again. A client that is registered for a message polls rarely, in case the message is
   lost. Other clients poll at short intervals at first, then ten times a second. */
#define LATCH_NOTIFIED_MS  5000
#define LEADER_NOTIFIED_MS 1000
#define RETRY_FIRST_MS     10
#define RETRY_DOUBLINGS    3
#define RETRY_MOST_MS      100

const hf__script *hf__latch_leader_script(hf__verb verb) {
    switch (verb) {
    case HF__LATCH_SET: return &hf__script_latch_set;
    case HF__LATCH_COUNT_DOWN: return &hf__script_latch_count_down;
    case HF__LATCH_GET: return &hf__script_latch_get;
    case HF__PROCLAIM: return &hf__script_proclaim;
    case HF__LEADER: return &hf__script_leader;
    default: return NULL;
    }
}

static bool only_reads(const hf__op *op) {
    return op->verb == HF__LATCH_GET || op->verb == HF__LEADER;
}

/* ---- Requests ---- */

int hf__latch_leader_arguments(const hf__op *op) {
    if (only_reads(op)) return op->enqueue ? 2 : 0;
    return 4;
}

static void encode_proclaim(hf__buffer *out, const char *client, const hf__op *op) {
    hf__command_id(out, client, ":", op->acquire_id);
    hf__command_number(out, (int64_t)op->token);
    hf__command_number(out, (int64_t)op->leader_value->sequence);
    hf__command_bytes(out, op->leader_value->value, op->leader_value->length);
}

void hf__latch_leader_keys(hf__buffer *out, const char *prefix, const hf__op *op) {
    bool leads = op->verb == HF__PROCLAIM || op->verb == HF__LEADER;
    hf__command_key(out, prefix, op->name, op->name_length, leads ? "" : ":l");
    hf__command_key(out, prefix, op->name, op->name_length, leads ? ":w" : ":lw");
}

void hf__latch_leader_encode(hf__buffer *out, const char *client, const hf__op *op,
                             int64_t not_after) {
    if (op->verb == HF__PROCLAIM) encode_proclaim(out, client, op);
    if (op->verb == HF__PROCLAIM || (only_reads(op) && !op->enqueue)) return;
    hf__command_string(out, client);
    hf__command_number(out, (int64_t)op->acquire_id);
    if (only_reads(op)) return;
    hf__command_number(out, not_after);
    hf__command_number(out, op->latch->count);
}

/* ---- Answers ---- */

static int64_t choose_retry_ms(const hf__op *op, bool notified, int64_t notified_ms) {
    if (notified) return notified_ms;
    return op->attempt < RETRY_DOUBLINGS ? (int64_t)RETRY_FIRST_MS << op->attempt : RETRY_MOST_MS;
}

static bool read_latch(const hf__reply *r, hf__op *op, bool subscribed) {
    int64_t left, round, done, notified = 0;
    if (!hf__reply_number(r, 2, &left) || !hf__reply_number(r, 3, &round) ||
        !hf__reply_number(r, 4, &done) || left < 0 || left > HF_LATCH_MAX || round <= 0 ||
        done < 0 || done > round)
        return false;
    if (op->verb == HF__LATCH_GET && !hf__reply_number(r, 5, &notified)) return false;
    op->latch->left = (uint32_t)left;
    op->latch->round = (uint64_t)round;
    op->latch->last_done = (uint64_t)done;
    op->queued = notified != 0;
    op->retry_ms = choose_retry_ms(op, op->queued && subscribed, LATCH_NOTIFIED_MS);
    return true;
}

static bool read_leader_value(const hf__reply *r, hf__op *op) {
    int64_t token, sequence;
    const char *id = hf__reply_text(r, 4), *value = hf__reply_text(r, 7);
    if (!id || !value || r->item[7].length > HF_VALUE_MAX || !hf__reply_number(r, 5, &token) ||
        !hf__reply_number(r, 6, &sequence) || token <= 0 || sequence <= 0)
        return false;
    op->lock_info->token = (uint64_t)token;
    hf__text_sanitize(op->lock_info->identity.client, sizeof op->lock_info->identity.client, id,
                      strcspn(id, ":"));
    op->leader_value->sequence = (uint64_t)sequence;
    op->leader_value->length = (uint32_t)r->item[7].length;
    memcpy(op->leader_value->value, value, r->item[7].length + 1);
    return true;
}

/* The client also polls again when the leader's hold expires. */
static bool read_leader(const hf__reply *r, hf__op *op, bool yes, bool subscribed) {
    int64_t notified, ms;
    if (!hf__reply_number(r, 2, &notified) || !hf__reply_number(r, 3, &ms)) return false;
    if (yes && !read_leader_value(r, op)) return false;
    op->lock_info->held = yes;
    op->lock_info->remaining_ms = ms > 0 ? ms : 0;
    op->queued = notified != 0;
    op->retry_ms = choose_retry_ms(op, op->queued && subscribed, LEADER_NOTIFIED_MS);
    if (ms >= 0 && ms < op->retry_ms) op->retry_ms = ms + 1;
    return true;
}

bool hf__latch_leader_answer(const hf__reply *r, hf__op *op, bool yes, bool subscribed) {
    op->queued = false;
    op->result = yes ? HF_OK : op->verb == HF__PROCLAIM ? HF_LOST : HF_NOT_HELD;
    if (op->verb == HF__PROCLAIM) return true;
    if (op->verb == HF__LEADER) return read_leader(r, op, yes, subscribed);
    if (!yes) return op->verb != HF__LATCH_SET;
    return read_latch(r, op, subscribed);
}
