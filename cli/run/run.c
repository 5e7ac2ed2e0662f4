/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast run: acquire the lock, run the command or wait for a signal, release the lock. */
#include "run/run.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/time.h"
#include "common/duration.h"
#include "common/exit_codes.h"
#include "common/message.h"
#include "common/options.h"
#include "common/show.h"
#include "common/signals.h"
#include "common/store.h"
#include "holdfast.h"
#include "run/command_label.h"
#include "run/hold_loop.h"
#include "run/metrics_file.h"
#include "run/notify.h"
#include "run/run_args.h"
#include "run/supervisor.h"
#include "run/wait_progress.h"

#define GRACE_MS      5000
#define VARIABLE_TEXT 32
#define MANY_TEXT     (HF_NAME_MAX + 32)

typedef struct run_state {
    run_args args;
    store store;
    hf_client *client;
    hf_hold *hold;
    int64_t grace_ms;
    const char *name; /* for messages: NAME, and the number of other names */
    char many[MANY_TEXT], label[LABEL_TEXT];
    notifier notifier;
    hf__time held_since;
} run_state;

/* ---- Preparation ---- */

static int check_grace(run_state *r) {
    int64_t lease_ms = r->args.lease_ms ? r->args.lease_ms : r->store.lease_ms;
    char grace[DURATION_TEXT], lease[DURATION_TEXT];
    r->grace_ms = lease_ms / 3 < GRACE_MS ? lease_ms / 3 : GRACE_MS;
    if (r->args.grace_ms < 0) return 0;
    r->grace_ms = r->args.grace_ms;
    if (r->grace_ms <= lease_ms / 2) return 0;
    return usage_error("run", "--grace %s is more than half of the lease (%s); change one of them",
                       duration_text(r->grace_ms, grace), duration_text(lease_ms, lease));
}

static void set_display_name(run_state *r) {
    int more = r->args.name_count - 1;
    r->name = r->args.names[0];
    if (!more) return;
    snprintf(r->many, sizeof r->many, "%s (with %d more)", r->name, more);
    r->name = r->many;
}

/* The label is the first words of the command, unless the URL or --label sets one. */
static void set_label(run_state *r) {
    const run_args *a = &r->args;
    if (a->label) {
        store_drop_label(&r->store);
        r->store.label = a->label;
    } else if (a->command) {
        if (a->command == a->shell)
            label_from_shell(r->label, a->shell[2]);
        else
            label_from_command(r->label, a->command);
        r->store.label = r->label;
    }
}

static void set_notifier(run_state *r) {
    const run_args *a = &r->args;
    r->notifier = (notifier){.events = {.fd = a->json, .name = a->names[0]},
                             .on_wait = a->on_wait,
                             .on_acquire = a->on_acquire,
                             .on_lost = a->lost.hook};
}

/* ---- Environment of hooks and of the command ---- */

static void format_variable(char out[VARIABLE_TEXT], const char *what, int i) {
    if (i)
        snprintf(out, VARIABLE_TEXT, "HOLDFAST_%s_%d", what, i + 1);
    else
        snprintf(out, VARIABLE_TEXT, "HOLDFAST_%s", what);
}

/* Removes the variables of an outer `holdfast run`, which may have had more names. */
static bool set_names(const run_state *r) {
    char name[VARIABLE_TEXT], fence[VARIABLE_TEXT];
    bool set = setenv("HOLDFAST_STORE", r->store.shown, 1) == 0;
    for (int i = 0; i < HF_NAMES_MAX; i++) {
        format_variable(name, "NAME", i);
        format_variable(fence, "FENCE", i);
        unsetenv(fence);
        if (i >= r->args.name_count)
            unsetenv(name);
        else if (setenv(name, r->args.names[i], 1) != 0)
            set = false;
    }
    return set;
}

static bool set_fences(const run_state *r) {
    char fence[VARIABLE_TEXT], token[24];
    for (int i = 0; i < r->args.name_count; i++) {
        format_variable(fence, "FENCE", i);
        snprintf(token, sizeof token, "%" PRIu64, hf_fence_of(r->hold, (size_t)i));
        if (setenv(fence, token, 1) != 0) return false;
    }
    return true;
}

/* ---- Acquiring ---- */

static int fail_many_not_acquired(const run_state *r, hf_result result) {
    return fail(r->args.conflict_code,
                result == HF_BUSY ? "%s: one of the locks is held by another; use -w TIME to wait "
                                    "for it, or holdfast status NAME to see its holder"
                                  : "%s: the locks were not all free in time; use holdfast status "
                                    "NAME to see the holder of each",
                r->name);
}

static int fail_not_acquired(const run_state *r, hf_result result) {
    const char *name = r->name;
    if (r->args.name_count > 1 && (result == HF_BUSY || result == HF_TIMEOUT))
        return fail_many_not_acquired(r, result);
    char status[SHOW_TEXT];
    show_command(status, sizeof status, "status", &r->store, name);
    if (result == HF_BUSY)
        return fail(
            r->args.conflict_code,
            "%s is held by another, or others wait for it; use -w TIME to wait; to see them, "
            "run: %s",
            name, status);
    if (result == HF_TIMEOUT)
        return fail(r->args.conflict_code, "%s was not free in time; to see who holds it, run: %s",
                    name, status);
    return fail(exit_code_of(result), "cannot lock %s: %s", *name ? name : "''", hf_error_detail());
}

/* A signal ended the wait, and must end the process. hf_close gives back a lock that was granted at
   that moment. If this takes long, a second signal ends the process at once. */
static _Noreturn void die_while_waiting(run_state *r, int sig) {
    events_failed(&r->notifier.events, HF_CANCELLED, EXIT_SIGNAL + sig, "a signal ended the wait");
    signals_restore();
    hooks_abandon(&r->notifier.hooks);
    metrics_file_write(r->client, r->args.metrics);
    hf_close(r->client);
    signals_die(sig, OURSELVES);
}

/* Acquires all names in the same mode. */
static hf_result acquire_names(run_state *r, hf_options *options) {
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

/* If waits must be reported, the first try does not wait, and its result tells whether a wait is
   needed. A store that cannot be reached may come back in time, as in any wait. */
static hf_result acquire_and_notify(run_state *r, hf_options *options, hf__time began) {
    wait_progress w = {.client = r->client,
                       .names = r->args.names,
                       .name_count = r->args.name_count,
                       .began = began,
                       .stop = -1};
    int64_t wait_ms = options->wait_ms;
    if (!wait_ms || !notify_wants_waits(&r->notifier)) return acquire_names(r, options);
    options->wait_ms = 0;
    hf_result result = acquire_names(r, options);
    if (result != HF_BUSY && result != HF_UNREACHABLE && result != HF_UNKNOWN_OUTCOME)
        return result;
    if (result == HF_BUSY) notify_waiting(&r->notifier, &w);
    int64_t gone = (hf__now() - began) / HF__MS;
    if (result == HF_BUSY && wait_ms > 0 && gone >= wait_ms) return HF_TIMEOUT;
    options->wait_ms = wait_ms < 0 ? wait_ms : gone < wait_ms ? wait_ms - gone : 1;
    wait_progress_start(&w);
    result = acquire_names(r, options);
    wait_progress_stop(&w);
    return result;
}

static void on_acquired(run_state *r, hf__time began) {
    char took[DURATION_TEXT];
    r->held_since = hf__now();
    int64_t waited_ms = (r->held_since - began) / HF__MS;
    print_verbose("acquired %s after %s, token %" PRIu64, r->args.names[0],
                  duration_text(waited_ms, took), hf_fence(r->hold));
    for (int i = 1; i < r->args.name_count; i++)
        print_verbose("acquired %s too, token %" PRIu64, r->args.names[i],
                      hf_fence_of(r->hold, (size_t)i));
    notify_acquired(&r->notifier, r->hold, r->args.name_count, waited_ms);
    metrics_file_write(r->client, r->args.metrics);
}

/* Sets r->hold, returns an exit code, or both. */
static int acquire_lock(run_state *r) {
    hf_cancel *cancel = hf_cancel_new();
    if (!cancel) return fail(EXIT_SYSTEM, "out of memory or descriptors");
    hf__time began = hf__now();
    hf_options options = {.wait_ms = r->args.wait_ms,
                          .lease_ms = r->args.lease_ms,
                          .max_hold_ms = r->args.max_hold_ms,
                          .cancel = cancel};
    signals_cancel(cancel);
    hf_result result = acquire_and_notify(r, &options, began);
    int caught = signals_block();
    hf_cancel_free(cancel);
    if (caught) die_while_waiting(r, caught);
    if (!result && !set_fences(r)) return fail(EXIT_SYSTEM, "out of memory");
    if (!result) {
        on_acquired(r, began);
        return 0;
    }
    int code = fail_not_acquired(r, result);
    events_failed(&r->notifier.events, result, code, hf_error_detail());
    return code;
}

/* ---- Releasing ---- */

static int release_lock(run_state *r, int code) {
    hf_result result = hf_release(r->hold);
    events_released(&r->notifier.events, result);
    metrics_file_write(r->client, r->args.metrics);
    if (result == HF_OK) {
        hf_close(r->client);
        return code;
    }
    if (result == HF_LOST)
        return fail(EXIT_LOST, "%s was lost while it was held: %s", r->name, hf_error_detail());
    if (result == HF_UNKNOWN_OUTCOME)
        print_message(
            "it is unknown if %s was released; at the latest, it is free when its lease ends: %s",
            r->name, hf_error_detail());
    else
        print_message("cannot release %s; it is free when its lease ends: %s", r->name,
                      hf_error_detail());
    return code;
}

/* Does not release the lock: the lock is lost, and the store may not answer. */
static int abandon_lock(run_state *r, int code) {
    metrics_file_write(r->client, r->args.metrics);
    hf_unref(r->hold);
    return code;
}

/* ---- Holding ---- */

static void on_start(void *arg, pid_t pid) {
    run_state *r = arg;
    events_started(&r->notifier.events, pid);
}

static void on_lost(void *arg, const char *why) {
    run_state *r = arg;
    notify_lost(&r->notifier, why);
}

/* For short jobs on machines whose clocks differ: a machine that starts late must find the lock
   held. */
static bool keep_min_hold(run_state *r, const supervisor *s) {
    hf__time until = hf__after_ms(r->held_since, r->args.min_hold_ms);
    if (!s->ran || s->interrupted_by || hf__now() >= until) return true;
    char left[DURATION_TEXT];
    print_verbose("the command has ended; %s is held for another %s because of --min-hold", r->name,
                  duration_text((until - hf__now()) / HF__MS, left));
    return hold_until(r->hold, r->name, until);
}

static int end_hold(run_state *r, const supervisor *s, int code) {
    bool held = s->max_over && hf_held(r->hold); /* renewals succeeded, so the store answers */
    if (s->ending) return held ? release_lock(r, code) : abandon_lock(r, code);
    if (s->lost) return abandon_lock(r, code); /* the command continued without the lock */
    return keep_min_hold(r, s) ? release_lock(r, code) : abandon_lock(r, code);
}

static int run_under_lock(run_state *r) {
    supervisor s;
    supervisor_options options = {
        .grace_ms = r->grace_ms,
        .lost_signal = r->args.lost.signal ? r->args.lost.signal : SIGTERM,
        .continues = r->args.lost.continues,
        .max_until =
            hf__after_ms(r->held_since, r->args.max_hold_ms ? r->args.max_hold_ms : HF_FOREVER),
        .on_start = on_start,
        .on_lost = on_lost,
        .arg = r};
    int code = supervisor_run(&s, r->hold, r->name, r->args.command, &options);
    if (s.ran)
        events_ended(&r->notifier.events, code, child_killed_by(&s.child));
    else
        events_failed(&r->notifier.events, HF_OK, code, "the command could not be run");
    code = end_hold(r, &s, code);
    supervisor_fini(&s);
    if (s.interrupted_by && !s.ending) {
        hooks_abandon(&r->notifier.hooks);
        signals_die(s.interrupted_by, OUR_GROUP);
    }
    return code;
}

static int hold_without_command(run_state *r) {
    int sig = 0, code = hold_until_signalled(r->hold, r->name, &sig);
    if (code == EXIT_LOST) {
        const char *why = hf_why_lost(r->hold);
        notify_lost(&r->notifier, why ? why : "its deadline has passed");
    }
    code = code == EXIT_LOST ? abandon_lock(r, code) : release_lock(r, code);
    if (sig) {
        hooks_abandon(&r->notifier.hooks);
        signals_die(sig, OURSELVES);
    }
    return code;
}

static int run_with_store(run_state *r) {
    int code = acquire_lock(r);
    if (code && r->hold) return release_lock(r, code);
    if (r->hold) return r->args.command ? run_under_lock(r) : hold_without_command(r);
    metrics_file_write(r->client, r->args.metrics);
    hf_close(r->client);
    return code;
}

static int open_run_store(run_state *r) {
    set_label(r);
    if (!set_names(r)) return fail(EXIT_SYSTEM, "out of memory");
    int code = store_open(&r->store, &r->client);
    if (code) events_failed(&r->notifier.events, HF_OK, code, hf_error_detail());
    return code;
}

int run_main(int argc, char **argv) {
    run_state r = {0};
    int code = run_args_parse(&r.args, argc, argv);
    if (code != ARGS_CONTINUE) return code;
    set_display_name(&r);
    set_notifier(&r);
    signals_begin();
    code = store_choose(&r.store, r.args.store);
    if (!code) code = check_grace(&r);
    if (!code) code = open_run_store(&r);
    if (!code) code = run_with_store(&r);
    hooks_end(&r.notifier.hooks);
    store_fini(&r.store);
    return code;
}
