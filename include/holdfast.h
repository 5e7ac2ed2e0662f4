/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holdfast: distributed locks for C, on a database or in a directory.
 *
 *     hf_client *client;
 *     hf_hold *hold;
 *     if (hf_open("redis://localhost", NULL, &client) != HF_OK) ...
 *     if (hf_acquire(client, "orders:42", &(hf_options){ .wait_ms = 5000 }, &hold) == HF_OK) {
 *         write_with_token(hf_fence(hold));      // the resource rejects lower tokens
 *         if (!hf_held(hold)) ...                // local check, no round trip
 *         hf_release(hold);
 *     }
 *     hf_close(client);
 *
 * THE MODEL
 *
 * A *client* is this process's connection to a store. A *hold* is a handle on an ownership, from a
 * successful acquire until its release or its loss. An ownership is a lease: the store forgets it
 * `lease_ms` after it was last renewed. A background thread of the client renews it every third of
 * that time (with HF_NO_THREAD your event loop does). So a process that dies frees its locks after
 * a lease. A process that is cut off from the store treats its locks as lost no later than the
 * store forgets them.
 *
 * WHAT IS PROMISED
 *
 * Until the deadline that hf_remaining_ms() counts down to, nobody else holds the lock. This
 * requires that the store keeps its data, and that clocks run at rates that differ by less than the
 * margin (1 % of the lease plus 2 ms). The deadline counts from *before* the request was sent.
 *
 * No lease can promise more: a process may be paused between the check and the work. Where that
 * matters, pass hf_fence() to the resource, and let it refuse a token lower than the highest it has
 * seen.
 *
 * The library never reports a lock as held if it may not be. An unknown outcome is reported as
 * HF_UNKNOWN_OUTCOME. docs/GUARANTEES.md says what each store adds and what it cannot do.
 *
 * THREADS, SIGNALS, BLOCKING
 *
 * Every function may be called from any thread at any time, on the same client and on the same
 * hold. Only hf_dispatch is limited to one thread at a time. "Blocks" below means that the call
 * waits for one exchange with the store, never longer than the client's command timeout. hf_acquire
 * and related calls also wait as long as their options say.
 *
 * Only these are safe in a signal handler: hf_cancel_fire, hf_held, hf_remaining_ms, hf_fence,
 * hf_fence_of. The client's threads block all signals. The library raises no SIGPIPE and writes to
 * no stream.
 *
 * CAVEATS
 *
 * fork      The child owns nothing: its calls return HF_FORKED, and hf_held returns 0. hf_close,
 *           hf_unref and hf_release only free memory and descriptors. The parent is not affected.
 *           Descriptors are close-on-exec.
 * threads   A thread that ends keeps its holds; release them from another thread.
 * suspend   Deadlines use CLOCK_BOOTTIME, so time spent in suspend counts. After a resume or a
 *           SIGCONT hf_held is correct at once, without a round trip.
 * clocks    No lease, wait or deadline depends on the wall clock of this machine. If a server's
 *           clock is stepped forward by more than the margin, a lease may end early. The token
 *           still protects the resource.
 * failover  A replicated Redis can lose a lock with its primary: see docs/GUARANTEES.md.
 *
 * FROM OTHER LANGUAGES
 *
 * With owner 0 the owner is the calling thread, and an owner that holds a lock re-enters it at
 * once. If tasks share threads (asyncio, goroutines through cgo, fibers, coroutines, thread pools),
 * two tasks would both get the lock. So a binding for such a language passes HF_FRESH_OWNER with
 * every acquire, unless its user names an owner.
 *
 * The library then creates an owner for this acquire alone. It is neither a thread nor a logical
 * owner, so it never collides with a number that a user chooses, and it never re-enters. To acquire
 * a lock again, a task names the same logical owner in both calls. hf_acquire_async with owner 0
 * always has a fresh owner. Any thread may release.
 *
 * OWNERSHIP OF MEMORY
 *
 * Strings and options passed in are copied. Returned handles are freed by the call named with them.
 * A result other than HF_OK sets the out parameter to NULL.
 */
#ifndef HOLDFAST_H
#define HOLDFAST_H

#include <stddef.h>
#include <stdint.h>

#define HF_VERSION_MAJOR 0
#define HF_VERSION_MINOR 2
#define HF_VERSION_PATCH 0

#if defined(__GNUC__) || defined(__clang__)
#define HF_API      __attribute__((visibility("default")))
#define HF_MUST_USE __attribute__((warn_unused_result))
#else
#define HF_API
#define HF_MUST_USE
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Results -------------------------------------------------------------------------------- */

/* Every result: X(name, number, text). Numbers never change; new ones are added at the end. */
#define HF_RESULTS(X)                                                                \
    X(HF_OK, 0, "done")                                                              \
    X(HF_BUSY, 1, "another holds the lock")                                          \
    X(HF_TIMEOUT, 2, "the wait ended before the lock was free")                      \
    X(HF_CANCELLED, 3, "the wait was cancelled")                                     \
    X(HF_LOST, 4, "the lock was lost while held")                                    \
    X(HF_NOT_HELD, 5, "the lock is not held")                                        \
    X(HF_DEADLOCK, 6, "this owner holds the lock already and may not take it again") \
    X(HF_UNREACHABLE, 7, "the store cannot be reached")                              \
    X(HF_REFUSED, 8, "the store refused the request")                                \
    X(HF_UNKNOWN_OUTCOME, 9, "the store did not answer: the outcome is not known")   \
    X(HF_UNSUPPORTED, 10, "not supported by this store or this version")             \
    X(HF_INVALID, 11, "an argument is not valid")                                    \
    X(HF_PROTOCOL, 12, "the store holds or answers what is not Holdfast's")          \
    X(HF_FORKED, 13, "the client belongs to the parent process")                     \
    X(HF_CLOSED, 14, "the client is closed")                                         \
    X(HF_NOMEM, 15, "out of memory, descriptors or threads")                         \
    X(HF_NO_QUORUM, 16, "too few of the nodes can be reached, or may vote")

typedef int32_t hf_result;

enum {
#define HF_RESULT_ENUM(name, number, text) name = number,
    HF_RESULTS(HF_RESULT_ENUM)
#undef HF_RESULT_ENUM
};

/* The name of a result, such as "HF_BUSY", and its meaning in a few words. Never NULL; the name of
   an unknown number is "HF_?". */
HF_API const char *hf_result_name(hf_result result);
HF_API const char *hf_result_text(hf_result result);

/*
 * This thread's last failure, in one line that a person can act on; "" before the first failure.
 * Valid until this thread's next failure. Never contains a password.
 */
HF_API const char *hf_error_detail(void);

/* The version of the library in use, such as 0.2.0 (a string). HF_VERSION_… is the version of the
   header that the program was compiled with. */
HF_API const char *hf_version(void);

/* ---- Types ---------------------------------------------------------------------------------- */

typedef struct hf_client hf_client;
typedef struct hf_hold hf_hold;
typedef struct hf_cancel hf_cancel;
typedef struct hf_observer hf_observer;
typedef struct hf_leader_info hf_leader_info;

/*
 * Called once when a hold is lost. It runs on the client's callback thread, or in hf_dispatch and
 * hf_close if the client has none. No lock of the library is held meanwhile. It never runs on a
 * normal release, and never after hf_release has returned. So it does not run at all for a handle
 * that is released before its turn comes.
 *
 * It may take a long time: only further callbacks wait for it. With HF_NO_THREAD your event loop
 * waits, too. `hold` is borrowed: call hf_ref to keep it. The callback may call any function of the
 * library except hf_close. Releasing the hold here is allowed and returns HF_LOST.
 */
typedef void hf_lost_fn(hf_hold *hold, void *arg);

/* Receives the result of hf_acquire_async: HF_OK with a hold that you must release, or an error
   with NULL. hf_acquire_async says where and when it is called. */
typedef void hf_acquired_fn(hf_result result, hf_hold *hold, void *arg);

/* Receives the result of hf_release_async, the same as hf_release would have returned. */
typedef void hf_released_fn(hf_result result, void *arg);

/* Called with the leader, or NULL if there is none; see hf_observe. `leader` is valid until the
   callback returns. */
typedef void hf_leader_fn(const hf_leader_info *leader, void *arg);

/* Receives one log line, without a newline and without secrets. Any thread may call it, also the
   one that renews holds, with no lock of the library held. It must be quick and must not call the
   library. */
typedef void hf_log_fn(int32_t level, const char *line, void *arg);

enum { HF_LOG_ERROR = 1, HF_LOG_WARNING = 2, HF_LOG_INFO = 3, HF_LOG_DEBUG = 4 };

#define HF_FOREVER INT64_C(-1)

/* Limits, all inclusive. A lease below four times the shortest round trip to the store is refused,
   too. A blocking call measures the round trip again before it refuses. A wait keeps measuring for
   up to the outage time. */
#define HF_NAME_MAX     1024 /* bytes of a name */
#define HF_LEASE_MIN_MS INT64_C(50)
#define HF_LEASE_MAX_MS INT64_C(2592000000) /* 30 days */
#define HF_COUNT_MAX    1000000             /* re-entries of one ownership */
#define HF_LATCH_MAX    1000000000          /* what a latch counts down from */
#define HF_VALUE_MAX    4096                /* bytes of a leader's value */

/*
 * Kinds of lock. HF_MUTEX and HF_WRITE exclude everybody else on a name. Readers share it, and one
 * of them may be upgradable. Permits share it up to their capacity, but not with readers. All are
 * served first come, first served: a waiting writer holds back later readers, and a waiter for many
 * permits holds back later waiters for few.
 */
enum {
    HF_MUTEX = 0,
    HF_READ = 1,
    HF_WRITE = 2,
    HF_UPGRADABLE = 3, /* a reader that may hf_upgrade; one at a time, beside plain readers */
    HF_PERMITS = 4     /* `permits` of `capacity` */
};

#define HF_PERMITS_MAX 1000000 /* the maximum of permits and of capacity */
#define HF_NAMES_MAX   64      /* names in one hf_acquire_all */

/* Flags of hf_options. */
enum {
    HF_NO_RENEW = 1,      /* no automatic renewal: the hold ends with its lease; see hf_extend */
    HF_NOT_REENTRANT = 2, /* a second acquire by the same owner is HF_DEADLOCK */
    HF_FRESH_OWNER = 4 /* a new owner for this acquire, which never re-enters; `owner` must be 0 */
};

/* Flags of hf_client_options. */
enum {
    HF_NO_THREAD = 1 /* start no permanent threads: see hf_fd */
};

/*
 * Options for an acquire. Zero is the default everywhere, so `&(hf_options){0}` and NULL try once.
 * Fields are only ever added at the end. A caller compiled with an older header is understood. A
 * caller compiled with a newer header gets HF_UNSUPPORTED if it sets a field that this library
 * lacks.
 */
typedef struct hf_options {
    int64_t wait_ms;     /* 0: try once (HF_BUSY); HF_FOREVER: until granted, cancelled or closed */
    int64_t lease_ms;    /* 0: the client's (30 s unless set) */
    int64_t max_hold_ms; /* 0: no limit; else lost this long after the request; at least 50 */
    uint64_t owner;      /* 0: this thread; else your logical owner. See FROM OTHER LANGUAGES */
    hf_cancel *cancel;   /* may be fired to end the wait; must outlive the call */
    hf_lost_fn *on_lost; /* called once if the hold is lost */
    void *arg;           /* for on_lost */
    uint32_t kind;       /* HF_MUTEX, HF_READ, … */
    uint32_t permits;    /* HF_PERMITS: how many to acquire, 0 means one; other kinds: 0 */
    uint32_t capacity;   /* HF_PERMITS: the total; fixed by the first holder; other kinds: 0 */
    uint32_t flags;      /* HF_NO_RENEW | HF_NOT_REENTRANT | HF_FRESH_OWNER */
} hf_options;

/* One of the names for hf_acquire_all. The fields are those of hf_options. New fields are added at
   the end. */
typedef struct hf_request {
    const char *name;
    uint32_t kind, permits, capacity;
    uint32_t flags; /* HF_NOT_REENTRANT; the other flags are in the options, for all names */
} hf_request;

/* Options for opening a client. Zero is the default everywhere. Options in the URL override them.
   */
typedef struct hf_client_options {
    int64_t lease_ms;           /* default 30 000 */
    int64_t connect_timeout_ms; /* default 5 000: for connecting, with DNS lookup and login */
    int64_t command_timeout_ms; /* default 5 000: for one exchange with the store */
    int64_t outage_ms;          /* default 10 000: how long a wait tolerates a store that is away */
    const char *label;          /* shown by hf_inspect for locks that this client holds */
    hf_log_fn *log;
    void *log_arg;
    uint32_t log_level; /* HF_LOG_…; 0: HF_LOG_WARNING */
    uint32_t flags;     /* HF_NO_THREAD, or 0 */
} hf_client_options;

/* ---- Opening and closing -------------------------------------------------------------------- */

/*
 * Open a client on the store that a URL names:
 *
 *     file:  file:///dir     locks of this machine, in a directory; docs/FILE-STORE.md
 *     memory:                locks of this process; memory:NAME is a separate space
 *     redis://[[user]:password@]host[:port][/db]    one Redis or Valkey; also redis://[::1]
 *     rediss://…                                    the same over TLS, verified
 *     redis+unix:///path/to/redis.sock              the same over a unix socket; ?db=N
 *     redis+sentinel://s1[:port][,s2…]/NAME[/db]    the primary that Sentinels call NAME;
 *                                                   docs/TOPOLOGIES.md
 *     rediss+sentinel://…                           the same over TLS, to all of them
 *     redis+quorum://n1,n2,n3  rediss+quorum://…    the mutex over 3 to 9 servers; docs/QUORUM.md
 *     redis+cluster://n1[:port][,n2…]               the primaries of a cluster; docs/CLUSTER.md
 *     rediss+cluster://…                            the same over TLS, to all of them
 *
 * Options follow `?`, joined by `&`; durations carry a unit (500ms, 30s, 5m, 1h):
 *
 *     prefix=hf  lease=30s  connect_timeout=5s  command_timeout=5s  outage=10s  label=TEXT
 *     user=NAME  password_file=PATH  db=N
 *     replicas=N                     a grant counts only once N replicas have it
 *     tls_ca=FILE or DIRECTORY  tls_cert=FILE  tls_key=FILE  tls_verify=none
 *     sentinel_user=NAME  sentinel_password_file=PATH  sentinel_password=TEXT
 *     rejoin_delay=30s               (quorum only) a node votes once it has been up this long; no
 *                                    lease may be longer; the same for all clients of the quorum.
 *                                    Below 1s: the nodes never lose data; docs/QUORUM.md
 *     keep=24h  network=allow        (file: only)
 *
 * NULL uses $HOLDFAST_URL. If that is not set either, the result is HF_INVALID: a program must not
 * believe that it excludes other machines when it does not. Reserved characters in user, password
 * and options must be percent-encoded. The call connects and logs in before it returns, and fails
 * at once if it cannot. Threads of one process usually share one client.
 *
 * Blocks for at most connect_timeout. Errors: HF_INVALID (URL, option, a file it names; a lease
 * longer than rejoin_delay), HF_UNSUPPORTED (a scheme this build lacks), HF_UNREACHABLE,
 * HF_REFUSED (password, ACL, TLS, directory), HF_PROTOCOL (not a Redis), HF_NO_QUORUM, HF_NOMEM.
 */
HF_API HF_MUST_USE hf_result hf_open_v(const char *url, const hf_client_options *options,
                                       size_t options_size, hf_client **client);

/*
 * Release all holds, end every wait with HF_CLOSED, and free the client. NULL is allowed. Holds
 * stay valid handles: hf_held returns 0, releasing them returns HF_CLOSED, and on_lost is not
 * called. No other call on the client may begin after this one has begun. Do not call it from a
 * callback of the client. Blocks for at most the command timeout. A hold that could not be released
 * ends with its lease.
 */
HF_API void hf_close(hf_client *client);

/*
 * Where the locks are, if the URL alone does not say it: the directory of `file:`. "" for all other
 * stores. Valid until hf_close. Meant for people to read; never contains a secret.
 */
HF_API const char *hf_where(hf_client *client);

/* ---- Acquiring and releasing ---------------------------------------------------------------- */

/*
 * Acquire the lock `name`, and set *hold. Names are case-sensitive and may contain any bytes except
 * NUL.
 *
 * An owner that already holds the lock re-enters at once, without waiting for the store. It gets a
 * new handle on the same ownership, with the same token, lease and max_hold, and its own on_lost.
 * n acquires need n releases. Threads of one client are served in order of arrival. Clients are
 * served in order of arrival, too, as long as the store can reach them.
 *
 * HF_OK               held; the caller has one reference to *hold
 * HF_BUSY             another holds it or others of this client wait for it, and wait_ms was 0
 * HF_TIMEOUT          another held it during all of wait_ms
 * HF_CANCELLED        options->cancel was fired, before or during the wait
 * HF_DEADLOCK         this owner holds it, and one of the two acquires used HF_NOT_REENTRANT; or
 *                     the call would wait for the owner's own hold, such as a reader that wants to
 *                     write
 * HF_UNREACHABLE      the store or too many of its replicas are away: at once with wait_ms 0, else
 *                     after at most the outage time; nothing was acquired
 * HF_NO_QUORUM        the same, if no majority of the nodes can be reached; or too few were up for
 *                     rejoin_delay
 * HF_UNKNOWN_OUTCOME  a request was sent and not answered; or the wait was in the queue when the
 *                     store went away; or the answer came when the lease was over. If this call did
 *                     acquire the lock, it is released in the background, or ends with its lease
 * HF_REFUSED          the store said no: password, ACL, read-only replica, no memory, disk error
 * HF_PROTOCOL         the answer is not from a Redis, or the lock's key holds something else
 * HF_INVALID, HF_UNSUPPORTED   name or options; the detail says which and what is allowed
 * HF_CLOSED, HF_FORKED, HF_NOMEM
 */
HF_API HF_MUST_USE hf_result hf_acquire_v(hf_client *client, const char *name,
                                          const hf_options *options, size_t options_size,
                                          hf_hold **hold);

/* hf_acquire with default options: hf_lock waits forever, hf_try_lock does not wait. */
HF_API HF_MUST_USE hf_result hf_lock(hf_client *client, const char *name, hf_hold **hold);
HF_API HF_MUST_USE hf_result hf_try_lock(hf_client *client, const char *name, hf_hold **hold);

/*
 * Acquire several names, all or none, as one hold. Every caller acquires names in the same order,
 * so two callers cannot wait for each other. On Redis it takes one step if all are free. Otherwise
 * the names are acquired one after the other, and earlier ones are kept meanwhile.
 *
 * Kinds may be mixed. A name given twice is acquired once, as the stronger of the two kinds; its
 * permits add up. `options` apply to all names; kind, permits and capacity must be 0 there. wait_ms
 * covers the whole call. max_hold_ms and HF_NO_RENEW count from when all are held.
 *
 * The hold is lost as soon as one of its names is lost. The other names stay locked until the hold
 * is released, so nobody enters while the holder stops its work. hf_fence_of returns the tokens.
 * hf_upgrade and hf_downgrade return HF_UNSUPPORTED.
 *
 * The results are those of hf_acquire, for the first name that could not be acquired; nothing is
 * held then. HF_LOST: a name was lost before all were held, with no time left to acquire it again.
 */
HF_API HF_MUST_USE hf_result hf_acquire_all_v(hf_client *client, const hf_request *requests,
                                              size_t count, size_t request_size,
                                              const hf_options *options, size_t options_size,
                                              hf_hold **hold);

/*
 * End this hold and drop the caller's reference, whatever the result. Any thread may do it. The
 * lock is free once every acquire of its owner has been released. NULL is HF_INVALID. Once this
 * call has returned, on_lost does not run any more (unless on_lost itself made this call).
 *
 * HF_OK               released, and nobody else was granted the lock before
 * HF_NOT_HELD         released before, through another reference
 * HF_LOST             it was lost before: the work since may have overlapped with another holder's
 * HF_UNKNOWN_OUTCOME  the store did not answer; the background thread retries until the lease ends.
 *                     Or the answer was lost, the release was repeated, and others have been
 *                     granted the lock since: it was released, or lost before. The detail says
 *                     which
 * HF_CLOSED           the client was closed, which released it
 * HF_FORKED           in a child; only memory was freed
 * HF_REFUSED, HF_PROTOCOL, HF_UNSUPPORTED, HF_NOMEM   not done (see hf_acquire); retried as well
 *
 * Blocks for at most the command timeout, and while on_lost of this handle runs.
 */
HF_API hf_result hf_release(hf_hold *hold);

/*
 * Add or drop a reference to a handle. hf_ref returns the handle; hf_unref allows NULL. Each
 * reference is dropped by one hf_release or one hf_unref. Dropping the last reference of a hold
 * that was not released releases it, without waiting for the store.
 */
HF_API hf_hold *hf_ref(hf_hold *hold);
HF_API void hf_unref(hf_hold *hold);

/*
 * Make the hold last for at least `lease_ms` from now. The time counts from before the request was
 * sent. It never shortens the hold, and never goes past max_hold. Automatic renewal continues at
 * the interval of the acquire.
 *
 * Blocks. HF_OK, HF_LOST, HF_NOT_HELD, HF_INVALID (not a valid lease, or on a quorum longer than
 * rejoin_delay), HF_UNREACHABLE (nothing was done), HF_UNKNOWN_OUTCOME (the old deadline remains),
 * HF_REFUSED, HF_PROTOCOL, HF_CLOSED, HF_FORKED, HF_NOMEM.
 */
HF_API HF_MUST_USE hf_result hf_extend(hf_hold *hold, int64_t lease_ms);

/*
 * Turn an HF_UPGRADABLE hold into a writer's. It waits until the other readers have left, ahead of
 * everybody else in the queue. All handles of the ownership are then a writer's, with a new token.
 * With any result but HF_OK, the hold stays as it was.
 *
 * The results are those of hf_acquire with wait_ms, and HF_LOST and HF_NOT_HELD. HF_DEADLOCK: the
 * hold is a plain reader's, which could only wait for itself. HF_INVALID: it is of any other kind.
 * HF_OK also if it is a writer's already.
 */
HF_API HF_MUST_USE hf_result hf_upgrade(hf_hold *hold, int64_t wait_ms);

/*
 * Turn a writer's hold into a reader's, or back into an upgradable one if it was upgraded. The lock
 * is never free in between: nobody else writes before this hold is released.
 *
 * Blocks as hf_extend does, with its results. HF_INVALID: it is a mutex or permits. HF_OK also if
 * it is a reader's already. After HF_UNKNOWN_OUTCOME this client treats it as a reader's, and sends
 * the change to the store again.
 */
HF_API HF_MUST_USE hf_result hf_downgrade(hf_hold *hold);

/* ---- Holds that leave their process ---------------------------------------------------------- */

#define HF_EXPORT_MAX 3584 /* maximum bytes that hf_export writes, including the NUL */

/*
 * Let a hold of kind HF_MUTEX leave this process. It lasts for its lease from now, without renewal,
 * until a process adopts it with the line of printable characters written to `text`. The text is
 * not a secret, but it lets anybody who may use the store release the lock. The handle and its
 * reference end as with hf_release; on_lost is not called any more.
 *
 * HF_OK               exported; the reference was dropped. With any other result the reference
 *                     remains
 * HF_UNKNOWN_OUTCOME  the store did not answer. If it was exported, it is lost here and ends with
 *                     its lease
 * HF_UNSUPPORTED      a store where holds end with their process (file:, memory:); another kind; a
 *                     hold of several names
 * HF_INVALID          no hold, buffer too small, or its owner has entered more than once
 * HF_LOST, HF_NOT_HELD, HF_UNREACHABLE, HF_REFUSED, HF_PROTOCOL, HF_CLOSED, HF_FORKED, HF_NOMEM:
 *                     nothing was done
 *
 * Blocks as hf_extend does.
 */
HF_API HF_MUST_USE hf_result hf_export(hf_hold *hold, char *text, size_t size);

/*
 * Take over a hold that this or another process has exported. From now on it is a hold of this
 * client, under its token, with its lease restarted. It is renewed unless HF_NO_RENEW is set. These
 * options may be set: lease_ms (0: as before), max_hold_ms, on_lost, arg and flags. The same `text`
 * cannot be adopted twice. The hold has its own owner, which never re-enters.
 *
 * HF_OK               adopted
 * HF_LOST             it has expired, or was released, broken, or adopted before
 * HF_BUSY             others of this client wait for the lock, and nothing was done; adopt with a
 *                     separate client
 * HF_INVALID          not an exported text, or an option that may not be set
 * HF_UNKNOWN_OUTCOME  the store did not answer; it is released in the background or ends with its
 *                     lease
 * HF_UNREACHABLE      nothing was done
 * HF_UNSUPPORTED      as for hf_export
 * HF_REFUSED, HF_PROTOCOL, HF_CLOSED, HF_FORKED, HF_NOMEM
 *
 * Blocks for at most the command timeout.
 */
HF_API HF_MUST_USE hf_result hf_adopt_v(hf_client *client, const char *text,
                                        const hf_options *options, size_t options_size,
                                        hf_hold **hold);

/*
 * Make an exported hold last at least `lease_ms` from now; 0 means its lease. It never shortens the
 * hold. Blocks as hf_inspect does. HF_OK; HF_LOST: it has ended; HF_UNKNOWN_OUTCOME; the other
 * results are those of hf_adopt.
 */
HF_API HF_MUST_USE hf_result hf_extend_exported(hf_client *client, const char *text,
                                                int64_t lease_ms);

/* ---- State of a hold (none of these blocks or contacts the store) --------------------------- */

/* Whether this handle holds the lock now: 1 if not released, not lost and before its deadline. */
HF_API int32_t hf_held(const hf_hold *hold);

/* Milliseconds until the deadline if nothing renews it; 0 when not held. */
HF_API int64_t hf_remaining_ms(const hf_hold *hold);

/* The fencing token. It is strictly greater than that of every earlier ownership of this name. It
   gives no order among readers or permits, which hold at the same time. Upgrading changes it. It
   stays readable after release or loss. */
HF_API uint64_t hf_fence(const hf_hold *hold);

/* The fencing token of one of several names. `i` is its index in the requests of hf_acquire_all; 0
   is returned if it is out of range. */
HF_API uint64_t hf_fence_of(const hf_hold *hold, size_t i);

/*
 * A descriptor that polls readable once the hold is lost. It is created at the first call, shared
 * by the handles of an ownership and closed with the last of them. Do not read from it. -1 if none
 * is available, or in a forked child.
 */
HF_API int32_t hf_lost_fd(hf_hold *hold);

/* Why the hold was lost, in one line. NULL if it was not lost, or if the loss was not noticed yet:
   hf_held is 0 at once past the deadline, and the reason follows when the client has processed the
   loss. Valid as long as the reference. */
HF_API const char *hf_why_lost(const hf_hold *hold);

/* ---- Cancelling ----------------------------------------------------------------------------- */

/*
 * End waits from another thread or a signal handler. One hf_cancel may serve many waits, one after
 * another or at once. Firing is permanent: waits that use it end with HF_CANCELLED, and later calls
 * with it fail at once. Free it when no call uses it any more. hf_cancel_new returns NULL if memory
 * or descriptors run out. NULL may be fired and freed.
 */
HF_API hf_cancel *hf_cancel_new(void);
HF_API void hf_cancel_fire(hf_cancel *cancel);
HF_API void hf_cancel_free(hf_cancel *cancel);

/* ---- Async calls ----------------------------------------------------------------------------- */

/*
 * Start to acquire without blocking. The callback runs exactly once, with the result that
 * hf_acquire would have returned. On HF_OK the hold belongs to the callback. Otherwise it is NULL,
 * and hf_error_detail says more inside the callback. If this call itself does not return HF_OK,
 * nothing was started and no callback runs. The options are copied. A cancel must live until the
 * callback runs. With owner 0 the owner is a fresh one, which never re-enters; hf_inspect shows it
 * like a thread.
 *
 * Callbacks run on the client's callback thread, one after another, or in hf_dispatch and hf_close
 * if the client has none. They never run inside another of your calls, and no lock of the library
 * is held. They may call everything except hf_close. hf_close ends waits with HF_CLOSED and, if the
 * store does not answer, releases with HF_UNKNOWN_OUTCOME. It returns when all callbacks have
 * returned.
 *
 * Earlier callbacks may take so long that a granted lock ends before its own callback runs. The
 * callback then gets HF_LOST and no hold; on_lost is not called for it.
 *
 * Does not block. Errors: HF_INVALID, HF_UNSUPPORTED, HF_CANCELLED (fired before), HF_NOMEM,
 * HF_CLOSED, HF_FORKED. All other errors go to the callback.
 */
HF_API HF_MUST_USE hf_result hf_acquire_async_v(hf_client *client, const char *name,
                                                const hf_options *options, size_t options_size,
                                                hf_acquired_fn *fn, void *arg);

/*
 * Start to release without blocking. The callback gets the result that hf_release would have
 * returned. The reference is dropped, as by hf_release, unless this call returns HF_NOMEM or
 * HF_INVALID. Once the callback runs, on_lost of the hold does not run any more.
 *
 * Does not block. Errors, after which no callback runs: HF_NOT_HELD, HF_CLOSED, HF_LOST (after
 * hf_close, and lost before it), HF_FORKED, HF_NOMEM, HF_INVALID.
 */
HF_API hf_result hf_release_async(hf_hold *hold, hf_released_fn *fn, void *arg);

/*
 * Run a client in your own event loop. A client opened with HF_NO_THREAD starts no threads except a
 * short-lived DNS lookup; use an IP address to avoid it. Poll hf_fd for reading, and call
 * hf_dispatch whenever it is readable. hf_dispatch does all work that is due, including renewals,
 * and runs callbacks. Only one thread at a time may call it, so callbacks run one after another.
 *
 * Do not read from the descriptor. It belongs to the client and stays the same until hf_close, even
 * if connections change. If the loop does not call hf_dispatch for a whole lease, its holds are
 * lost. Blocking calls work as usual, and do pending work meanwhile, but run no callbacks. hf_fd is
 * -1 for a client with threads, or in a forked child.
 *
 * hf_dispatch does not block. Errors: HF_INVALID (the client has threads), HF_CLOSED, HF_FORKED.
 */
HF_API int32_t hf_fd(hf_client *client);
HF_API HF_MUST_USE hf_result hf_dispatch(hf_client *client);

/* ---- Inspecting and breaking ---------------------------------------------------------------- */

/* A client in the queue of a lock. It has one entry, whichever of its threads wait. */
typedef struct hf_waiter {
    int64_t pid;        /* 0: unknown */
    const char *client; /* a UUID; on file: a number that the directory assigns */
    const char *owner;  /* as in hf_info; "" if unknown */
    const char *host;
    const char *program;
    const char *label;
} hf_waiter;

/* The state of a lock: its holder and how many wait. Strings are never NULL; "" means unknown.
   Allocated by the library; fields are only ever added at the end. */
typedef struct hf_info {
    int32_t held;         /* 0: free; all fields below are zero or "", except those about waiters */
    uint32_t kind;        /* HF_MUTEX, HF_READ, …; with several holders HF_READ or HF_PERMITS */
    uint32_t count;       /* how many times its owner has entered */
    uint32_t waiting;     /* clients in the queue, also of a free lock; first 64 in `waiters` */
    int64_t remaining_ms; /* until the store forgets the hold, if it is not renewed */
    uint64_t token;
    int64_t since_unix_ms; /* when it was granted, by the store's clock */
    int64_t pid;           /* of the holder; 0: unknown */
    const char *client;    /* the holder's client, a UUID */
    const char *owner;     /* "t3" is the third thread that locked, "o7" the logical owner 7; fresh
                              owners count as threads */
    const char *host;
    const char *program;
    const char *label;
    const hf_waiter *waiters; /* in queue order */
    uint32_t holders;         /* how many; the fields above describe one of them */
    uint32_t used, capacity;  /* HF_PERMITS */
} hf_info;

/*
 * Ask the store who holds `name`. *info is freed with hf_info_free. Blocks. HF_OK also when it is
 * free; HF_UNREACHABLE, HF_REFUSED, HF_PROTOCOL, HF_UNSUPPORTED, HF_INVALID, HF_CLOSED, HF_FORKED,
 * HF_NOMEM.
 */
HF_API HF_MUST_USE hf_result hf_inspect(hf_client *client, const char *name, hf_info **info);
HF_API void hf_info_free(hf_info *info);

/* Called for each name in use, see hf_list. Return 0 to continue, anything else to end the listing.
   The arguments are valid until it returns. */
typedef int32_t hf_list_fn(const char *name, const hf_info *info, void *arg);

/*
 * List the names in use: `fn` is called for each name that is held or waited for and matches
 * `pattern`. NULL matches all names. Patterns work as in a shell:
 *
 *     *        any bytes
 *     ?        any one byte
 *     [a-z]    one of these
 *     [!a-z]   one of the others
 *     \        makes the next character literal
 *
 * The info is that of hf_inspect, with less about waiters: their number, and for the first 64 only
 * client and owner.
 *
 * The order depends on the store. A name that is in use during the whole call is listed. A name
 * acquired or released meanwhile may be listed or not. A name may be listed twice. On Redis the
 * call scans the keys of the database in small steps (SCAN). This does not block others, but takes
 * time if there are many keys.
 *
 * Callbacks run in this call, with no lock of the library held. They may call everything except
 * hf_close. Each step blocks as hf_inspect does, with its results. HF_OK also if the callback ended
 * the listing.
 */
HF_API HF_MUST_USE hf_result hf_list(hf_client *client, const char *pattern, hf_list_fn *fn,
                                     void *arg);

/*
 * End the ownership of `name` by force, whoever has it. With a token other than 0, do so only if
 * the ownership has that token. The call is meant for operators. The holder is told as for any
 * loss, no later than its next renewal. Blocks. HF_OK, HF_NOT_HELD (free, or held under another
 * token: the detail says which), HF_UNREACHABLE, HF_UNKNOWN_OUTCOME, HF_REFUSED, HF_PROTOCOL,
 * HF_UNSUPPORTED, HF_INVALID, HF_CLOSED, HF_FORKED, HF_NOMEM.
 */
HF_API HF_MUST_USE hf_result hf_break(hf_client *client, const char *name, uint64_t token);

/* ---- Latches -------------------------------------------------------------------------------- */

/*
 * A latch is set to a count and counted down. When the count reaches zero it opens, and all waiters
 * continue. Latches have their own names: a latch and a lock of the same name are unrelated. The
 * store forgets a latch a day after it was last set, counted down or queried.
 *
 * Setting a latch begins a new round, whether or not the previous one completed. A waiter is
 * released when the round it joined, or a later one, completes. A round that completed unnoticed,
 * because the latch was set again at once, still releases its waiters. A round that was abandoned
 * half way releases none. Each count-down counts once, even if its answer was lost and the library
 * has repeated the request. docs/LATCH.md says more.
 */

/*
 * Begin a round with `count` to be counted down. `count` is 0 to HF_LATCH_MAX; 0 is open at once.
 * Blocks, and tolerates an outage: for at most the outage time and the command timeout.
 *
 * HF_OK; HF_UNKNOWN_OUTCOME (sent and not answered: it may have begun a round, or may still do so
 * within the outage time); HF_UNREACHABLE (nothing was done); HF_REFUSED, HF_PROTOCOL,
 * HF_UNSUPPORTED, HF_INVALID, HF_CLOSED, HF_FORKED, HF_NOMEM.
 */
HF_API HF_MUST_USE hf_result hf_latch_set(hf_client *client, const char *name, uint32_t count);

/*
 * Count a latch down. `by` is 1 to HF_LATCH_MAX; the count never goes below zero. *left is set to
 * the remaining count (`left` may be NULL). Blocks as hf_latch_set does, with its results, and
 * HF_NOT_HELD: the latch is not set, and nothing was counted.
 */
HF_API HF_MUST_USE hf_result hf_latch_count_down(hf_client *client, const char *name, uint32_t by,
                                                 uint32_t *left);

/*
 * Wait until the latch is open. Only wait_ms and cancel may be set in the options.
 *
 * HF_OK               the round that was current at the start, or a later one, has completed
 * HF_BUSY             it is not open, and wait_ms was 0
 * HF_TIMEOUT          it was not open during all of wait_ms
 * HF_CANCELLED        options->cancel was fired, before or during the wait
 * HF_NOT_HELD         the latch is not set; or it was, and the store has lost it: see the detail
 * HF_UNREACHABLE      the store is away, for the outage time, or at the end of wait_ms
 * HF_REFUSED, HF_PROTOCOL, HF_INVALID, HF_UNSUPPORTED, HF_CLOSED, HF_FORKED, HF_NOMEM
 *
 * Blocks for wait_ms; with wait_ms 0 for at most the command timeout.
 */
HF_API HF_MUST_USE hf_result hf_latch_wait_v(hf_client *client, const char *name,
                                             const hf_options *options, size_t options_size);

/* Get the remaining count of this round. Blocks as hf_inspect does, with its results; HF_NOT_HELD:
   not set. */
HF_API HF_MUST_USE hf_result hf_latch_left(hf_client *client, const char *name, uint32_t *left);

/* ---- Leader election ------------------------------------------------------------------------ */

/*
 * A leader holds the lock `name` and has published a value under its token. The value may be empty,
 * but a holder that has published none is not a leader. The value ends with the hold, and is never
 * shown with the token of another. docs/LEADER.md says more.
 */

/* A leader and its value. Allocated by the library; fields are only ever added at the end. Strings
   are never NULL; "" means unknown. */
struct hf_leader_info {
    uint64_t token;       /* hf_fence of the leader's hold */
    int64_t remaining_ms; /* until the store forgets the hold, if it is not renewed */
    int64_t pid;          /* 0: unknown */
    const char *value;    /* any bytes, followed by a NUL that value_length does not count */
    const char *client;   /* a UUID */
    const char *host;
    const char *program;
    const char *label;
    uint32_t value_length;
};

/*
 * Wait to become the leader. This acquires `name` as hf_acquire does, with its options (the kind is
 * HF_MUTEX) and results. Then it publishes `value`, of at most HF_VALUE_MAX bytes; NULL with a
 * length of 0 is an empty value. The hold is like any other: hf_release resigns. An owner that
 * already holds the lock re-enters it, and its value is replaced.
 *
 * Also HF_LOST: it was granted, and lost before the value was published. HF_UNKNOWN_OUTCOME also if
 * the store did not say whether the value was published. In both cases nothing is held, and on_lost
 * may have been called.
 */
HF_API HF_MUST_USE hf_result hf_campaign_v(hf_client *client, const char *name, const void *value,
                                           size_t value_length, const hf_options *options,
                                           size_t options_size, hf_hold **hold);

/*
 * Publish a new value with a hold (of kind HF_MUTEX). If it is the first value, its holder becomes
 * the leader. Blocks. HF_OK, HF_LOST, HF_NOT_HELD (released), HF_INVALID, HF_UNREACHABLE (nothing
 * was done), HF_UNKNOWN_OUTCOME, HF_REFUSED, HF_PROTOCOL, HF_UNSUPPORTED, HF_CLOSED, HF_FORKED,
 * HF_NOMEM.
 */
HF_API HF_MUST_USE hf_result hf_proclaim(hf_hold *hold, const void *value, size_t value_length);

/*
 * Ask who leads. *info is freed with hf_leader_free. Blocks. HF_OK; HF_NOT_HELD: nobody leads; and
 * the results of hf_inspect.
 */
HF_API HF_MUST_USE hf_result hf_leader(hf_client *client, const char *name, hf_leader_info **info);
HF_API void hf_leader_free(hf_leader_info *info);

/*
 * Observe who leads. The callback is called with the current leader, and then at every change that
 * is seen: another leader, another value, or none. Reports are in order, and the last state is
 * always reported. Changes that come faster than they can be observed or reported may be reported
 * as one. Without any notification, the end of a leader is seen when its lease ends, and a
 * resignation within a second. While the store is away nothing is reported, and nothing is known.
 * To make a decision, let the leader itself call hf_held, or send its token along.
 *
 * Callbacks run as those of hf_acquire_async do, one after another, with no lock held. They may
 * call everything except hf_close. Does not block. HF_OK, HF_INVALID, HF_NOMEM, HF_CLOSED,
 * HF_FORKED.
 */
HF_API HF_MUST_USE hf_result hf_observe(hf_client *client, const char *name, hf_leader_fn *fn,
                                        void *arg, hf_observer **observer);

/*
 * End an observer and free it; NULL is allowed. Once this call has returned, the callback does not
 * run any more, unless the callback itself made this call. Call it after hf_close, too: that ends
 * the callbacks, but does not free the observer.
 */
HF_API void hf_unobserve(hf_observer *observer);

/* ---- Counters ------------------------------------------------------------------------------- */

/*
 * A histogram of durations. `bucket[i]` counts durations of at most 2^i microseconds that are in no
 * earlier bucket. The first is for up to one microsecond, the 21st for up to about a second. The
 * last has all longer ones. This struct does not grow.
 */
#define HF_BUCKETS 40

typedef struct hf_histogram {
    uint64_t count;
    uint64_t sum_us; /* sum of all, in microseconds */
    uint64_t bucket[HF_BUCKETS];
} hf_histogram;

/* Counters since the client was opened. Fields are only ever added at the end. */
typedef struct hf_stats {
    uint64_t acquired;    /* ownerships granted */
    uint64_t reentered;   /* acquires that re-entered an ownership */
    uint64_t released;    /* ownerships ended by their holder */
    uint64_t refused;     /* acquires that ended without the lock */
    uint64_t lost;        /* ownerships lost */
    uint64_t renewed;     /* renewals confirmed */
    uint64_t commands;    /* commands sent to the store */
    uint64_t reconnects;  /* connections made after the first */
    uint64_t held;        /* current ownerships */
    uint64_t waiting;     /* calls that are waiting now */
    uint64_t handed_over; /* acquires that waited while another had the lock, and then got it */
    hf_histogram waits;   /* granted acquires, from the call to the grant; without re-entries */
    hf_histogram holds;   /* ended ownerships, from the grant to the release or the loss */
} hf_stats;

/* Get the counters. It fills in at most `size` bytes of *stats. HF_OK, HF_INVALID, HF_CLOSED,
   HF_FORKED. */
HF_API HF_MUST_USE hf_result hf_stats_get_v(hf_client *client, hf_stats *stats, size_t size);

/*
 * The counters as text in the OpenMetrics format, for Prometheus and compatible tools. The text has
 * counters, gauges and the two histograms in seconds. All names begin with holdfast_; the end is
 * "# EOF" and a NUL. It describes one client. Serve it as application/openmetrics-text;
 * version=1.0.0; charset=utf-8, or write it to a file. HF_METRICS_MAX bytes are enough, now and in
 * later versions of this header. Does not block.
 *
 * HF_OK; HF_INVALID: no buffer, or it is too small, and *buffer is "" then; HF_CLOSED, HF_FORKED.
 */
#define HF_METRICS_MAX 32768
HF_API HF_MUST_USE hf_result hf_metrics_text(hf_client *client, char *buffer, size_t size);

/* ---- Wrappers for C ------------------------------------------------------------------------- */

static inline HF_MUST_USE hf_result hf_open(const char *url, const hf_client_options *options,
                                            hf_client **client) {
    return hf_open_v(url, options, sizeof(hf_client_options), client);
}

static inline HF_MUST_USE hf_result hf_acquire(hf_client *client, const char *name,
                                               const hf_options *options, hf_hold **hold) {
    return hf_acquire_v(client, name, options, sizeof(hf_options), hold);
}

static inline HF_MUST_USE hf_result hf_acquire_all(hf_client *client, const hf_request *requests,
                                                   size_t count, const hf_options *options,
                                                   hf_hold **hold) {
    return hf_acquire_all_v(client, requests, count, sizeof *requests, options, sizeof *options,
                            hold);
}

static inline HF_MUST_USE hf_result hf_acquire_async(hf_client *client, const char *name,
                                                     const hf_options *options, hf_acquired_fn *fn,
                                                     void *arg) {
    return hf_acquire_async_v(client, name, options, sizeof(hf_options), fn, arg);
}

static inline HF_MUST_USE hf_result hf_adopt(hf_client *client, const char *text,
                                             const hf_options *options, hf_hold **hold) {
    return hf_adopt_v(client, text, options, sizeof(hf_options), hold);
}

static inline HF_MUST_USE hf_result hf_latch_wait(hf_client *client, const char *name,
                                                  const hf_options *options) {
    return hf_latch_wait_v(client, name, options, sizeof(hf_options));
}

static inline HF_MUST_USE hf_result hf_campaign(hf_client *client, const char *name,
                                                const void *value, size_t value_length,
                                                const hf_options *options, hf_hold **hold) {
    return hf_campaign_v(client, name, value, value_length, options, sizeof(hf_options), hold);
}

static inline HF_MUST_USE hf_result hf_stats_get(hf_client *client, hf_stats *stats) {
    return hf_stats_get_v(client, stats, sizeof(hf_stats));
}

/*
 * A hold that is released at the end of its scope (gcc and clang). It must be initialised:
 *
 *     HF_SCOPED hf_hold *hold = NULL;
 */
static inline void hf_scoped_release(hf_hold **hold) {
    if (*hold) (void)hf_release(*hold);
}
#if defined(__GNUC__) || defined(__clang__)
#define HF_SCOPED __attribute__((cleanup(hf_scoped_release)))
#endif

#ifdef __cplusplus
}
#endif

#endif
