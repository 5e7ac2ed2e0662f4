// SPDX-License-Identifier: Apache-2.0
// Clients, holds and errors: lifetimes and notifications.
#include <atomic>
#include <type_traits>

#include "check.hpp"

using namespace std::chrono_literals;
using holdfast::hold;
using holdfast::options;

static_assert(std::is_nothrow_move_constructible_v<hold> &&
              std::is_nothrow_move_assignable_v<hold>);
static_assert(!std::is_copy_constructible_v<hold> && !std::is_copy_assignable_v<hold>);
static_assert(std::is_nothrow_move_constructible_v<holdfast::client>);
static_assert(!std::is_copy_constructible_v<holdfast::client>);
static_assert(std::is_nothrow_copy_constructible_v<holdfast::error>);
static_assert(!std::is_copy_constructible_v<holdfast::cancel>);
static_assert(std::is_aggregate_v<options>);

// An owner different from this thread.
static options other_owner() {
    options how;
    how.owner = 7;
    return how;
}

static bool is_free(world &w) {
    return static_cast<bool>(w.client.try_acquire(w.name, other_owner()));
}

CASE(a_hold_ends_with_its_scope) {
    {
        const hold mine = w.client.acquire(w.name);
        CHECK(mine && mine.held() && mine.fence() > 0 && mine.remaining() > 0ms);
        CHECK(!mine.why_lost());
        CHECK(!is_free(w));
    }
    CHECK(is_free(w));
}

CASE(a_hold_ends_with_an_exception) {
    try {
        const hold mine = w.client.lock(w.name);
        CHECK(!is_free(w));
        throw 1;
    } catch (int) {
    }
    CHECK(is_free(w));
}

CASE(a_hold_moves) {
    hold first = w.client.acquire(w.name);
    hold second = std::move(first);
    CHECK(!first && !first.held() && first.fence() == 0 && first.lost_fd() == -1);
    CHECK(second.held());
    hold &self = second;
    second = std::move(self);
    CHECK(second.held());
    second = hold();
    CHECK(is_free(w));
}

CASE(assigning_releases_the_old_hold) {
    hold held = w.client.acquire(w.name);
    held = w.client.acquire(w.name + " other");
    CHECK(held.held());
    CHECK(is_free(w));
}

CASE(an_empty_hold_is_not_held) {
    hold none;
    CHECK(!none.held() && none.remaining() == 0ms && !none.why_lost());
    CHECK_THROWS(HF_NOT_HELD, none.release());
    CHECK_THROWS(HF_NOT_HELD, none.check());
    CHECK_THROWS(HF_INVALID, none.extend(1s));
    CHECK(none.end() == HF_NOT_HELD);
}

CASE(a_lock_of_another_is_an_error_or_an_empty_hold) {
    const hold mine = w.client.acquire(w.name);
    options how = other_owner();
    CHECK_THROWS(HF_BUSY, w.client.acquire(w.name, how));
    CHECK(!w.client.try_acquire(w.name, how));
    how.wait = 200ms;
    CHECK_THROWS(HF_TIMEOUT, w.client.acquire(w.name, how));
    CHECK(!w.client.try_acquire(w.name, how));
}

CASE(an_error_has_a_result_and_a_detail) {
    try {
        holdfast::client("memory:?walk=1");
        CHECK(false);
    } catch (const holdfast::error &e) {
        CHECK(e.result() == HF_INVALID && std::string(e.name()) == "HF_INVALID");
        CHECK(std::string(e.detail()).find("walk") != std::string::npos);
        CHECK(e.what() == std::string(e.detail()) + " (HF_INVALID)");
        const std::runtime_error &base = e;
        CHECK(std::string(base.what()) == e.what());
    }
    CHECK_THROWS(HF_INVALID, w.client.acquire(""));
    CHECK_THROWS(HF_INVALID, w.client.acquire(std::string("a\0b", 3)));
    CHECK_THROWS(HF_UNREACHABLE, holdfast::client("redis+unix:///nowhere/redis.sock"));
    options how;
    how.lease = 1ms;
    CHECK_THROWS(HF_INVALID, w.client.try_acquire(w.name, how));
}

CASE(the_url_may_come_from_the_environment) {
    setenv("HOLDFAST_URL", w.url.c_str(), 1);
    holdfast::client other;
    unsetenv("HOLDFAST_URL");
    CHECK(other.acquire(w.name).held());
    CHECK_THROWS(HF_INVALID, holdfast::client());
}

CASE(client_options_count) {
    hf_client_options how{};
    how.label = "tested";
    holdfast::client labelled(w.url, how);
    const hold mine = labelled.acquire(w.name);
    CHECK(std::string(w.client.inspect(w.name)->label) == "tested");
}

CASE(a_client_moves_and_closes) {
    holdfast::client first(w.url);
    hold mine = first.acquire(w.name);
    holdfast::client second(std::move(first));
    CHECK_THROWS(HF_INVALID, first.acquire(w.name));
    CHECK(mine.held());
    second.close();
    CHECK(!mine.held());
    CHECK_THROWS(HF_LOST, mine.check());
    CHECK_THROWS(HF_CLOSED, mine.release());
    CHECK(is_free(w));
}

CASE(re_entry_is_by_thread_unless_forbidden) {
    const hold first = w.client.acquire(w.name), second = w.client.acquire(w.name);
    CHECK(first.fence() == second.fence());
    CHECK(w.client.inspect(w.name)->held);
    options how;
    how.reentrant = false;
    CHECK_THROWS(HF_DEADLOCK, w.client.acquire(w.name, how));
}

CASE(a_loss_is_reported) {
    std::atomic<int> losses{0};
    options how;
    how.on_lost = [&] { ++losses; };
    hold mine = w.client.acquire(w.name, how);
    hold moved = std::move(mine);
    w.client.break_lock(w.name, moved.fence());
    // Renewal detects the loss; an explicit extend saves the test that wait.
    CHECK_THROWS(HF_LOST, moved.extend(30s));
    CHECK(!moved.held() && moved.why_lost());
    CHECK_THROWS(HF_LOST, moved.check());
    until("on_lost", [&] { return losses == 1; });
    CHECK_THROWS(HF_LOST, moved.release());
    CHECK(losses == 1 && !moved);
}

CASE(a_normal_end_is_no_loss) {
    std::atomic<int> losses{0};
    options how;
    how.on_lost = [&] { ++losses; };
    for (int i = 0; i < 20; i++) w.client.acquire(w.name, how).release();
    CHECK(losses == 0);
}

CASE(a_hold_may_be_released_in_on_lost) {
    std::atomic<hf_result> result{HF_OK};
    std::atomic<bool> ready{false};
    hold mine;
    // The captured vector is memory that a bug would free during the callback.
    const std::vector<int> weight(1000, 42);
    options how;
    how.on_lost = [&, weight] {
        until("the hold", [&] { return ready.load(); });
        result = mine.end();
        if (weight.at(999) != 42) std::abort();
    };
    mine = w.client.acquire(w.name, how);
    hf_hold *kept = hf_ref(mine.get());
    ready = true;
    w.client.break_lock(w.name);
    CHECK(hf_extend(kept, 30000) == HF_LOST);
    until("on_lost", [&] { return result != HF_OK; });
    CHECK(result == HF_LOST);
    hf_unref(kept);
}

CASE(a_cancel_ends_a_wait) {
    const hold mine = w.client.acquire(w.name);
    holdfast::cancel cancel;
    worker waits([&] {
        options how;
        how.wait = holdfast::forever;
        how.cancelled_by = &cancel;
        CHECK_THROWS(HF_CANCELLED, w.client.acquire(w.name, how));
        CHECK_THROWS(HF_CANCELLED, w.client.try_acquire(w.name, how));
    });
    until("a wait", [&] { return w.client.stats().waiting == 1; });
    cancel.fire();
    waits.join();
    CHECK(mine.held());
}

CASE(upgrading_and_downgrading) {
    options how;
    how.kind = holdfast::kind::upgradable;
    hold mine = w.client.acquire(w.name, how);
    options beside = other_owner();
    beside.kind = holdfast::kind::read;
    hold reader = w.client.acquire(w.name, beside);
    CHECK(!mine.try_upgrade_for(0ms) && !mine.try_upgrade_for(200ms));
    CHECK_THROWS(HF_DEADLOCK, reader.upgrade());
    reader.release();
    const auto before = mine.fence();
    mine.upgrade();
    CHECK(mine.fence() > before && !w.client.try_acquire(w.name, beside));
    mine.downgrade();
    CHECK(w.client.try_acquire(w.name, beside));
    mine.release();
}

CASE(looking_and_counting) {
    CHECK(!w.client.inspect(w.name)->held);
    CHECK_THROWS(HF_NOT_HELD, w.client.break_lock(w.name));
    options how;
    how.kind = holdfast::kind::permits;
    how.permits = 2;
    how.capacity = 5;
    const hold mine = w.client.acquire(w.name, how);
    const holdfast::info seen = w.client.inspect(w.name);
    CHECK(seen->held && seen->used == 2 && seen->capacity == 5 && seen->holders == 1);
    CHECK(w.client.stats().acquired == 1);
    CHECK(w.client.metrics().find("\nholdfast_acquired_total 1\n") != std::string::npos);
}

CASE(extending_and_not_renewing) {
    options how;
    how.lease = 10s;
    how.renew = false;
    hold mine = w.client.acquire(w.name, how);
    CHECK(mine.remaining() <= 10s);
    mine.extend(60s);
    CHECK(mine.remaining() > 10s);
    how.max_hold = 50ms;
    how.lease = 0ms;
    how.renew = true;
    hold bounded = w.client.acquire(w.name + " bounded", how);
    until("its end", [&] { return !bounded.held(); });
    CHECK_THROWS(HF_LOST, bounded.check());
    CHECK_THROWS(HF_LOST, bounded.release());
}

CASE(several_names_are_one_hold) {
    const std::string a = w.name + " a", b = w.name + " b";
    hold both = w.client.acquire_all({{a}, {b, holdfast::kind::read}});
    CHECK(both.held() && both.fence_of(0) > 0 && both.fence_of(1) > 0 && both.fence_of(2) == 0);
    options other = other_owner();
    CHECK(!w.client.try_acquire(a, other));
    CHECK(!w.client.try_acquire_all({{w.name}, {a}}, other));
    CHECK_THROWS(HF_BUSY, w.client.acquire_all({{w.name}, {a}}, other));
    CHECK(is_free(w)); // all or none
    other.kind = holdfast::kind::read;
    CHECK(w.client.try_acquire(b, other));
    both.release();
    CHECK(hold().fence_of(0) == 0);
    CHECK_THROWS(HF_INVALID, w.client.acquire_all({}));
    CHECK_THROWS(HF_INVALID, w.client.acquire_all({{std::string("a\0b", 3)}}));
}

CASE(several_names_are_lost_as_one) {
    std::atomic<int> losses{0};
    options how;
    how.on_lost = [&] { ++losses; };
    hold both = w.client.acquire_all({{w.name}, {w.name + " b"}}, how);
    w.client.break_lock(w.name, both.fence_of(0));
    CHECK_THROWS(HF_LOST, both.extend(30s));
    until("on_lost", [&] { return losses == 1; });
    CHECK_THROWS(HF_LOST, both.release());
}

CASE(tasks_that_share_a_thread_exclude_each_other) {
    options task;
    task.fresh_owner = true;
    hold mine = w.client.acquire(w.name, task);
    CHECK(!w.client.try_acquire(w.name, task));
    CHECK(!w.client.try_acquire(w.name));
    mine.release();
    CHECK(w.client.try_acquire(w.name, task));
    task.owner = 7;
    CHECK_THROWS(HF_INVALID, w.client.acquire(w.name, task));
}

#if __cplusplus >= 202002L
CASE(options_are_named_where_they_are_set) {
    const hold mine = w.client.acquire(w.name, {.wait = 5s, .lease = 20s});
    CHECK(mine.held() && mine.remaining() <= 20s);
    CHECK(!w.client.try_acquire(w.name, {.owner = 7, .reentrant = false}));
}
#endif
