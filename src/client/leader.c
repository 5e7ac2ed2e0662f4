/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leaders.
 *
 * A campaign acquires the mutex, and then publishes a value under the token of the hold. The store
 * accepts the value only while that hold exists, and returns it only with that token.
 */
#include "client/leader.h"

#include <stdlib.h>
#include <string.h>

#include "client/exchange.h"
#include "client/hold.h"
#include "client/options.h"

/* ---- Proclaiming ---- */

static hf_result check_value(const void *value, size_t length) {
    if (length > HF_VALUE_MAX)
        return hf__fail(HF_INVALID, "a value of %zu bytes is longer than %d", length, HF_VALUE_MAX);
    if (!value && length)
        return hf__fail(HF_INVALID, "value is NULL, but its length is %zu", length);
    return HF_OK;
}

static hf_result check_hold(const hf_hold *hold) {
    const hf__holding holding = hf__handle_holding(&hold->handle);
    if (hf__handle_released(&hold->handle)) return hf__fail(HF_NOT_HELD, "the hold was released");
    if (holding.kind != HF_MUTEX)
        return hf__fail(HF_INVALID, "only a hold of kind HF_MUTEX can lead");
    if (holding.result == HF_OK) return HF_OK;
    return hf__fail_line(holding.result, hf__handle_lost_reason(&hold->handle));
}

/* The store does not have the hold any more: verify it at once. */
static void verify_hold(hf_client *c, const hf__handle *handle) {
    hf__core_verify(c->core, handle, hf__now());
    hf__run_once(c, NULL);
}

static hf_result publish_value(hf_client *c, const hf__handle *handle,
                               hf__leader_value *leader_value) {
    const hf__holding holding = hf__handle_holding(handle);
    leader_value->sequence = hf__core_new_acquire_id(c->core);
    hf__exchange exchange = {.op = {.verb = HF__PROCLAIM,
                                    .name = holding.name,
                                    .name_length = holding.name_length,
                                    .acquire_id = holding.acquire_id,
                                    .token = holding.token,
                                    .leader_value = leader_value}};
    char name[HF_NAME_MAX]; /* the entry may be freed before the store answers */
    memcpy(name, exchange.op.name, exchange.op.name_length);
    exchange.op.name = name;
    hf_result r = hf__exchange_run(c, &exchange, hf__command_until(c, hf__now()));
    if (r == HF_LOST) verify_hold(c, handle);
    if (r == HF_LOST) return hf__fail(r, "the lock was lost before the value could be published");
    if (r && exchange.op.outcome_unknown)
        return hf__fail(HF_UNKNOWN_OUTCOME, "the store did not answer whether the value was "
                                            "published");
    return r;
}

hf_result hf_proclaim(hf_hold *hold, const void *value, size_t length) {
    hf_result r = hf__hold_call_begin(hold);
    if (r) return r;
    hf_client *c = hold->client;
    r = check_value(value, length);
    if (!r && !c->store->has_latch_leader)
        r = hf__fail(HF_UNSUPPORTED, "this store has no leaders");
    if (!r) r = check_hold(hold);
    if (!r) {
        hf__leader_value leader_value = {.length = (uint32_t)length};
        if (length) memcpy(leader_value.value, value, length);
        r = publish_value(c, &hold->handle, &leader_value);
    }
    hf__call_end(c);
    return r;
}

/* ---- Campaigning ---- */

static hf_result check_campaign(const hf_options *options, size_t size, const void *value,
                                size_t length) {
    hf_options o;
    hf_result r = hf__options_copy("hf_options", &o, sizeof o, options, size);
    if (r) return r;
    if (o.kind != HF_MUTEX) return hf__fail(HF_INVALID, "the kind of a campaign must be HF_MUTEX");
    return check_value(value, length);
}

hf_result hf_campaign_v(hf_client *c, const char *name, const void *value, size_t length,
                        const hf_options *options, size_t size, hf_hold **hold) {
    if (!hold) return hf__fail(HF_INVALID, "hf_campaign needs a pointer for the hold");
    *hold = NULL;
    hf_result r = check_campaign(options, size, value, length);
    /* checked before waiting for a lock that could not be used to lead */
    if (!r) r = hf__call_begin_latch_leader(c);
    if (r) return r;
    hf__call_end(c);
    r = hf_acquire_v(c, name, options, size, hold);
    if (r) return r;
    r = hf_proclaim(*hold, value, length);
    if (!r) return HF_OK;
    char detail[HF__DETAIL_MAX];
    hf__text_copy(detail, sizeof detail, hf_error_detail());
    (void)hf_release(*hold);
    *hold = NULL;
    return hf__fail_line(r, detail);
}

/* ---- Querying ---- */

void hf__leader_answer_fill(hf__leader_answer *answer) {
    const hf__lock_info *s = &answer->lock_info;
    answer->info = (hf_leader_info){.token = s->token,
                                    .remaining_ms = s->remaining_ms,
                                    .value = answer->leader_value.value,
                                    .value_length = answer->leader_value.length,
                                    .pid = s->identity.pid,
                                    .client = s->identity.client,
                                    .host = s->identity.host,
                                    .program = s->identity.program,
                                    .label = s->identity.label};
}

static hf_result get_leader(hf_client *c, const char *name, size_t length,
                            hf__leader_answer *answer) {
    hf__time until = hf__command_until(c, hf__now());
    hf__exchange exchange = {.op = {.verb = HF__LEADER,
                                    .name = name,
                                    .name_length = length,
                                    .lock_info = &answer->lock_info,
                                    .leader_value = &answer->leader_value}};
    hf_result r = hf__exchange_run(c, &exchange, until);
    if (r == HF_NOT_HELD) return hf__fail(r, "there is no leader");
    if (r) return r;
    exchange.op.verb = HF__CLIENT_INFO;
    return hf__exchange_run(c, &exchange, until);
}

hf_result hf_leader(hf_client *c, const char *name, hf_leader_info **info) {
    size_t length;
    if (!info) return hf__fail(HF_INVALID, "hf_leader needs a pointer for the info");
    *info = NULL;
    hf_result r = hf__name_check(name, &length);
    if (!r) r = hf__call_begin_latch_leader(c);
    if (r) return r;
    hf__leader_answer *answer = calloc(1, sizeof *answer);
    if (answer) r = get_leader(c, name, length, answer);
    hf__call_end(c);
    if (!answer) return hf__fail(HF_NOMEM, "out of memory");
    if (r) {
        free(answer);
        return r;
    }
    hf__leader_answer_fill(answer);
    *info = &answer->info;
    return HF_OK;
}

void hf_leader_free(hf_leader_info *info) {
    free(info);
}
