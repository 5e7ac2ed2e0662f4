// SPDX-License-Identifier: Apache-2.0
// Everything except locks: latches, leaders, listing, and holds that are exported.
#include <atomic>
#include <map>
#include <mutex>

#include "check.hpp"

using namespace std::chrono_literals;
using holdfast::hold;
using holdfast::latch;
using holdfast::options;

CASE(a_latch_opens_when_it_is_counted_down) {
    latch ready(w.client, w.name);
    CHECK_THROWS(HF_NOT_HELD, (void)ready.left());
    CHECK_THROWS(HF_NOT_HELD, (void)ready.try_wait());
    ready.set(3);
    CHECK(ready.left() == 3 && !ready.try_wait() && !ready.wait_for(200ms));
    CHECK(ready.count_down() == 2);
    worker waits([&] { ready.wait(); });
    CHECK(ready.count_down(2) == 0);
    waits.join();
    CHECK(ready.try_wait() && ready.wait_for(1h));
}

CASE(a_wait_for_a_latch_is_cancelled) {
    latch ready(w.client, w.name);
    ready.set(1);
    holdfast::cancel cancel;
    worker waits([&] { CHECK_THROWS(HF_CANCELLED, ready.wait(&cancel)); });
    cancel.fire();
    waits.join();
    CHECK_THROWS(HF_CANCELLED, (void)ready.wait_for(1h, &cancel));
}

CASE(names_with_a_nul_are_refused) {
    const std::string name("a\0b", 3);
    CHECK_THROWS(HF_INVALID, latch(w.client, name));
    CHECK_THROWS(HF_INVALID, (void)w.client.leader(name));
    CHECK_THROWS(HF_INVALID, (void)w.client.inspect(name));
    CHECK_THROWS(HF_INVALID, w.client.break_lock(name));
    CHECK_THROWS(HF_INVALID, (void)w.client.adopt(name));
    CHECK_THROWS(HF_INVALID, holdfast::observer(w.client, name, [](const hf_leader_info *) {}));
}

CASE(a_leader_has_a_value_under_its_token) {
    CHECK(!w.client.leader(w.name));
    const std::string value("here\0we are", 11);
    hold led = w.client.campaign(w.name, value);
    auto leader = w.client.leader(w.name);
    CHECK(leader && leader->token == led.fence());
    CHECK(std::string(leader->value, leader->value_length) == value);
    led.proclaim("elsewhere");
    CHECK(std::string(w.client.leader(w.name)->value) == "elsewhere");
    options other;
    other.owner = 7;
    CHECK_THROWS(HF_BUSY, (void)w.client.campaign(w.name, "I", other));
    led.release();
    CHECK(!w.client.leader(w.name));
    CHECK_THROWS(HF_INVALID, led.proclaim("nobody"));
}

CASE(changes_of_the_leader_are_reported) {
    std::mutex mutex;
    std::vector<std::string> reports;
    const auto last_is = [&](const char *what) {
        return [&reports, &mutex, what] {
            const std::lock_guard<std::mutex> guard(mutex);
            return !reports.empty() && reports.back() == what;
        };
    };
    const holdfast::observer watch(w.client, w.name, [&](const hf_leader_info *leader) {
        const std::lock_guard<std::mutex> guard(mutex);
        reports.emplace_back(leader ? leader->value : "nobody");
    });
    until("that nobody leads", last_is("nobody"));
    hold led = w.client.campaign(w.name, "first");
    until("the leader", last_is("first"));
    led.proclaim("second");
    until("its other value", last_is("second"));
    led.release();
    until("the resignation", last_is("nobody"));
}

CASE(names_in_use_are_listed) {
    const hold a = w.client.acquire(w.name + ":a");
    const hold b = w.client.acquire(w.name + ":b");
    std::map<std::string, std::uint64_t> seen;
    const auto note = [&](const char *name, const hf_info &info) {
        seen[name] = info.token;
        return true;
    };
    w.client.list(w.name + ":*", note);
    CHECK(seen.size() == 2);
    CHECK(seen[w.name + ":a"] == a.fence() && seen[w.name + ":b"] == b.fence());
    int calls = 0;
    w.client.list(w.name + ":*", [&](const char *, const hf_info &) { return ++calls, false; });
    CHECK(calls == 1);
}

CASE(an_exception_of_a_listing_is_passed_on) {
    const hold mine = w.client.acquire(w.name);
    bool thrown = false;
    try {
        w.client.list(w.name, [](const char *, const hf_info &) -> bool { throw 7; });
    } catch (int what) {
        thrown = what == 7;
    }
    CHECK(thrown);
}

CASE(a_hold_leaves_and_is_adopted) {
    hold mine = w.client.acquire(w.name);
    if (w.url.rfind("redis", 0) != 0) { // this store's locks end with their process
        CHECK_THROWS(HF_UNSUPPORTED, (void)mine.leave());
        CHECK(mine.held());
        return;
    }
    const std::uint64_t token = mine.fence();
    const std::string text = mine.leave();
    CHECK(!mine && !text.empty() && w.client.inspect(w.name)->token == token);
    w.client.extend_exported(text, 60s);
    holdfast::client other(w.url);
    const hold adopted = other.adopt(text);
    CHECK(adopted.held() && adopted.fence() == token);
    CHECK_THROWS(HF_LOST, (void)other.adopt(text));
    CHECK_THROWS(HF_INVALID, (void)other.adopt("nothing of ours"));
}
