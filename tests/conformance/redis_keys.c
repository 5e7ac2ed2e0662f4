/* SPDX-License-Identifier: Apache-2.0 */
/* The keys in a Redis server: the re-entry count, and that no keys are left behind. */
#include "conformance.h"

#include "cf_redis.h"

/* ---- B23 ------------------------------------------------------------------------------------- */

/* The re-entry count in the lock's hash; 0 if there is none. */
static int64_t count_in_hash(cf *f, const char *client, const char *owner) {
    const char *count = t_redis_str(cf_redis(), "HGET hf:{%s} %s:%s", f->name, client, owner);
    return count ? strtoll(count, NULL, 10) : 0;
}

static void B23_the_count_shows_in_the_store(cf *f) {
    enum { DEPTH = 3 };
    hf_hold *holds[DEPTH];
    for (int i = 0; i < DEPTH; i++) {
        holds[i] = CF_TAKE(f->a, f->name, &(hf_options){.owner = 7});
    }
    hf_info *info = cf_inspect(f->b, f->name);
    for (int left = DEPTH; left > 0; left--) {
        CF_UNTIL(count_in_hash(f, info->client, info->owner) == left);
        CF_FREE(holds[left - 1]);
    }
    assert_int_equal(count_in_hash(f, info->client, info->owner), 0);
    assert_int_equal(t_redis_int(cf_redis(), "EXISTS hf:{%s}", f->name), 0);
    hf_info_free(info);
}

/* ---- B30 ------------------------------------------------------------------------------------- */

/* Use every operation that writes keys. */
static void use_locks(cf *f, hf_client *one, hf_client *other) {
    hf_hold *hold = CF_TAKE(one, f->name, NULL);
    hf_hold *again = CF_TAKE(one, f->name, NULL);
    CF_REFUSED(HF_BUSY, other, f->name, NULL);
    CF_REFUSED(HF_TIMEOUT, other, f->name, &(hf_options){.wait_ms = 300});
    cf_attempt *waiter = cf_queue(f, other, f->name, &(hf_options){.wait_ms = HF_FOREVER});
    CF_FREE(hold);
    CF_FREE(again);
    CF_FREE(cf_granted(waiter));

    hold = CF_TAKE(one, cf_name(f, "-broken"), NULL);
    CF_IS(HF_OK, hf_break(other, cf_name(f, "-broken"), 0));
    CF_IS(HF_LOST, hf_release(hold));
    hold = CF_TAKE(one, cf_name(f, "-expired"),
                   &(hf_options){.lease_ms = CF_SHORT_LEASE_MS, .flags = HF_NO_RENEW});
    CF_UNTIL(!hf_held(hold));
    CF_IS(HF_LOST, hf_release(hold));
    hf_unref(CF_TAKE(one, cf_name(f, "-dropped"), NULL));
    hf_unref(CF_TAKE(other, cf_name(f, "-{}"), NULL));
}

/* The same for the other kinds, each with a waiter. */
static void use_kinds(cf *f, hf_client *one, hf_client *other) {
    static const uint32_t kinds[] = {HF_READ, HF_WRITE, HF_UPGRADABLE, HF_PERMITS};
    const hf_options give_up = {.kind = HF_WRITE, .wait_ms = 300};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        hf_hold *hold = CF_TAKE(one, f->name, CF_TRY(kinds[i], 0));
        CF_REFUSED(HF_BUSY, other, f->name, CF_TRY(HF_WRITE, 0));
        CF_REFUSED(HF_TIMEOUT, other, f->name, &give_up);
        cf_attempt *waiter = cf_arrive(f, other, f->name, CF_WAIT(kinds[3 - i]));
        if (kinds[i] == HF_UPGRADABLE) CF_IS(HF_OK, hf_upgrade(hold, 0));
        if (kinds[i] == HF_WRITE) CF_IS(HF_OK, hf_downgrade(hold));
        CF_FREE(hold);
        CF_FREE(cf_granted(waiter));

        hold = CF_TAKE(one, f->name, CF_TRY(kinds[i], 0));
        CF_IS(HF_OK, hf_break(other, f->name, i % 2 ? hf_fence(hold) : 0));
        CF_IS(HF_LOST, hf_release(hold));
        hold = CF_TAKE(one, f->name,
                       CF_OPTIONS(kinds[i], .lease_ms = CF_SHORT_LEASE_MS, .flags = HF_NO_RENEW));
        CF_UNTIL(!hf_held(hold));
        CF_IS(HF_LOST, hf_release(hold));
    }
    hf_hold *reader = CF_TAKE(other, f->name, CF_TRY(HF_READ, 0));
    hf_hold *hold = CF_TAKE(one, f->name, CF_TRY(HF_UPGRADABLE, 0));
    CF_IS(HF_TIMEOUT, hf_upgrade(hold, 20));
    CF_FREE(reader);
    CF_FREE(hold);
}

/* The first key that should not exist, or NULL. Only fences may stay, for a limited time. */
static const char *leaked_key(redisReply *keys, char *text, size_t size) {
    for (size_t i = 0; i < keys->elements; i++) {
        const redisReply *key = keys->element[i];
        int64_t ttl_ms = t_redis_int(cf_redis(), "PTTL %b", key->str, key->len);
        if (ttl_ms == -2) continue; /* expired since KEYS */
        int is_fence = key->len > 3 && memcmp(key->str + key->len - 3, "}:f", 3) == 0;
        snprintf(text, size, "%s (%lld ms to live)", key->str, (long long)ttl_ms);
        if (!is_fence || ttl_ms < 0) return text;
    }
    return NULL;
}

static const char *look_for_leak(char *text, size_t size) {
    redisReply *keys = t_redis_cmd(cf_redis(), "KEYS *");
    assert_non_null(keys);
    const char *leak = leaked_key(keys, text, size);
    freeReplyObject(keys);
    return leak;
}

static void B30_after_all_is_released_only_fences_remain_for_a_time(cf *f) {
    char leak[256] = "";
    assert_string_equal(t_redis_str(cf_redis(), "FLUSHALL"), "OK");
    hf_client *one = cf_open(f), *other = cf_open(f);
    use_locks(f, one, other);
    if (cf_has(CF_KINDS)) use_kinds(f, one, other);
    hf_hold *held = CF_TAKE(one, cf_name(f, "-closed"), NULL);
    cf_close(f, one);
    cf_close(f, other);
    hf_unref(held);
    cf_close(f, f->a);
    cf_close(f, f->b);
    assert_true(t_redis_int(cf_redis(), "EXISTS hf:{%s}:f", f->name) == 1);
    for (int64_t end = t_now_ms() + t_patience(CF_WATCHDOG_MS); look_for_leak(leak, sizeof leak);) {
        if (t_now_ms() > end) fail_msg("left in the store: %s", leak);
        t_sleep_ms(5);
    }
}

const cf_case cf_keys[] = {
    CF_CASE_NEEDS(B23_the_count_shows_in_the_store, CF_REDIS),
    CF_CASE_NEEDS(B30_after_all_is_released_only_fences_remain_for_a_time, CF_REDIS),
    CF_CASES_END,
};
