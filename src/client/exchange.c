/* SPDX-License-Identifier: Apache-2.0 */
/* Exchanges that belong to no entry: see exchange.h. */
#include "client/exchange.h"

#include <stdlib.h>

static bool belongs_to_entry(hf__verb verb) {
    return verb == HF__ACQUIRE || verb == HF__RENEW || verb == HF__RELEASE || verb == HF__EXPORT;
}

bool hf__exchange_complete(hf_client *c, hf__op *op, hf__time now) {
    if (belongs_to_entry(op->verb)) return false;
    hf__exchange *exchange = (hf__exchange *)((char *)op - offsetof(hf__exchange, op));
    if (exchange->abandoned) {
        free(op->detail);
        free(exchange);
    } else if (exchange->on_answer) {
        exchange->on_answer(exchange, now);
    } else {
        hf_result r = op->result == HF_UNREACHABLE && c->closed ? HF_CLOSED : op->result;
        hf__call_finish(c->core, &exchange->call, r, op->detail);
    }
    return true;
}

/* op.outcome_unknown covers all tries. */
hf_result hf__exchange_run(hf_client *c, hf__exchange *exchange, hf__time until) {
    for (bool unknown = false;;) {
        hf_result r = c->store->up ? HF_OK : hf__await_up(c, until);
        if (r) return r;
        exchange->call = (hf__call){0};
        exchange->op.detail = NULL;
        exchange->op.not_after = until;
        c->store->table->submit(c->store, &exchange->op, hf__now());
        (void)hf__await(c, &exchange->call, HF__NEVER, NULL);
        unknown = exchange->op.outcome_unknown |= unknown;
        bool retry = exchange->call.result == HF_UNREACHABLE && !c->store->up &&
                     (!exchange->op.outcome_unknown || exchange->op.verb != HF__BREAK);
        r = hf__call_result(&exchange->call);
        if (!retry || hf__now() >= until) return r;
    }
}
