// SPDX-License-Identifier: Apache-2.0
/*
 * Holdfast for C++17: holdfast.h with scopes for lifetimes and exceptions for errors.
 *
 *     holdfast::client client("redis://localhost");
 *     holdfast::mutex orders(client, "orders:42");
 *     {
 *         std::scoped_lock lock(orders);
 *         write_with_token(orders.fence());       // the resource rejects lower tokens
 *         orders.check();                         // throws if it was lost; no round trip
 *     }
 *
 * or, with a hold for one scope and all of its functions:
 *
 *     holdfast::hold hold = client.acquire("orders:42", {.wait = 5s});   // C++20; in C++17 name
 *     write_with_token(hold.fence());                                    // the options first
 *     hold.release();                             // throws HF_LOST if it was lost meanwhile
 *
 * holdfast.h says what the calls mean, how long they block and what they return. This header
 * describes only what C++ adds. Link with the library as a C program does.
 *
 * ERRORS are exceptions of one class, holdfast::error, with the result and its detail. Two results
 * are answers, not errors: a try or a wait that ends because another has the lock (HF_BUSY,
 * HF_TIMEOUT) returns false, or an empty hold.
 *
 * LOSS. A destructor cannot report that the lock was lost. So call `release()` on a hold, or
 * `check()` on a lock, before you rely on the work; or set `on_lost`. unlock() returns its result
 * to callers that want to check it.
 *
 * LOCKS (mutex, recursive_mutex, shared_mutex, permits) are for std::unique_lock, std::scoped_lock,
 * std::shared_lock and std::lock. Many threads may use one. As in the standard library, a lock is
 * unlocked by the thread that locked it, and is neither copied nor moved. Two objects with the same
 * client and name are one lock. After a loss, another thread may hold the lock: the thread that
 * lost it gets HF_LOST when it unlocks, and the other hold is not affected.
 *
 * TASKS. The owner of a lock is the thread that acquired it, and a thread that has a lock re-enters
 * it. So coroutines and tasks that share threads would not exclude each other. Give their holds
 * `.fresh_owner = true`, or an `owner` for each task. Do not use the locks above across a co_await:
 * like std::mutex they belong to a thread.
 *
 * MORE THAN LOCKS: latch; client::campaign, leader and observer; client::list; hold::leave and
 * client::adopt.
 *
 * LIFETIMES. A client must outlive the locks, latches and observers made from it, and a cancel its
 * waits. A hold may outlive its client: it is then no longer held.
 */
#ifndef HOLDFAST_HPP
#define HOLDFAST_HPP

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "holdfast.h"

namespace holdfast {

using std::chrono::milliseconds;

/* For options::wait: until the lock is granted, the wait is cancelled or the client is closed. */
inline constexpr milliseconds forever{HF_FOREVER};

enum class kind : std::uint32_t {
    mutex = HF_MUTEX,
    read = HF_READ,
    write = HF_WRITE,
    upgradable = HF_UPGRADABLE,
    permits = HF_PERMITS
};

/* ---- Errors --------------------------------------------------------------------------------- */

/* what() is the detail followed by the result's name. */
class error : public std::runtime_error {
  public:
    error(hf_result result, const std::string &detail)
        : std::runtime_error(detail + " (" + hf_result_name(result) + ")"), result_(result),
          detail_(detail) {}

    hf_result result() const noexcept { return result_; }
    const char *name() const noexcept { return hf_result_name(result_); } /* "HF_BUSY" */
    const char *detail() const noexcept { return detail_.what(); }        /* a line to act on */

  private:
    hf_result result_;
    std::runtime_error detail_; /* its text can be copied without failing */
};

namespace detail {

[[noreturn]] inline void fail(hf_result result) {
    const char *said = hf_error_detail();
    throw error(result, *said ? said : hf_result_text(result));
}

inline void check(hf_result result) {
    if (result != HF_OK) fail(result);
}

/* Whether the only obstacle is that another has the lock. */
inline bool is_taken(hf_result result) noexcept {
    return result == HF_BUSY || result == HF_TIMEOUT;
}

/* Rounds up to whole milliseconds, because a wait must not end early. Too large for a number means
   forever. */
template <class Rep, class Period>
milliseconds wait_of(const std::chrono::duration<Rep, Period> &time) {
    using fine = std::chrono::duration<long double, std::milli>;
    if (time <= time.zero()) return milliseconds::zero();
    if (fine(time).count() >= 1e15L) return forever;
    return std::chrono::ceil<milliseconds>(time);
}

/* Text for C, which would stop at a NUL. */
inline const char *plain(const std::string &text, const char *what) {
    if (text.find('\0') != std::string::npos)
        throw error(HF_INVALID, std::string("the ") + what + " has a NUL in it");
    return text.c_str();
}

} // namespace detail

/* ---- Cancelling ----------------------------------------------------------------------------- */

/* Ends the waits that carry it, permanently. fire() is safe from any thread and in a signal
   handler. */
class cancel {
  public:
    cancel() : cancel_(hf_cancel_new()) {
        if (!cancel_) throw std::bad_alloc();
    }
    cancel(const cancel &) = delete;
    cancel &operator=(const cancel &) = delete;
    ~cancel() { hf_cancel_free(cancel_); }

    void fire() noexcept { hf_cancel_fire(cancel_); }
    hf_cancel *get() const noexcept { return cancel_; }

  private:
    hf_cancel *cancel_;
};

/* ---- Options -------------------------------------------------------------------------------- */

/* The same as hf_options, field for field. An aggregate, so that C++20 can use designated
   initializers. */
struct options {
    milliseconds wait{0};     /* 0: try once; or forever */
    milliseconds lease{0};    /* 0: the client's */
    milliseconds max_hold{0}; /* 0: none */
    std::uint64_t owner = 0;  /* 0: this thread, or with fresh_owner this acquire alone */
    cancel *cancelled_by = nullptr;
    std::function<void()> on_lost = {}; /* called once, on the callback thread; must not throw */
    holdfast::kind kind = holdfast::kind::mutex;
    std::uint32_t permits = 0;  /* kind::permits: how many, 0 means one */
    std::uint32_t capacity = 0; /* kind::permits: the total */
    bool renew = true;
    bool reentrant = true;
    bool fresh_owner = false; /* for tasks and coroutines that share threads: never re-enters */
};

/* One of several names to acquire at once, as hf_request. */
struct request {
    std::string name;
    holdfast::kind kind = holdfast::kind::mutex;
    std::uint32_t permits = 0;
    std::uint32_t capacity = 0;
    bool reentrant = true;
};

/* ---- A hold --------------------------------------------------------------------------------- */

/*
 * An ownership, released at the end of its scope. It can be moved, not copied. It is empty when
 * default-constructed, moved from or released. An empty one may be queried: it is not held.
 */
class hold {
  public:
    hold() noexcept = default;
    hold(hold &&other) noexcept
        : hold_(std::exchange(other.hold_, nullptr)), on_lost_(std::move(other.on_lost_)) {}
    hold &operator=(hold &&other) noexcept {
        if (this != &other) {
            (void)end();
            hold_ = std::exchange(other.hold_, nullptr);
            on_lost_ = std::move(other.on_lost_);
        }
        return *this;
    }
    ~hold() { (void)end(); }

    explicit operator bool() const noexcept { return hold_ != nullptr; } /* not held() */

    bool held() const noexcept { return hold_ && hf_held(hold_) != 0; }
    milliseconds remaining() const noexcept {
        return milliseconds(hold_ ? hf_remaining_ms(hold_) : 0);
    }
    std::uint64_t fence() const noexcept { return hold_ ? hf_fence(hold_) : 0; }
    /* The token of one of several names: `i` is its index in the requests. */
    std::uint64_t fence_of(std::size_t i) const noexcept {
        return hold_ ? hf_fence_of(hold_, i) : 0;
    }
    const char *why_lost() const noexcept { return hold_ ? hf_why_lost(hold_) : nullptr; }
    int lost_fd() noexcept { return hold_ ? hf_lost_fd(hold_) : -1; }

    /* Throws unless it is held: HF_LOST, or HF_NOT_HELD for an empty one. No round trip. */
    void check() const {
        if (held()) return;
        if (!hold_) throw error(HF_NOT_HELD, hf_result_text(HF_NOT_HELD));
        const char *why = why_lost(); /* NULL if the deadline has only just passed */
        throw error(HF_LOST, why ? why : "the hold is over");
    }

    void extend(milliseconds lease) { detail::check(hf_extend(hold_, lease.count())); }
    void downgrade() { detail::check(hf_downgrade(hold_)); }
    void upgrade() { detail::check(hf_upgrade(hold_, HF_FOREVER)); }

    /* False if the other readers did not leave in time: it is still a reader's. */
    template <class Rep, class Period>
    bool try_upgrade_for(const std::chrono::duration<Rep, Period> &time) {
        const hf_result result = hf_upgrade(hold_, detail::wait_of(time).count());
        if (!detail::is_taken(result)) detail::check(result);
        return result == HF_OK;
    }

    /* Publish a value; from then on its holder leads. See client::campaign. */
    void proclaim(const std::string &value) {
        detail::check(hf_proclaim(hold_, value.data(), value.size()));
    }

    /*
     * Let the hold leave this process, as hf_export does. The returned text is for client::adopt or
     * client::extend_exported, and the hold is empty then. After an exception it is unchanged, with
     * one difference: after HF_UNKNOWN_OUTCOME it is lost if it was exported.
     */
    std::string leave() {
        std::string text(HF_EXPORT_MAX, '\0');
        detail::check(hf_export(hold_, &text[0], text.size()));
        hold_ = nullptr;
        on_lost_.reset();
        text.resize(text.find('\0'));
        return text;
    }

    /* Throws if it was lost, or if the store did not release it. The hold is empty afterwards. */
    void release() {
        if (!hold_) throw error(HF_NOT_HELD, hf_result_text(HF_NOT_HELD));
        detail::check(end());
    }

    /* Like release(), but returns the result; HF_NOT_HELD for an empty one. */
    hf_result end() noexcept {
        hf_hold *ended = std::exchange(hold_, nullptr);
        const hf_result result = ended ? hf_release(ended) : HF_NOT_HELD;
        on_lost_.reset(); /* after the release, when on_lost does not run any more */
        return result;
    }

    /* For calls of holdfast.h that have no equivalent here. The hold keeps its reference. */
    hf_hold *get() const noexcept { return hold_; }

  private:
    friend class client;
    using lost_function = std::function<void()>;

    /* on_lost may release the hold, which destroys the function: so a copy runs. */
    static void call_on_lost(hf_hold *, void *arg) noexcept {
        const std::shared_ptr<lost_function> on_lost =
            *static_cast<std::shared_ptr<lost_function> *>(arg);
        (*on_lost)();
    }

    hf_hold *hold_ = nullptr;
    /* Behind a pointer: the address that the library has must not change when the hold moves. */
    std::unique_ptr<std::shared_ptr<lost_function>> on_lost_;
};

/* ---- A client ------------------------------------------------------------------------------- */

struct info_free {
    void operator()(hf_info *info) const noexcept { hf_info_free(info); }
};
using info = std::unique_ptr<hf_info, info_free>;

struct leader_free {
    void operator()(hf_leader_info *found) const noexcept { hf_leader_free(found); }
};
/* Empty if nobody leads. */
using leader_info = std::unique_ptr<hf_leader_info, leader_free>;

namespace detail {

/* Keeps what a callback threw until the C function has returned. */
template <class Call> struct listing {
    Call &call;
    std::exception_ptr thrown = nullptr;

    static std::int32_t each(const char *name, const hf_info *found, void *arg) noexcept {
        listing &self = *static_cast<listing *>(arg);
        try {
            return self.call(name, *found) ? 0 : 1;
        } catch (...) {
            self.thrown = std::current_exception();
            return 1;
        }
    }
};

} // namespace detail

/* A connection to a store, for all threads of the process; closed at the end of its scope. It can
   be moved, not copied. */
class client {
  public:
    /* Opens $HOLDFAST_URL. */
    client() { open(nullptr, nullptr); }
    explicit client(const std::string &url) { open(url.c_str(), nullptr); }
    client(const std::string &url, const hf_client_options &options) {
        open(url.c_str(), &options);
    }
    client(client &&) noexcept = default;
    client &operator=(client &&) noexcept = default;

    /* Throws on any result but HF_OK, also on HF_BUSY and HF_TIMEOUT. */
    hold acquire(const std::string &name, const options &how = {}) {
        hold grant;
        detail::check(call_acquire(name, how, grant));
        return grant;
    }
    /* Waits until it is granted. */
    hold lock(const std::string &name) {
        options how;
        how.wait = forever;
        return acquire(name, how);
    }
    /* Empty if another still has it at the end of how.wait; throws on any other failure. */
    hold try_acquire(const std::string &name, const options &how = {}) {
        hold grant;
        const hf_result result = call_acquire(name, how, grant);
        if (!detail::is_taken(result)) detail::check(result);
        return grant;
    }

    /* Several names, all or none, as one hold. kind, permits and capacity are in the requests. */
    hold acquire_all(const std::vector<request> &all, const options &how = {}) {
        hold grant;
        detail::check(call_acquire_all(all, how, grant));
        return grant;
    }
    hold try_acquire_all(const std::vector<request> &all, const options &how = {}) {
        hold grant;
        const hf_result result = call_acquire_all(all, how, grant);
        if (!detail::is_taken(result)) detail::check(result);
        return grant;
    }

    /*
     * Wait to become the leader: acquire `name` and publish the value, as hf_campaign does. Throws
     * as acquire does, and HF_LOST. Ending the hold resigns.
     */
    hold campaign(const std::string &name, const std::string &value, const options &how = {}) {
        hold grant;
        const char *c_name = plain(name);
        const hf_options c = plain(how, grant);
        detail::check(hf_campaign(get(), c_name, value.data(), value.size(), &c, &grant.hold_));
        return grant;
    }
    /* Who leads; empty if nobody does. */
    leader_info leader(const std::string &name) const {
        hf_leader_info *found = nullptr;
        const hf_result result = hf_leader(get(), plain(name), &found);
        if (result != HF_NOT_HELD) detail::check(result);
        return leader_info(found);
    }

    /* Take over a hold that left its process by hold::leave(). */
    hold adopt(const std::string &text, const options &how = {}) {
        hold grant;
        const char *c_text = plain(text, "text");
        const hf_options c = plain(how, grant);
        detail::check(hf_adopt(get(), c_text, &c, &grant.hold_));
        return grant;
    }
    /* Make an exported hold last at least this long from now; 0: its lease. */
    void extend_exported(const std::string &text, milliseconds lease = milliseconds::zero()) {
        detail::check(hf_extend_exported(get(), plain(text, "text"), lease.count()));
    }

    info inspect(const std::string &name) const {
        hf_info *found = nullptr;
        detail::check(hf_inspect(get(), plain(name), &found));
        return info(found);
    }
    /*
     * Call `call(const char *name, const hf_info &)` for each name in use that matches the pattern,
     * as hf_list does, until it returns false. An exception from it ends the listing and is
     * rethrown.
     */
    template <class Call> void list(const std::string &pattern, Call &&call) const {
        detail::listing<Call> each{call};
        const hf_result result =
            hf_list(get(), plain(pattern, "pattern"), detail::listing<Call>::each, &each);
        if (each.thrown) std::rethrow_exception(each.thrown);
        detail::check(result);
    }
    /* End an ownership by force; with a token, only if it has that one. Throws HF_NOT_HELD. */
    void break_lock(const std::string &name, std::uint64_t token = 0) {
        detail::check(hf_break(get(), plain(name), token));
    }
    hf_stats stats() const {
        hf_stats counted{};
        detail::check(hf_stats_get(get(), &counted));
        return counted;
    }
    /* The counters in the OpenMetrics format. */
    std::string metrics() const {
        std::string text(HF_METRICS_MAX, '\0');
        detail::check(hf_metrics_text(get(), &text[0], text.size()));
        text.resize(text.find('\0'));
        return text;
    }

    void close() noexcept { client_.reset(); }
    hf_client *get() const noexcept { return client_.get(); }

  private:
    struct closer {
        void operator()(hf_client *client) const noexcept { hf_close(client); }
    };

    void open(const char *url, const hf_client_options *options) {
        hf_client *opened = nullptr;
        detail::check(hf_open(url, options, &opened));
        client_.reset(opened);
    }

    static std::uint32_t flags(bool renew, bool reentrant, bool fresh_owner = false) noexcept {
        return (renew ? 0u : static_cast<std::uint32_t>(HF_NO_RENEW)) |
               (reentrant ? 0u : static_cast<std::uint32_t>(HF_NOT_REENTRANT)) |
               (fresh_owner ? static_cast<std::uint32_t>(HF_FRESH_OWNER) : 0u);
    }

    static const char *plain(const std::string &text, const char *what = "name") {
        return detail::plain(text, what);
    }

    /* All allocations happen before the request is sent. */
    static hf_options plain(const options &how, hold &grant) {
        hf_options c{};
        c.wait_ms = how.wait.count();
        c.lease_ms = how.lease.count();
        c.max_hold_ms = how.max_hold.count();
        c.owner = how.owner;
        c.cancel = how.cancelled_by ? how.cancelled_by->get() : nullptr;
        c.kind = static_cast<std::uint32_t>(how.kind);
        c.permits = how.permits;
        c.capacity = how.capacity;
        c.flags = flags(how.renew, how.reentrant, how.fresh_owner);
        if (how.on_lost) {
            grant.on_lost_ = std::make_unique<std::shared_ptr<hold::lost_function>>(
                std::make_shared<hold::lost_function>(how.on_lost));
            c.on_lost = hold::call_on_lost;
            c.arg = grant.on_lost_.get();
        }
        return c;
    }

    hf_result call_acquire(const std::string &name, const options &how, hold &grant) {
        const char *c_name = plain(name);
        const hf_options c = plain(how, grant);
        return hf_acquire(get(), c_name, &c, &grant.hold_);
    }

    hf_result call_acquire_all(const std::vector<request> &all, const options &how, hold &grant) {
        std::vector<hf_request> requests;
        requests.reserve(all.size());
        for (const request &each : all) {
            hf_request c{};
            c.name = plain(each.name);
            c.kind = static_cast<std::uint32_t>(each.kind);
            c.permits = each.permits;
            c.capacity = each.capacity;
            c.flags = flags(true, each.reentrant);
            requests.push_back(c);
        }
        const hf_options c = plain(how, grant);
        return hf_acquire_all(get(), requests.data(), requests.size(), &c, &grant.hold_);
    }

    std::unique_ptr<hf_client, closer> client_;
};

/* ---- Latches and observers ------------------------------------------------------------------ */

/* Like std::latch, across machines; an open latch can be set again. See hf_latch_set. */
class latch {
  public:
    latch(client &store, std::string name) : client_(&store), name_(std::move(name)) {
        (void)detail::plain(name_, "name");
    }

    const std::string &name() const noexcept { return name_; }

    /* Begin a round. */
    void set(std::uint32_t count) {
        detail::check(hf_latch_set(client_->get(), name_.c_str(), count));
    }
    /* Returns the remaining count. Throws HF_NOT_HELD, as all below do, if the latch is not set. */
    std::uint32_t count_down(std::uint32_t by = 1) {
        std::uint32_t left = 0;
        detail::check(hf_latch_count_down(client_->get(), name_.c_str(), by, &left));
        return left;
    }
    std::uint32_t left() const {
        std::uint32_t left = 0;
        detail::check(hf_latch_left(client_->get(), name_.c_str(), &left));
        return left;
    }

    /* Throws HF_CANCELLED if cancelled. */
    void wait(cancel *cancelled_by = nullptr) const { (void)await(forever, cancelled_by); }
    bool try_wait() const { return await(milliseconds::zero(), nullptr); }
    template <class Rep, class Period>
    bool wait_for(const std::chrono::duration<Rep, Period> &time,
                  cancel *cancelled_by = nullptr) const {
        return await(detail::wait_of(time), cancelled_by);
    }

  private:
    bool await(milliseconds time, cancel *cancelled_by) const {
        hf_options how{};
        how.wait_ms = time.count();
        how.cancel = cancelled_by ? cancelled_by->get() : nullptr;
        const hf_result result = hf_latch_wait(client_->get(), name_.c_str(), &how);
        if (!detail::is_taken(result)) detail::check(result);
        return result == HF_OK;
    }

    client *client_;
    const std::string name_;
};

/*
 * Calls back with the current leader, or NULL if there is none, and at every change that is seen,
 * as hf_observe does. It runs on the callback thread, until the end of the observer's scope. The
 * callback must not throw.
 */
class observer {
  public:
    using callback = std::function<void(const hf_leader_info *)>;
    using teller = callback; /* its name in 0.1 */

    observer(client &store, const std::string &name, callback on_change)
        : on_change_(std::move(on_change)) {
        detail::check(hf_observe(store.get(), detail::plain(name, "name"), call_back, &on_change_,
                                 &observer_));
    }
    observer(const observer &) = delete;
    observer &operator=(const observer &) = delete;
    ~observer() { hf_unobserve(observer_); }

  private:
    static void call_back(const hf_leader_info *leader, void *arg) noexcept {
        (*static_cast<callback *>(arg))(leader);
    }

    callback on_change_;
    hf_observer *observer_ = nullptr;
};

/* ---- Locks for the standard library's guards ------------------------------------------------ */

namespace detail {

/*
 * One lock and the holds of each thread on it. Holds are kept per thread: after a loss another
 * thread may have the lock before the thread that lost it has unlocked.
 */
class named_lock {
  public:
    named_lock(client &store, std::string name, options how)
        : client_(&store), name_(std::move(name)), how_(std::move(how)) {}
    named_lock(const named_lock &) = delete;
    named_lock &operator=(const named_lock &) = delete;

    const std::string &name() const noexcept { return name_; }

    /* State of this thread's last hold that is not unlocked yet; false or 0 if there is none. */
    bool held() const {
        return query_last([](const hold &mine) { return mine.held(); });
    }
    milliseconds remaining() const {
        return query_last([](const hold &mine) { return mine.remaining(); });
    }
    std::uint64_t fence() const {
        return query_last([](const hold &mine) { return mine.fence(); });
    }

    /* Throws unless this thread holds it: HF_LOST, or HF_NOT_HELD. No round trip. */
    void check() const {
        query_last([](const hold &mine) { return mine.check(), 0; });
    }

  protected:
    bool take(kind as, milliseconds wait) {
        options how = how_;
        how.kind = as;
        how.wait = wait;
        hold grant = client_->try_acquire(name_, how);
        if (!grant) return false;
        const std::lock_guard<std::mutex> guard(mutex_);
        mine_.push_back({std::this_thread::get_id(), as, std::move(grant)});
        return true;
    }

    template <class Clock, class Duration>
    bool take_until(kind as, const std::chrono::time_point<Clock, Duration> &end) {
        /* The wait uses another clock than `Clock`, which may also be set meanwhile. */
        do {
            if (take(as, wait_of(end - Clock::now()))) return true;
        } while (Clock::now() < end);
        return false;
    }

    /* Releases outside the mutex, because a release contacts the store. */
    hf_result give(kind as) noexcept {
        hold ended;
        {
            const std::lock_guard<std::mutex> guard(mutex_);
            for (auto it = mine_.end(); it != mine_.begin() && !ended;) {
                --it;
                if (it->thread != std::this_thread::get_id() || it->as != as) continue;
                ended = std::move(it->what);
                mine_.erase(it);
                break;
            }
        }
        return ended.end();
    }

  private:
    struct entry {
        std::thread::id thread;
        kind as;
        hold what;
    };

    template <class Query>
    auto query_last(Query query) const -> decltype(query(std::declval<hold &>())) {
        const std::lock_guard<std::mutex> guard(mutex_);
        for (auto it = mine_.rbegin(); it != mine_.rend(); ++it)
            if (it->thread == std::this_thread::get_id()) return query(it->what);
        return query(hold());
    }

    client *client_;
    const std::string name_;
    const options how_;
    mutable std::mutex mutex_;
    std::vector<entry> mine_; /* in the order of locking */
};

/* Lockable and TimedLockable, of one kind. */
template <kind As> class exclusive : public named_lock {
  public:
    using named_lock::named_lock;

    void lock() { (void)take(As, forever); }
    bool try_lock() { return take(As, milliseconds::zero()); }
    template <class Rep, class Period>
    bool try_lock_for(const std::chrono::duration<Rep, Period> &time) {
        return take(As, wait_of(time));
    }
    template <class Clock, class Duration>
    bool try_lock_until(const std::chrono::time_point<Clock, Duration> &end) {
        return take_until(As, end);
    }
    hf_result unlock() noexcept { return give(As); }
};

inline options not_reentrant(options how) {
    how.reentrant = false;
    return how;
}

inline options of_capacity(options how, std::uint32_t capacity, std::uint32_t count) {
    how.capacity = capacity;
    how.permits = count;
    return how;
}

} // namespace detail

/*
 * A mutex across machines. These options apply: lease, max_hold, cancelled_by, on_lost and renew.
 * If a thread locks it twice, HF_DEADLOCK is thrown.
 */
class mutex : public detail::exclusive<kind::mutex> {
  public:
    mutex(client &store, std::string name, options how = {})
        : exclusive(store, std::move(name), detail::not_reentrant(std::move(how))) {}
};

/* A mutex that its thread may lock again; it must unlock as often. */
class recursive_mutex : public detail::exclusive<kind::mutex> {
  public:
    recursive_mutex(client &store, std::string name, options how = {})
        : exclusive(store, std::move(name), std::move(how)) {}
};

/*
 * Readers share it (std::shared_lock), a writer has it alone (std::unique_lock). First come, first
 * served: a waiting writer holds back later readers.
 */
class shared_mutex : public detail::exclusive<kind::write> {
  public:
    shared_mutex(client &store, std::string name, options how = {})
        : exclusive(store, std::move(name), detail::not_reentrant(std::move(how))) {}

    void lock_shared() { (void)take(kind::read, forever); }
    bool try_lock_shared() { return take(kind::read, milliseconds::zero()); }
    template <class Rep, class Period>
    bool try_lock_shared_for(const std::chrono::duration<Rep, Period> &time) {
        return take(kind::read, detail::wait_of(time));
    }
    template <class Clock, class Duration>
    bool try_lock_shared_until(const std::chrono::time_point<Clock, Duration> &end) {
        return take_until(kind::read, end);
    }
    hf_result unlock_shared() noexcept { return give(kind::read); }
};

/* At most `capacity` at once: locking takes `count` of them. All users must give the same capacity.
   */
class permits : public detail::exclusive<kind::permits> {
  public:
    permits(client &store, std::string name, std::uint32_t capacity, std::uint32_t count = 1,
            options how = {})
        : exclusive(store, std::move(name), detail::of_capacity(std::move(how), capacity, count)) {}
};

} // namespace holdfast

#endif
