/* SPDX-License-Identifier: Apache-2.0 */
/* hf_list: which names are in use. */
#include "conformance.h"

#include <sys/wait.h>
#include <unistd.h>

#include "cf_redis.h"

enum { SEEN_MAX = 1024 };

typedef struct listed_names {
    uint32_t count;
    uint32_t stop_at; /* 0: never */
    struct {
        char name[HF_NAME_MAX + 1];
        hf_info info; /* its strings are no longer valid */
        char program[64], label[64];
    } item[SEEN_MAX];
} listed_names;

static int32_t note_name(const char *name, const hf_info *info, void *arg) {
    listed_names *s = arg;
    for (uint32_t i = 0; i < s->count; i++)
        if (!strcmp(s->item[i].name, name)) return 0; /* a name may be listed twice */
    if (s->count == SEEN_MAX) return 1;
    snprintf(s->item[s->count].name, sizeof s->item[0].name, "%s", name);
    snprintf(s->item[s->count].program, sizeof s->item[0].program, "%s", info->program);
    snprintf(s->item[s->count].label, sizeof s->item[0].label, "%s", info->label);
    s->item[s->count].info = *info;
    return ++s->count == s->stop_at;
}

/* The names of this case begin with its name. */
static listed_names *list_names(cf *f, const char *rest) {
    listed_names *s = cf_new(f, sizeof *s);
    CF_IS(HF_OK, hf_list(f->b, cf_name(f, rest), note_name, s));
    return s;
}

static int find_listed(const listed_names *s, const char *name) {
    for (uint32_t i = 0; i < s->count; i++)
        if (!strcmp(s->item[i].name, name)) return (int)i;
    return -1;
}

static void B33_names_in_use_are_listed(cf *f) {
    assert_int_equal(list_names(f, "*")->count, 0);
    hf_hold *one = CF_TAKE(f->a, cf_name(f, "-1"), NULL);
    hf_hold *two = CF_TAKE(f->b, cf_name(f, "-2"), NULL);
    CF_FREE(CF_TAKE(f->a, cf_name(f, "-3"), NULL));
    listed_names *s = list_names(f, "*");
    assert_int_equal(s->count, 2);
    int at = find_listed(s, cf_name(f, "-1"));
    assert_true(at >= 0 && find_listed(s, cf_name(f, "-2")) >= 0);
    const hf_info *info = &s->item[at].info;
    assert_int_equal(info->held, 1);
    assert_int_equal(info->kind, HF_MUTEX);
    assert_int_equal(info->pid, getpid());
    assert_true(info->token == hf_fence(one));
    assert_true(*s->item[at].program);
    CF_FREE(one);
    CF_FREE(two);
    assert_int_equal(list_names(f, "*")->count, 0);
}

static void B33_all_are_listed_without_a_pattern(cf *f) {
    hf_hold *one = CF_TAKE(f->a, f->name, NULL);
    listed_names *s = cf_new(f, sizeof *s);
    CF_IS(HF_OK, hf_list(f->b, NULL, note_name, s));
    assert_true(find_listed(s, f->name) >= 0);
    CF_FREE(one);
}

static void B33_a_pattern_selects_names(cf *f) {
    hf_hold *one = CF_TAKE(f->a, cf_name(f, "-a1"), NULL);
    hf_hold *two = CF_TAKE(f->a, cf_name(f, "-b1"), NULL);
    assert_int_equal(list_names(f, "-a*")->count, 1);
    assert_int_equal(list_names(f, "-?1")->count, 2);
    assert_int_equal(list_names(f, "-[b-z]?")->count, 1);
    assert_int_equal(list_names(f, "-[!b]?")->count, 1);
    assert_int_equal(list_names(f, "-a1")->count, 1);
    assert_int_equal(list_names(f, "-a")->count, 0);
    assert_int_equal(list_names(f, "-\\?1")->count, 0);
    CF_FREE(one);
    CF_FREE(two);
}

static const char *const odd[] = {
    "-{brace}",      "-}{",  "-50%", "-%7B",   "-a/b", "-.hidden.",
    "-\xc3\xa4\xff", "-[x]", "-*",   "-a b\n", "-}:q",
};

static void B33_any_name_is_listed_unchanged(cf *f) {
    enum { ODD = sizeof odd / sizeof *odd };
    hf_hold *holds[ODD];
    for (int i = 0; i < ODD; i++) holds[i] = CF_TAKE(f->a, cf_name(f, odd[i]), NULL);
    listed_names *s = list_names(f, "-*");
    assert_int_equal(s->count, ODD);
    for (int i = 0; i < ODD; i++) assert_true(find_listed(s, cf_name(f, odd[i])) >= 0);
    assert_int_equal(list_names(f, "-{*")->count, 1);
    assert_int_equal(list_names(f, "-50%")->count, 1);
    assert_int_equal(list_names(f, "-[[]x]")->count, 1);
    assert_int_equal(list_names(f, "-\\*")->count, 1);
    for (int i = 0; i < ODD; i++) CF_FREE(holds[i]);
}

static void B33_the_longest_names_are_listed(cf *f) {
    enum { LONG = 40 };
    hf_hold *holds[LONG];
    char *name = cf_new(f, HF_NAME_MAX + 1);
    for (int i = 0; i < LONG; i++) {
        int n = snprintf(name, HF_NAME_MAX + 1, "%s-%d-", f->name, i);
        memset(name + n, '{', (size_t)(HF_NAME_MAX - n));
        holds[i] = CF_TAKE(f->a, name, NULL);
    }
    listed_names *s = list_names(f, "-*");
    assert_int_equal(s->count, LONG);
    assert_true(find_listed(s, name) >= 0);
    for (int i = 0; i < LONG; i++) CF_FREE(holds[i]);
}

/* More names than any store lists in one step. */
static void B33_many_names_are_listed(cf *f) {
    enum { MANY = 300 };
    hf_hold *holds[MANY];
    for (int i = 0; i < MANY; i++) {
        char rest[16];
        snprintf(rest, sizeof rest, "-%d", i);
        holds[i] = CF_TAKE(f->a, cf_name(f, rest), NULL);
    }
    assert_int_equal(list_names(f, "-*")->count, MANY);
    for (int i = 0; i < MANY; i++) CF_FREE(holds[i]);
    assert_int_equal(list_names(f, "-*")->count, 0);
}

static void B33_kinds_and_waiters_are_reported(cf *f) {
    hf_hold *read = CF_TAKE(f->a, cf_name(f, "-r"), CF_TRY(HF_READ, 1));
    hf_hold *some =
        CF_TAKE(f->a, cf_name(f, "-p"),
                &(hf_options){.kind = HF_PERMITS, .permits = 2, .capacity = 5, .owner = 1});
    cf_attempt *writer = cf_arrive(f, f->b, cf_name(f, "-r"), CF_WAIT(HF_WRITE));
    listed_names *s = list_names(f, "-*");
    assert_int_equal(s->count, 2);
    const hf_info *r = &s->item[find_listed(s, cf_name(f, "-r"))].info;
    const hf_info *p = &s->item[find_listed(s, cf_name(f, "-p"))].info;
    assert_int_equal(r->kind, HF_READ);
    assert_int_equal(r->waiting, 1);
    assert_int_equal(p->kind, HF_PERMITS);
    assert_int_equal(p->used, 2);
    assert_int_equal(p->capacity, 5);
    assert_int_equal(p->waiting, 0);
    CF_FREE(read);
    CF_FREE(some);
    CF_FREE(cf_granted(writer));
}

static void B33_the_callback_may_end_the_list(cf *f) {
    hf_hold *one = CF_TAKE(f->a, cf_name(f, "-1"), NULL);
    hf_hold *two = CF_TAKE(f->a, cf_name(f, "-2"), NULL);
    listed_names *s = cf_new(f, sizeof *s);
    s->stop_at = 1;
    CF_IS(HF_OK, hf_list(f->b, cf_name(f, "*"), note_name, s));
    assert_int_equal(s->count, 1);
    CF_FREE(one);
    CF_FREE(two);
}

typedef struct list_caller {
    cf *f;
    int calls, failures;
} list_caller;

static int32_t call_back_in(const char *name, const hf_info *info, void *arg) {
    list_caller *c = arg;
    hf_info *again = NULL;
    hf_hold *hold = NULL;
    c->calls++;
    c->failures += hf_inspect(c->f->b, name, &again) != HF_OK || again->token != info->token;
    hf_info_free(again);
    c->failures += hf_try_lock(c->f->b, cf_name(c->f, "-own"), &hold) != HF_OK;
    c->failures += hf_release(hold) != HF_OK;
    c->failures += hf_list(c->f->b, name, note_name, cf_new(c->f, sizeof(listed_names))) != HF_OK;
    return 0;
}

static void B33_the_callback_may_call_back_in(cf *f) {
    hf_hold *one = CF_TAKE(f->a, cf_name(f, "-1"), NULL);
    list_caller c = {.f = f};
    CF_IS(HF_OK, hf_list(f->b, cf_name(f, "-1*"), call_back_in, &c));
    assert_int_equal(c.calls, 1);
    assert_int_equal(c.failures, 0);
    CF_FREE(one);
}

static int32_t fork_in(const char *name, const hf_info *info, void *arg) {
    (void)name;
    (void)info;
    *(pid_t *)arg = fork();
    return 0;
}

static void B33_a_child_forked_in_the_callback_gets_an_error(cf *f) {
    hf_hold *one = CF_TAKE(f->a, f->name, NULL);
    pid_t child = -1;
    hf_result r = hf_list(f->b, f->name, fork_in, &child);
    if (child == 0) _exit(r == HF_FORKED ? 0 : 1);
    int status = -1;
    CF_IS(HF_OK, r);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    CF_FREE(one);
}

static void B33_other_prefixes_are_other_locks(cf *f) {
    hf_client *other = cf_open_url(f, cf_url_with(f, "prefix=h*"), NULL);
    hf_hold *ours = CF_TAKE(f->a, f->name, NULL);
    listed_names *s = cf_new(f, sizeof *s);
    CF_IS(HF_OK, hf_list(other, NULL, note_name, s));
    assert_int_equal(s->count, 0);
    hf_hold *theirs = CF_TAKE(other, f->name, NULL);
    CF_IS(HF_OK, hf_list(other, NULL, note_name, s));
    assert_int_equal(s->count, 1);
    assert_true(s->item[0].info.token == hf_fence(theirs));
    CF_FREE(ours);
    CF_FREE(theirs);
}

static int32_t must_list_nothing(const char *name, const hf_info *info, void *arg) {
    (void)info, (void)arg;
    t_fail("%s was listed, but the list must be empty", name);
}

static void B33_a_store_that_cannot_list_returns_an_error(cf *f) {
    if (cf_has(CF_LISTS)) return;
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    CF_IS(HF_UNSUPPORTED, hf_list(f->a, NULL, must_list_nothing, NULL));
    CF_FREE(hold);
}

static void B33_listing_needs_a_function_and_a_client(cf *f) {
    CF_IS(HF_INVALID, hf_list(f->a, NULL, NULL, NULL));
    CF_IS(HF_INVALID, hf_list(NULL, NULL, note_name, NULL));
}

#define DO(...) freeReplyObject(t_redis_cmd(cf_redis(), __VA_ARGS__))

/* The lock is free, but has waiters: only its queue exists. Entries that are not locks of this
   library are not listed. */
static void B33_a_free_lock_with_waiters_is_listed(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    cf_attempt *waiter = cf_arrive(f, f->b, f->name, &(hf_options){.wait_ms = HF_FOREVER});
    DO("COPY hf:{%s}:q hf:{%s-free}:q", f->name, f->name);
    DO("SET hf:{%s-text} x", f->name);
    DO("SET hf:{%s-%%} x", f->name);
    DO("SET hf:{%s-fence}:f 7", f->name);
    listed_names *s = list_names(f, "*");
    assert_int_equal(s->count, 2);
    int at = find_listed(s, cf_name(f, "-free"));
    assert_true(at >= 0);
    assert_int_equal(s->item[at].info.held, 0);
    assert_int_equal(s->item[at].info.waiting, 1);
    DO("DEL hf:{%s-free}:q hf:{%s-text} hf:{%s-%%} hf:{%s-fence}:f", f->name, f->name, f->name,
       f->name);
    CF_FREE(hold);
    CF_FREE(cf_granted(waiter));
}

const cf_case cf_listing[] = {
    CF_CASE_NEEDS(B33_names_in_use_are_listed, CF_LISTS),
    CF_CASE_NEEDS(B33_all_are_listed_without_a_pattern, CF_LISTS),
    CF_CASE_NEEDS(B33_a_pattern_selects_names, CF_LISTS),
    CF_CASE_NEEDS(B33_any_name_is_listed_unchanged, CF_LISTS),
    CF_CASE_NEEDS(B33_the_longest_names_are_listed, CF_LISTS),
    CF_CASE_NEEDS(B33_many_names_are_listed, CF_LISTS),
    CF_CASE_NEEDS(B33_kinds_and_waiters_are_reported, CF_LISTS | CF_KINDS),
    CF_CASE_NEEDS(B33_the_callback_may_end_the_list, CF_LISTS),
    CF_CASE_NEEDS(B33_the_callback_may_call_back_in, CF_LISTS),
    CF_CASE_NEEDS(B33_a_child_forked_in_the_callback_gets_an_error,
                  CF_LISTS | CF_FORK_WITH_THREADS),
    CF_CASE_NEEDS(B33_other_prefixes_are_other_locks, CF_LISTS),
    CF_CASE(B33_listing_needs_a_function_and_a_client),
    CF_CASE(B33_a_store_that_cannot_list_returns_an_error),
    CF_CASE_NEEDS(B33_a_free_lock_with_waiters_is_listed, CF_LISTS | CF_REDIS),
    CF_CASES_END,
};
