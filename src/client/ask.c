#include "client/ask.h"

#include <stdlib.h>

static bool is_entrys(hf__verb verb) {
    return verb == HF__ACQUIRE || verb == HF__RENEW || verb == HF__RELEASE || verb == HF__EXPORT;
}

bool hf__ask_complete(hf__core *core, hf__op *op, hf__time now) {
    if (is_entrys(op->verb)) return false;
    hf__ask *ask = (hf__ask *)((char *)op - offsetof(hf__ask, op));
    if (ask->abandoned) {
        free(op->detail);
        free(ask);
    } else if (ask->told) {
        ask->told(ask, now);
    } else {
        hf_result r = op->result == HF_UNREACHABLE && core->closing ? HF_CLOSED : op->result;
        hf__call_finish(core, &ask->call, r, op->detail);
    }
    return true;
}

/* op.maybe says of all times that it was sent. */
hf_result hf__ask_exchange(hf_client *c, hf__ask *ask, hf__time until) {
    for (bool maybe = false;;) {
        hf_result r = c->store->up ? HF_OK : hf__await_up(c, until);
        if (r) return r;
        ask->call = (hf__call){0};
        ask->op.detail = NULL;
        ask->op.not_after = until;
        c->store->table->submit(c->store, &ask->op, hf__now());
        (void)hf__await(c, &ask->call, HF__NEVER, NULL);
        maybe = ask->op.outcome_unknown |= maybe;
        bool again = ask->call.result == HF_UNREACHABLE && !c->store->up &&
                     (!ask->op.outcome_unknown || ask->op.verb != HF__BREAK);
        r = hf__call_result(&ask->call);
        if (!again || hf__now() >= until) return r;
    }
}
