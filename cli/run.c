/* holdfast run: take the lock, run the command or wait, give the lock back. */
#include "run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "args.h"
#include "base/time.h"
#include "exits.h"
#include "hold.h"
#include "holdfast.h"
#include "say.h"
#include "show.h"
#include "signals.h"
#include "span.h"
#include "store.h"
#include "supervisor.h"

#define GRACE_MS      5000
#define VARIABLE_TEXT 32
#define MANY_TEXT     (HF_NAME_MAX + 32)

typedef struct run {
    run_args args;
    store store;
    hf_client *client;
    hf_hold *hold;
    int64_t grace_ms;
    const char *name; /* for messages: NAME, and how many more */
    char many[MANY_TEXT];
} run;

/* ---- Before ---- */

static int check_grace(run *r) {
    int64_t lease_ms = r->args.lease_ms ? r->args.lease_ms : r->store.lease_ms;
    char grace[SPAN_TEXT], lease[SPAN_TEXT];
    r->grace_ms = lease_ms / 3 < GRACE_MS ? lease_ms / 3 : GRACE_MS;
    if (r->args.grace_ms < 0) return 0;
    r->grace_ms = r->args.grace_ms;
    if (r->grace_ms <= lease_ms / 2) return 0;
    return usage_error("run", "--grace %s is more than half of the lease, %s",
                       span_text(r->grace_ms, grace), span_text(lease_ms, lease));
}

static void call_it(run *r) {
    int more = r->args.name_count - 1;
    r->name = r->args.names[0];
    if (!more) return;
    snprintf(r->many, sizeof r->many, "%s (with %d more)", r->name, more);
    r->name = r->many;
}

/* ---- Taking the lock ---- */

static int many_not_acquired(const run *r, hf_result result) {
    return fail(r->args.conflict_code,
                result == HF_BUSY ? "%s: one of them is held by another: -w TIME waits for it, "
                                    "holdfast status shows by whom, for each NAME"
                                  : "%s: one of them was held by others for all of the wait: "
                                    "holdfast status shows by whom, for each NAME",
                r->name);
}

static int not_acquired(const run *r, hf_result result) {
    const char *name = r->name;
    if (r->args.name_count > 1 && (result == HF_BUSY || result == HF_TIMEOUT))
        return many_not_acquired(r, result);
    char look[SHOW_TEXT];
    show_command(look, sizeof look, "status", &r->store, name);
    if (result == HF_BUSY)
        return fail(r->args.conflict_code,
                    "%s is held by another, or others wait for it: -w TIME waits, too; who they "
                    "are: %s",
                    name, look);
    if (result == HF_TIMEOUT)
        return fail(r->args.conflict_code, "%s was held by others for all of the wait; by whom: %s",
                    name, look);
    return fail(exit_of(result), "cannot lock %s: %s", name, hf_error_detail());
}

/* The wait was ended by a signal, and so are we; what was granted in that moment is given back. Should
   that take long, a second signal ends it. */
static _Noreturn void die_waiting(run *r, int sig) {
    signals_restore();
    hf_close(r->client);
    signals_die(sig, OURSELVES);
}

/* All of them as one kind, together. */
static hf_result take(run *r, hf_options *options) {
    const run_args *a = &r->args;
    hf_request requests[HF_NAMES_MAX];
    if (a->name_count == 1) {
        options->kind = a->kind;
        options->permits = a->permits;
        options->capacity = a->capacity;
        return hf_acquire(r->client, a->names[0], options, &r->hold);
    }
    for (int i = 0; i < a->name_count; i++)
        requests[i] = (hf_request){
            .name = a->names[i], .kind = a->kind, .permits = a->permits, .capacity = a->capacity};
    return hf_acquire_all(r->client, requests, (size_t)a->name_count, options, &r->hold);
}

/* Sets r->hold, or returns the exit code. */
static int acquire(run *r) {
    hf_cancel *cancel = hf_cancel_new();
    if (!cancel) return fail(EXIT_SYSTEM, "out of memory or descriptors");
    hf__time began = hf__now();
    hf_options options = {
        .wait_ms = r->args.wait_ms, .lease_ms = r->args.lease_ms, .cancel = cancel};
    signals_cancel(cancel);
    hf_result result = take(r, &options);
    int caught = signals_block();
    hf_cancel_free(cancel);
    if (caught) die_waiting(r, caught);
    if (result) return not_acquired(r, result);
    char took[SPAN_TEXT];
    say_more("%s is ours after %s, token %" PRIu64, r->args.names[0],
             span_text((hf__now() - began) / HF__MS, took), hf_fence(r->hold));
    for (int i = 1; i < r->args.name_count; i++)
        say_more("%s too, token %" PRIu64, r->args.names[i], hf_fence_of(r->hold, (size_t)i));
    return 0;
}

/* ---- Holding it ---- */

static void variable(char out[VARIABLE_TEXT], const char *what, int i) {
    if (i)
        snprintf(out, VARIABLE_TEXT, "HOLDFAST_%s_%d", what, i + 1);
    else
        snprintf(out, VARIABLE_TEXT, "HOLDFAST_%s", what);
}

static bool set_name(const run *r, int i) {
    char name[VARIABLE_TEXT], fence[VARIABLE_TEXT], token[24];
    variable(name, "NAME", i);
    variable(fence, "FENCE", i);
    snprintf(token, sizeof token, "%" PRIu64, hf_fence_of(r->hold, (size_t)i));
    return setenv(name, r->args.names[i], 1) == 0 && setenv(fence, token, 1) == 0;
}

/* Those of a wrapper around us, which has more names, would pass for ours. */
static void unset_name(int i) {
    char name[VARIABLE_TEXT], fence[VARIABLE_TEXT];
    variable(name, "NAME", i);
    variable(fence, "FENCE", i);
    unsetenv(name);
    unsetenv(fence);
}

static bool set_environment(const run *r) {
    bool set = setenv("HOLDFAST_STORE", r->store.shown, 1) == 0;
    for (int i = 0; i < HF_NAMES_MAX && set; i++) {
        if (i < r->args.name_count)
            set = set_name(r, i);
        else
            unset_name(i);
    }
    return set;
}

/* ---- Giving it back ---- */

/* A lock that was given up is not ours to release; and its store, which may be away, is not waited for. */
static int give_up(run *r) {
    hf_unref(r->hold);
    return EXIT_LOST;
}

static int release(run *r, int code) {
    hf_result result = hf_release(r->hold);
    if (result == HF_OK) {
        hf_close(r->client);
        return code;
    }
    if (result == HF_LOST)
        return fail(EXIT_LOST, "%s was lost while it was held: %s", r->name, hf_error_detail());
    say("cannot release %s, its lease will end it: %s", r->name, hf_error_detail());
    return code;
}

static int run_command(run *r) {
    supervisor s;
    if (!set_environment(r)) return release(r, fail(EXIT_SYSTEM, "out of memory"));
    int code = supervisor_run(&s, r->hold, r->name, r->args.command, r->grace_ms);
    code = s.ending ? give_up(r) : release(r, code);
    supervisor_fini(&s);
    if (s.interrupted_by && !s.ending) signals_die(s.interrupted_by, OUR_GROUP);
    return code;
}

static int hold_only(run *r) {
    int sig = 0, code = hold_until_signalled(r->hold, r->name, &sig);
    code = code == EXIT_LOST ? give_up(r) : release(r, code);
    if (sig) signals_die(sig, OURSELVES);
    return code;
}

static int run_opened(run *r) {
    int code = acquire(r);
    if (r->hold) return r->args.command ? run_command(r) : hold_only(r);
    hf_close(r->client);
    return code;
}

int run_main(int argc, char **argv) {
    run r = {0};
    int code = run_args_parse(&r.args, argc, argv);
    if (code != ARGS_GO_ON) return code;
    call_it(&r);
    signals_begin();
    code = store_choose(&r.store, r.args.store);
    if (!code) code = check_grace(&r);
    if (!code) code = store_open(&r.store, &r.client);
    if (!code) code = run_opened(&r);
    store_fini(&r.store);
    return code;
}
