// SPDX-License-Identifier: Apache-2.0
// The locks with the standard library's guards.
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <shared_mutex>
#include <type_traits>

#include "check.hpp"

using namespace std::chrono_literals;
using holdfast::options;

static_assert(!std::is_copy_constructible_v<holdfast::mutex>);
static_assert(!std::is_move_constructible_v<holdfast::shared_mutex>);
static_assert(noexcept(std::declval<holdfast::mutex &>().unlock()));
static_assert(noexcept(std::declval<holdfast::shared_mutex &>().unlock_shared()));

// Runs the attempt in another thread, because this thread may hold the lock; returns its result.
template <class Try> static bool run_in_thread(Try attempt) {
    bool taken = false;
    worker([&] { taken = attempt(); }).join();
    return taken;
}

template <class Lock> static bool taken_elsewhere(Lock &lock) {
    return !run_in_thread([&] {
        const bool taken = lock.try_lock();
        if (taken) lock.unlock();
        return taken;
    });
}

CASE(every_guard_of_the_standard_works) {
    holdfast::mutex mutex(w.client, w.name);
    CHECK(mutex.name() == w.name);
    {
        std::lock_guard guard(mutex);
        CHECK(mutex.held() && mutex.fence() > 0 && mutex.remaining() > 0ms);
        CHECK(taken_elsewhere(mutex));
    }
    CHECK(!mutex.held() && mutex.fence() == 0 && mutex.remaining() == 0ms);
    {
        std::unique_lock later(mutex, std::defer_lock);
        CHECK(!later);
        later.lock();
        CHECK(later && mutex.held());
        later.unlock();
        CHECK(later.try_lock());
        later.unlock();
        CHECK(later.try_lock_for(1h));
        later.unlock();
        CHECK(later.try_lock_until(std::chrono::steady_clock::now() + 1h));
    }
    {
        std::unique_lock tried(mutex, std::try_to_lock), timed(mutex, std::defer_lock);
        CHECK(tried.owns_lock());
        std::unique_lock moved = std::move(tried);
        CHECK(moved.owns_lock() && mutex.held());
    }
    std::scoped_lock scoped(mutex);
    CHECK(taken_elsewhere(mutex));
}

CASE(a_wait_that_times_out_gets_no_lock) {
    holdfast::mutex mutex(w.client, w.name);
    std::lock_guard guard(mutex);
    CHECK(!run_in_thread([&] { return mutex.try_lock_for(200ms); }));
    CHECK(!run_in_thread([&] { return mutex.try_lock_for(200ms + 1ns); }));
    CHECK(!run_in_thread([&] { return mutex.try_lock_for(-1h); }));
    CHECK(!run_in_thread(
        [&] { return mutex.try_lock_until(std::chrono::system_clock::now() + 200ms); }));
    CHECK(!run_in_thread(
        [&] { return mutex.try_lock_until(std::chrono::steady_clock::time_point()); }));
}

CASE(a_wait_does_not_end_before_its_time) {
    holdfast::mutex mutex(w.client, w.name);
    std::lock_guard guard(mutex);
    const auto begin = std::chrono::steady_clock::now();
    CHECK(!run_in_thread([&] { return mutex.try_lock_for(20500us); }));
    CHECK(std::chrono::steady_clock::now() - begin >= 20500us);
    const auto end = std::chrono::steady_clock::now() + 20500us;
    CHECK(!run_in_thread([&] { return mutex.try_lock_until(end); }));
    CHECK(std::chrono::steady_clock::now() >= end);
}

CASE(an_overlong_wait_is_endless) {
    holdfast::mutex mutex(w.client, w.name);
    CHECK(mutex.try_lock_for(std::chrono::hours::max()));
    CHECK(mutex.unlock() == HF_OK);
    CHECK(mutex.try_lock_for(std::chrono::duration<double>(1e300)));
    CHECK(mutex.unlock() == HF_OK);
    CHECK(mutex.try_lock_until(std::chrono::system_clock::time_point::max()));
    CHECK(mutex.unlock() == HF_OK);
}

CASE(threads_exclude_each_other) {
    holdfast::mutex mutex(w.client, w.name);
    int inside = 0, turns = 0, crowd = 0;
    std::vector<std::unique_ptr<worker>> workers;
    for (int i = 0; i < 8; i++)
        workers.push_back(std::make_unique<worker>([&] {
            for (int turn = 0; turn < 10; turn++) {
                std::scoped_lock guard(mutex);
                crowd += ++inside > 1;
                std::this_thread::yield();
                turns++;
                inside--;
            }
        }));
    for (auto &each : workers) each->join();
    CHECK(crowd == 0 && turns == 80);
}

CASE(two_locks_in_either_order_do_not_deadlock) {
    holdfast::mutex a(w.client, w.name + " a"), b(w.client, w.name + " b");
    std::atomic<int> turns{0};
    const auto work = [&](holdfast::mutex &first, holdfast::mutex &second) {
        for (int turn = 0; turn < 10; turn++) {
            std::scoped_lock both(first, second);
            CHECK(first.held() && second.held());
            turns++;
        }
    };
    worker one([&] { work(a, b); }), other([&] { work(b, a); });
    one.join();
    other.join();
    CHECK(turns == 20);
    std::unique_lock la(a, std::defer_lock), lb(b, std::defer_lock);
    std::lock(la, lb);
    CHECK(la && lb);
}

CASE(a_thread_that_locks_twice_gets_an_error) {
    holdfast::mutex mutex(w.client, w.name);
    std::unique_lock guard(mutex);
    CHECK_THROWS(HF_DEADLOCK, mutex.lock());
    CHECK_THROWS(HF_DEADLOCK, mutex.try_lock());
    CHECK(mutex.held());
}

CASE(a_recursive_mutex_is_unlocked_as_often) {
    holdfast::recursive_mutex mutex(w.client, w.name);
    mutex.lock();
    CHECK(mutex.try_lock());
    CHECK(mutex.unlock() == HF_OK);
    CHECK(taken_elsewhere(mutex));
    CHECK(mutex.unlock() == HF_OK);
    CHECK(!taken_elsewhere(mutex));
    CHECK(mutex.unlock() == HF_NOT_HELD);
}

CASE(two_objects_of_a_name_are_one_lock) {
    holdfast::client other(w.url);
    holdfast::mutex mine(w.client, w.name), theirs(other, w.name);
    std::lock_guard guard(mine);
    CHECK(!theirs.try_lock());
}

CASE(readers_share_and_a_writer_does_not) {
    holdfast::shared_mutex mutex(w.client, w.name);
    {
        std::shared_lock reader(mutex);
        CHECK(mutex.held());
        CHECK(run_in_thread([&] { return std::shared_lock(mutex, 1h).owns_lock(); }));
        CHECK(!run_in_thread([&] { return std::unique_lock(mutex, 200ms).owns_lock(); }));
        CHECK(
            !run_in_thread([&] { return std::unique_lock(mutex, std::try_to_lock).owns_lock(); }));
        CHECK_THROWS(HF_DEADLOCK, mutex.lock());
    }
    std::unique_lock writer(mutex);
    CHECK(!run_in_thread([&] { return std::shared_lock(mutex, std::try_to_lock).owns_lock(); }));
    CHECK(!run_in_thread([&] { return std::shared_lock(mutex, 200ms).owns_lock(); }));
    CHECK(!run_in_thread(
        [&] { return mutex.try_lock_shared_until(std::chrono::system_clock::now()); }));
    CHECK(mutex.unlock_shared() == HF_NOT_HELD && mutex.held());
}

CASE(permits_are_granted_up_to_the_capacity) {
    holdfast::permits pool(w.client, w.name, 3), pair(w.client, w.name, 3, 2);
    std::unique_lock one(pool);
    std::unique_lock two(pair);
    CHECK(!pool.try_lock());
    two.unlock();
    CHECK(pool.try_lock());
    CHECK(pool.unlock() == HF_OK && one.owns_lock() && pool.held());
    holdfast::permits more(w.client, w.name, 4);
    CHECK_THROWS(HF_INVALID, more.try_lock());
}

// Break a lock that this thread holds, and lock it once more: the store receives the new count, and
// answers that the lock is gone. Waiting for the renewal would take a third of a lease.
static void lose_lock(world &w, holdfast::recursive_mutex &mutex) {
    w.client.break_lock(w.name, mutex.fence());
    mutex.lock();
    until("the loss", [&] { return !mutex.held(); });
}

CASE(a_lost_lock_is_not_unlocked_for_another_thread) {
    holdfast::recursive_mutex mutex(w.client, w.name);
    mutex.lock();
    const std::uint64_t mine = mutex.fence();
    lose_lock(w, mutex);
    std::atomic<bool> entered{false}, leave{false};
    worker other([&] {
        std::unique_lock theirs(mutex, 15s);
        CHECK(theirs.owns_lock() && mutex.fence() > mine);
        entered = true;
        until("the end of the first", [&] { return leave.load(); });
        mutex.check();
        theirs.release();
        CHECK(mutex.unlock() == HF_OK);
    });
    until("the other", [&] { return entered.load(); });
    CHECK(!mutex.held() && mutex.fence() == mine);
    CHECK_THROWS(HF_LOST, mutex.check());
    CHECK(mutex.unlock() == HF_LOST && mutex.unlock() == HF_LOST);
    CHECK(mutex.unlock() == HF_NOT_HELD);
    CHECK_THROWS(HF_NOT_HELD, mutex.check());
    leave = true;
    other.join();
}

CASE(a_lock_reports_its_loss) {
    std::atomic<int> losses{0};
    options how;
    how.on_lost = [&] { ++losses; };
    holdfast::recursive_mutex mutex(w.client, w.name, how);
    {
        std::scoped_lock guard(mutex);
        lose_lock(w, mutex);
        until("on_lost of both", [&] { return losses == 2; });
        CHECK_THROWS(HF_LOST, mutex.check());
        CHECK(mutex.unlock() == HF_LOST);
    }
    std::scoped_lock again(mutex);
    mutex.check();
}

CASE(a_cancel_ends_the_wait_of_a_guard) {
    holdfast::cancel cancel;
    options how;
    how.cancelled_by = &cancel;
    holdfast::mutex mutex(w.client, w.name), impatient(w.client, w.name, how);
    std::scoped_lock guard(mutex);
    worker waits([&] { CHECK_THROWS(HF_CANCELLED, std::unique_lock{impatient}); });
    until("a wait", [&] { return w.client.stats().waiting == 1; });
    cancel.fire();
    waits.join();
}

CASE(a_condition_can_be_waited_for) {
    holdfast::mutex mutex(w.client, w.name);
    std::condition_variable_any changed;
    bool ready = false;
    worker other([&] {
        std::scoped_lock guard(mutex);
        ready = true;
        changed.notify_all();
    });
    std::unique_lock lock(mutex);
    CHECK(changed.wait_for(lock, 20s, [&] { return ready; }));
    CHECK(mutex.held());
    lock.unlock();
    other.join();
}

CASE(a_destroyed_lock_releases_what_is_left) {
    {
        holdfast::mutex mutex(w.client, w.name);
        mutex.lock();
    }
    holdfast::mutex mutex(w.client, w.name);
    CHECK(mutex.try_lock());
    CHECK(mutex.unlock() == HF_OK);
}
