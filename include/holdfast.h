/*
 * Holdfast: locks that hold across machines.
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
 * A *client* is this process's connection to a store. A *hold* is a handle on an ownership: from a
 * successful acquire until its release, or until it is lost. An ownership is a lease: the store
 * forgets it `lease_ms` after it was last renewed, and a background thread of the client, the
 * keeper, renews it every third of that (with HF_NO_THREAD your event loop does). So a process that
 * dies frees its locks after a lease, and a process that is cut off from the store loses its locks
 * no later than the store forgets them.
 *
 * WHAT IS PROMISED
 *
 * Until the deadline that hf_remaining_ms() counts down to, nobody else holds the lock, provided
 * the store keeps its data and clocks run at rates that differ by less than the margin (1 % of the
 * lease, and 2 ms). The deadline counts from *before* the request was sent. No lease can promise
 * more: a process may be paused between the check and the work. Where that matters, pass
 * hf_fence() to the resource and let it refuse a token lower than the highest it has seen.
 * Nothing is ever reported as held that may not be, and an outcome that is not known is reported
 * as HF_UNKNOWN_OUTCOME. docs/GUARANTEES.md says what each store adds and what it cannot.
 *
 * THREADS, SIGNALS, BLOCKING
 *
 * Every function may be called from any thread at any time, on the same client and on the same
 * hold; hf_dispatch by one thread at a time. "Blocks" below means for one exchange with the store,
 * never longer than the client's command timeout; hf_acquire and its kin also wait as long as they
 * were asked to.
 * Safe in a signal handler: hf_cancel_fire, hf_held, hf_remaining_ms, hf_fence, hf_fence_of; nothing
 * else.
 * The client's threads block all signals. The library raises no SIGPIPE and writes to no stream.
 *
 * CAVEATS
 *
 * fork     The child owns nothing: its calls return HF_FORKED, hf_held is 0; hf_close, hf_unref and
 *          hf_release only free memory and descriptors. The parent is undisturbed. Descriptors
 *          are close-on-exec.
 * threads  A thread that ends keeps its holds; release them from another thread.
 * suspend  Deadlines are on CLOCK_BOOTTIME: time asleep counts. After a resume or a SIGCONT hf_held
 *          is right at once, without a round trip.
 * clocks   No lease, wait or deadline depends on the wall clock of this machine. A server's clock
 *          stepped forward by more than the margin can end a lease early; the token still fences.
 * failover  A replicated Redis can lose a lock with its primary: see docs/GUARANTEES.md.
 *
 * FROM OTHER LANGUAGES
 *
 * With owner 0 the owner is the calling thread, and an owner that holds a lock takes it again at
 * once. Where tasks share threads (asyncio, goroutines by way of cgo, fibers, coroutines, pools of
 * threads), two tasks would both get the lock. So a binding for such a language passes
 * HF_FRESH_OWNER with every acquire, unless its user names an owner. The library then makes an owner
 * for this acquire alone. It is neither a thread nor a logical owner, so no number that a user
 * chooses collides with it, and it never re-enters. To take a lock again a task names one logical
 * owner in both calls. hf_acquire_async with owner 0 has a fresh owner anyway. Any thread may release.
 *
 * OWNERSHIP OF MEMORY
 *
 * Strings and options passed in are copied. Handles returned are freed by the call named with them.
 * A result other than HF_OK leaves the out parameter NULL.
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

/* "HF_BUSY", and what it means in a few words. Never NULL; an unknown number is "HF_?". */
HF_API const char *hf_result_name(hf_result result);
HF_API const char *hf_result_text(hf_result result);

/*
 * What this thread's last failure was, in one line that a person can act on; "" before the first.
 * Valid until this thread's next failure. Never contains a password.
 */
HF_API const char *hf_error_detail(void);

/* "0.2.0": of the library that runs, where HF_VERSION_… is of the header compiled with. */
HF_API const char *hf_version(void);

/* ---- Types ---------------------------------------------------------------------------------- */

typedef struct hf_client hf_client;
typedef struct hf_hold hf_hold;
typedef struct hf_cancel hf_cancel;
typedef struct hf_observer hf_observer;
typedef struct hf_leader_info hf_leader_info;

/*
 * Told once when a hold is lost, on a thread that the client has for callbacks, or in hf_dispatch
 * and hf_close where it has none; never on a normal release, never after hf_release has returned (so
 * not at all to a handle that is released before its turn comes), never while a lock of the library is
 * held. It may take its time: nothing but further callbacks waits for it, and with HF_NO_THREAD your
 * loop. `hold` is borrowed: hf_ref it to keep it. May call any function of the library but hf_close.
 * Releasing the hold here is allowed (HF_LOST).
 */
typedef void hf_lost_fn(hf_hold *hold, void *arg);

/* What became of hf_acquire_async: HF_OK with a hold that is yours to release, or why not and NULL. See
   there for where and when it is called. */
typedef void hf_acquired_fn(hf_result result, hf_hold *hold, void *arg);

/* What became of hf_release_async, as hf_release would have returned it. */
typedef void hf_released_fn(hf_result result, void *arg);

/* Told who leads, NULL: nobody does; see hf_observe. What it is given is valid until it returns. */
typedef void hf_leader_fn(const hf_leader_info *leader, void *arg);

/* One line without a newline, never a secret. Called by any thread, also the one that renews holds,
   with no lock of the library held: it must be quick, and call nothing of the library. */
typedef void hf_log_fn(int32_t level, const char *line, void *arg);

enum { HF_LOG_ERROR = 1, HF_LOG_WARNING = 2, HF_LOG_INFO = 3, HF_LOG_DEBUG = 4 };

#define HF_FOREVER INT64_C(-1)

/* Limits, all inclusive. A lease below four times the shortest round trip to the store is refused,
   too. A call that blocks measures it again before it refuses; a wait measures for as long as it
   would ride out an outage. */
#define HF_NAME_MAX     1024 /* bytes of a name */
#define HF_LEASE_MIN_MS INT64_C(50)
#define HF_LEASE_MAX_MS INT64_C(2592000000) /* 30 days */
#define HF_COUNT_MAX    1000000             /* re-entries of one ownership */
#define HF_LATCH_MAX    1000000000          /* what a latch counts down from */
#define HF_VALUE_MAX    4096                /* bytes of what a leader says */

/*
 * Kinds of lock. On one name HF_MUTEX and HF_WRITE exclude everybody; readers share it, one of them may be
 * upgradable; permits share it up to their capacity, but not with readers. All are served first come first
 * served: a waiting writer holds back later readers, a large taker of permits later small ones.
 */
enum {
    HF_MUTEX = 0,
    HF_READ = 1,
    HF_WRITE = 2,
    HF_UPGRADABLE = 3, /* a reader that may hf_upgrade: one at a time, beside plain readers */
    HF_PERMITS = 4     /* `permits` of `capacity` */
};

#define HF_PERMITS_MAX 1000000 /* the most permits and capacity */
#define HF_NAMES_MAX   64      /* names taken at once */

/* Flags of hf_options. */
enum {
    HF_NO_RENEW = 1, /* the keeper does not renew: the hold ends with its lease, or hf_extend it */
    HF_NOT_REENTRANT = 2, /* a second acquire by the same owner is HF_DEADLOCK */
    HF_FRESH_OWNER = 4    /* an owner of its own, which never re-enters; `owner` is 0 */
};

/* Flags of hf_client_options. */
enum {
    HF_NO_THREAD = 1 /* start no thread that stays: see hf_fd */
};

/*
 * How to acquire. Zero is the default everywhere, so `&(hf_options){0}` and NULL try once.
 * Fields are only ever added at the end: a caller compiled against an older header is understood,
 * and one compiled against a newer header gets HF_UNSUPPORTED if it sets what this library lacks.
 */
typedef struct hf_options {
    int64_t wait_ms;  /* 0: try once (HF_BUSY); HF_FOREVER: until granted, cancelled or closed */
    int64_t lease_ms; /* 0: the client's (30 s unless set) */
    int64_t
        max_hold_ms; /* 0: none; else the hold is lost this long after it was asked for; 50 up */
    uint64_t owner;  /* 0: this thread; else a logical owner of yours, apart from all threads. Where
                       tasks share threads: see FROM OTHER LANGUAGES */
    hf_cancel *cancel;   /* may be fired to end the wait; outlives the call */
    hf_lost_fn *on_lost; /* told once if the hold is lost */
    void *arg;           /* for on_lost */
    uint32_t kind;       /* HF_MUTEX, HF_READ, … */
    uint32_t permits;    /* HF_PERMITS: how many to take, 0: one; others: 0 */
    uint32_t capacity;   /* HF_PERMITS: of how many; fixed by the first holder; others: 0 */
    uint32_t flags;      /* HF_NO_RENEW | HF_NOT_REENTRANT | HF_FRESH_OWNER */
} hf_options;

/* One of the names for hf_acquire_all; as the fields of hf_options. Grows at the end, too. */
typedef struct hf_request {
    const char *name;
    uint32_t kind, permits, capacity;
    uint32_t flags; /* HF_NOT_REENTRANT; others are said in the options, for all */
} hf_request;

/* How to open. Zero is the default everywhere; options in the URL win over these. */
typedef struct hf_client_options {
    int64_t lease_ms; /* 30 000 */
    int64_t
        connect_timeout_ms; /* 5 000: of a connection attempt, name look-up and login included */
    int64_t command_timeout_ms; /* 5 000: of one exchange with the store */
    int64_t outage_ms;          /* 10 000: how long a wait rides out a store that is away */
    const char *label;          /* shown to whoever inspects a lock held by this client */
    hf_log_fn *log;
    void *log_arg;
    uint32_t log_level; /* HF_LOG_…; 0: HF_LOG_WARNING */
    uint32_t flags;     /* HF_NO_THREAD, or 0 */
} hf_client_options;

/* ---- Opening and closing -------------------------------------------------------------------- */

/*
 * Open a client on the store a URL names:
 *
 *     file:  file:///dir     locks of this machine, in a directory; docs/FILE-STORE.md
 *     memory:                locks of this process; memory:NAME is a space of its own
 *     redis://[[user]:password@]host[:port][/db]    one Redis or Valkey; also redis://[::1]
 *     rediss://…                                    the same over TLS, verified
 *     redis+unix:///path/to/redis.sock              the same over a unix socket; ?db=N
 *     redis+sentinel://s1[:port][,s2…]/NAME[/db]    the primary that Sentinels call NAME; docs/TOPOLOGIES.md
 *     rediss+sentinel://…                           the same over TLS, to all of them
 *     redis+quorum://n1,n2,n3  rediss+quorum://…    the mutex over 3 to 9 servers; docs/QUORUM.md
 *     redis+cluster://n1[:port][,n2…]               the primaries of a cluster; docs/CLUSTER.md
 *     rediss+cluster://…                            the same over TLS, to all of them
 *
 * Options follow `?`, joined by `&`; durations carry a unit (500ms, 30s, 5m, 1h):
 *
 *     prefix=hf  lease=30s  connect_timeout=5s  command_timeout=5s  outage=10s  label=TEXT
 *     user=NAME  password_file=PATH  db=N
 *     replicas=N                     what was granted is on so many replicas, too
 *     tls_ca=FILE or DIRECTORY  tls_cert=FILE  tls_key=FILE  tls_verify=none
 *     sentinel_user=NAME  sentinel_password_file=PATH  sentinel_password=TEXT
 *     rejoin_delay=30s               (quorum only) a node votes when it has been up for so long; no
 *                                    lease may be longer; the same for all clients of the quorum.
 *                                    Below 1s: the nodes never lose data; docs/QUORUM.md
 *     keep=24h  network=allow        (file: only)
 *
 * NULL uses $HOLDFAST_URL; without one it is HF_INVALID: a program must not believe that it
 * excludes other machines when it does not. Reserved characters in user, password and options are
 * percent-encoded. Connects and logs in before it returns, and fails at once if it cannot.
 * Threads of one process usually share one client.
 *
 * Blocks for at most connect_timeout. Errors: HF_INVALID (URL, option, a file it names; a lease
 * longer than rejoin_delay), HF_UNSUPPORTED (a scheme this build lacks), HF_UNREACHABLE,
 * HF_REFUSED (password, ACL, TLS, directory), HF_PROTOCOL (not a Redis), HF_NO_QUORUM, HF_NOMEM.
 */
HF_API HF_MUST_USE hf_result hf_open_v(const char *url, const hf_client_options *options,
                                       size_t options_size, hf_client **client);

/*
 * Release what is held, end every wait with HF_CLOSED, and free the client. NULL is allowed.
 * Holds stay valid handles: hf_held is 0 and releasing them is HF_CLOSED; on_lost is not called.
 * No call on the client may begin after this one did. Not from a callback of the client.
 * Blocks for at most the command timeout; what could not be released ends with its lease.
 */
HF_API void hf_close(hf_client *client);

/*
 * Where the locks are, if the URL alone does not say: the directory of `file:`. "" where it does, as
 * for all other stores. Valid until hf_close. For people, and never a secret.
 */
HF_API const char *hf_where(hf_client *client);

/* ---- Acquiring and releasing ---------------------------------------------------------------- */

/*
 * Acquire `name`, and set *hold. Names are case-sensitive and may hold any bytes but NUL.
 *
 * An owner that holds the lock already re-enters at once, without waiting for the store: a new
 * handle on the same ownership, with its token, lease and max_hold, and an on_lost of its own; n
 * acquires need n releases. Threads of one client are served in order of arrival; so are clients among
 * each other, as long as the store can reach them.
 *
 * HF_OK               held; the caller has one reference to *hold
 * HF_BUSY             another holds it or others of this client wait for it, and wait_ms was 0
 * HF_TIMEOUT          another held it for all of wait_ms
 * HF_CANCELLED        options->cancel was fired, before or meanwhile
 * HF_DEADLOCK         this owner holds it and either acquire said HF_NOT_REENTRANT
 * HF_UNREACHABLE      the store is away, or too few replicas are: at once with wait_ms 0, else after the
 *                     outage time at most; nothing was taken
 * HF_NO_QUORUM        the same, of a majority of the nodes; or too few have been up for rejoin_delay
 * HF_UNKNOWN_OUTCOME  a request was sent and not answered; or the wait stood in line when the store
 *                     went away; or the answer came after its lease. Should it have taken the lock,
 *                     it is released behind, or ends with its lease
 * HF_REFUSED          the store said no: password, ACL, read-only replica, no memory, disk error
 * HF_PROTOCOL         the answer was no Redis', or the lock's key holds something else
 * HF_INVALID, HF_UNSUPPORTED   name or options; the detail says which and what is allowed
 * HF_CLOSED, HF_FORKED, HF_NOMEM
 */
HF_API HF_MUST_USE hf_result hf_acquire_v(hf_client *client, const char *name,
                                          const hf_options *options, size_t options_size,
                                          hf_hold **hold);

/* hf_acquire with default options that waits for ever, and one that does not wait at all. */
HF_API HF_MUST_USE hf_result hf_lock(hf_client *client, const char *name, hf_hold **hold);
HF_API HF_MUST_USE hf_result hf_try_lock(hf_client *client, const char *name, hf_hold **hold);

/*
 * Acquire several names, all or none, as one hold. Names are taken in one order by everybody, so that two
 * callers cannot wait for each other; on Redis in one step where all are free, else one after the other, those
 * before being kept meanwhile. Kinds may be mixed; the same name twice is taken once, as the stronger of two
 * kinds, and permits of it add up. `options` are for all of them (kind, permits and capacity are 0 there), wait_ms
 * is for the whole, max_hold_ms and HF_NO_RENEW count from when all are held.
 *
 * The hold is held while all of it is, and lost with the first that is lost; what is left of it stays locked
 * until it is released, so that nobody comes in while its holder stops. hf_fence_of has the tokens.
 * hf_upgrade and hf_downgrade are HF_UNSUPPORTED.
 *
 * Results as of hf_acquire, of the first name that could not be had; nothing is held then. HF_LOST: one was
 * lost before all were held, and there was no time to take it again.
 */
HF_API HF_MUST_USE hf_result hf_acquire_all_v(hf_client *client, const hf_request *requests,
                                              size_t count, size_t request_size,
                                              const hf_options *options, size_t options_size,
                                              hf_hold **hold);

/*
 * End this hold and drop the caller's reference, whatever the result. Any thread may do it. The
 * lock is free once every acquire of its owner has been released. NULL is HF_INVALID.
 * Once it has returned, on_lost neither runs nor will (unless this is on_lost's own call).
 *
 * HF_OK               released, and nobody else was granted the lock before
 * HF_NOT_HELD         released before, through another reference
 * HF_LOST             it was lost before: the work since may have run beside another holder's
 * HF_UNKNOWN_OUTCOME  the store did not answer; the keeper goes on trying until the lease ends it.
 *                     Or its answer was lost, the release was repeated, and others have been granted
 *                     the lock since: it was released, or lost before. The detail says which
 * HF_CLOSED           the client was closed, which released it
 * HF_FORKED           in a child; only memory was freed
 * HF_REFUSED, HF_PROTOCOL, HF_UNSUPPORTED, HF_NOMEM   the store did not do it, see hf_acquire; the
 *                     keeper goes on trying until the lease ends it
 * Blocks for at most the command timeout, and while on_lost of this handle runs.
 */
HF_API hf_result hf_release(hf_hold *hold);

/*
 * hf_ref adds a reference to a handle and returns it; hf_unref drops one (NULL is allowed). Each
 * reference is dropped by one hf_release or one hf_unref. Dropping the last reference of a hold
 * that was not released releases it, without waiting for the store.
 */
HF_API hf_hold *hf_ref(hf_hold *hold);
HF_API void hf_unref(hf_hold *hold);

/*
 * Make the hold last for at least `lease_ms` from now, counted from before the request was sent;
 * never shortens it, never goes past max_hold. The keeper's rhythm stays that of the acquire.
 * Blocks. HF_OK, HF_LOST, HF_NOT_HELD, HF_INVALID (no lease, or on a quorum one longer than
 * rejoin_delay), HF_UNREACHABLE (nothing was done), HF_UNKNOWN_OUTCOME (the old deadline stands),
 * HF_REFUSED, HF_PROTOCOL, HF_CLOSED, HF_FORKED, HF_NOMEM.
 */
HF_API HF_MUST_USE hf_result hf_extend(hf_hold *hold, int64_t lease_ms);

/*
 * Make of an HF_UPGRADABLE hold a writer's: wait until the readers beside it have left, before everybody
 * else in line. All handles of the ownership are then a writer's, with a new token. Whatever else comes
 * of it, the hold stays as it was. As hf_acquire with wait_ms; HF_DEADLOCK of a plain reader, which
 * could only wait for itself; HF_INVALID of any other kind; HF_LOST, HF_NOT_HELD; HF_OK also if it is a
 * writer's already.
 */
HF_API HF_MUST_USE hf_result hf_upgrade(hf_hold *hold, int64_t wait_ms);

/*
 * Make of a writer's hold a reader's, or an upgradable one of what was upgraded, without letting go in
 * between: nobody writes before it is released. Blocks as hf_extend does, with its results; HF_INVALID of
 * a mutex or permits; HF_OK of a reader's. After HF_UNKNOWN_OUTCOME it is a reader's as far as this
 * client goes, and the store is told again.
 */
HF_API HF_MUST_USE hf_result hf_downgrade(hf_hold *hold);

/* ---- Holds that leave their process ---------------------------------------------------------- */

#define HF_EXPORT_MAX 3584 /* bytes of what hf_export writes, with the NUL at the end */

/*
 * Let a hold of kind HF_MUTEX leave this process: it goes on for its lease from now, renewed by
 * nobody, until somebody takes it over by what is written to `text`, a line of printable characters
 * that is no secret but lets whoever may use the store release the lock. The handle and its
 * reference end as by hf_release; on_lost is not called any more.
 *
 * HF_OK               it left; the reference was dropped. With any other result it was not
 * HF_UNKNOWN_OUTCOME  the store did not answer; if it left it is lost here, and ends with its lease
 * HF_UNSUPPORTED      a store where holds end with their process (file:, memory:); another kind; a
 *                     hold of several names
 * HF_INVALID          no hold, too little room, or its owner has entered more than once
 * HF_LOST, HF_NOT_HELD, HF_UNREACHABLE, HF_REFUSED, HF_PROTOCOL, HF_CLOSED, HF_FORKED, HF_NOMEM:
 *                     nothing was done
 * Blocks as hf_extend does.
 */
HF_API HF_MUST_USE hf_result hf_export(hf_hold *hold, char *text, size_t size);

/*
 * Take over what another process, or this one, has exported: it is a hold of this client from now
 * on, under its token, with its lease begun anew, and renewed unless HF_NO_RENEW is said. Of the
 * options lease_ms (0: what it was), max_hold_ms, on_lost, arg and flags may be set. The same `text`
 * cannot be adopted twice. It has an owner of its own, which never re-enters.
 *
 * HF_OK; HF_LOST: it is over, released, broken, or adopted before; HF_BUSY: others of this client wait
 * for the lock, and nothing was done (adopt with a client of its own); HF_INVALID: no such text;
 * HF_UNKNOWN_OUTCOME: the store did not answer, and it is released behind or ends with its lease;
 * HF_UNREACHABLE: nothing was done; HF_UNSUPPORTED as above; HF_REFUSED, HF_PROTOCOL, HF_CLOSED,
 * HF_FORKED, HF_NOMEM. Blocks for at most the command timeout.
 */
HF_API HF_MUST_USE hf_result hf_adopt_v(hf_client *client, const char *text,
                                        const hf_options *options, size_t options_size,
                                        hf_hold **hold);

/*
 * Make what was exported last at least `lease_ms` from now, 0: its lease; never shortens it. Blocks
 * as hf_inspect does. HF_OK; HF_LOST: it is over; HF_UNKNOWN_OUTCOME; else as hf_adopt.
 */
HF_API HF_MUST_USE hf_result hf_extend_exported(hf_client *client, const char *text,
                                                int64_t lease_ms);

/* ---- What a hold knows (none of these blocks or asks the store) ----------------------------- */

/* 1 while this handle is not released, not lost and before its deadline, by the clock now. */
HF_API int32_t hf_held(const hf_hold *hold);

/* Milliseconds until the deadline if nothing renews it; 0 when not held. */
HF_API int64_t hf_remaining_ms(const hf_hold *hold);

/* The token: strictly greater than that of every earlier ownership of this name; it orders nothing among
   readers and permits, which hold at the same time. Upgrading changes it. Stays readable after release
   or loss. */
HF_API uint64_t hf_fence(const hf_hold *hold);

/* The same of one of several names: `i` is its place among the requests of hf_acquire_all. 0 beyond them. */
HF_API uint64_t hf_fence_of(const hf_hold *hold, size_t i);

/*
 * A descriptor that polls readable once the hold is lost; made at the first call, shared by the
 * handles of an ownership and closed with the last of them. Do not read it. -1 where none can be
 * had, or in a forked child.
 */
HF_API int32_t hf_lost_fd(hf_hold *hold);

/* Why it was lost, in one line; NULL if it was not, or if nobody has noticed yet: past its deadline
   hf_held is 0 at once, and the reason is there when the client has seen to it. Valid as long as the
   reference. */
HF_API const char *hf_why_lost(const hf_hold *hold);

/* ---- Cancelling ----------------------------------------------------------------------------- */

/*
 * One hf_cancel may serve many waits, one after another or at once. Firing is for ever: what waits
 * with it ends with HF_CANCELLED, what begins with it fails at once. Fire it from any thread and
 * from a signal handler. Free it when no call uses it any more. hf_cancel_new is NULL if memory or
 * descriptors are out; NULL may be fired and freed.
 */
HF_API hf_cancel *hf_cancel_new(void);
HF_API void hf_cancel_fire(hf_cancel *cancel);
HF_API void hf_cancel_free(hf_cancel *cancel);

/* ---- Without blocking ------------------------------------------------------------------------ */

/*
 * Begin to acquire, and be called when it has come to something: exactly once, with what hf_acquire
 * would have returned. On HF_OK the hold is the callback's; otherwise it is NULL, and hf_error_detail
 * says more within the callback. If this call itself does not return HF_OK, nothing was begun and
 * nobody is called. The options are copied; a cancel must live until the callback. With owner 0 the
 * owner is a fresh one, which never re-enters; hf_inspect shows it as it does a thread.
 *
 * Callbacks run on a thread of the client's, one after another, or in hf_dispatch and hf_close where the
 * client has none; never inside another call of yours, and with no lock of the library's held. They may
 * call everything but hf_close. hf_close ends waits with HF_CLOSED and, if the store does not answer,
 * releases with HF_UNKNOWN_OUTCOME; it returns when all callbacks have.
 *
 * A lock that was granted and is over before the callback comes, since those before it took long, is told as
 * HF_LOST, with no hold; on_lost is not called for it.
 *
 * Does not block. Errors: HF_INVALID, HF_UNSUPPORTED, HF_CANCELLED (fired before), HF_NOMEM, HF_CLOSED,
 * HF_FORKED; all others come by the callback.
 */
HF_API HF_MUST_USE hf_result hf_acquire_async_v(hf_client *client, const char *name,
                                                const hf_options *options, size_t options_size,
                                                hf_acquired_fn *fn, void *arg);

/*
 * Begin to release, and be called with what hf_release would have returned. The reference is dropped,
 * as by hf_release, unless this returns HF_NOMEM or HF_INVALID. Once the callback runs, on_lost of the
 * hold neither runs nor will.
 *
 * Does not block. Errors, nobody is called then: HF_NOT_HELD, HF_CLOSED, HF_LOST (after hf_close, and lost
 * before it), HF_FORKED, HF_NOMEM, HF_INVALID.
 */
HF_API hf_result hf_release_async(hf_hold *hold, hf_released_fn *fn, void *arg);

/*
 * A client opened with HF_NO_THREAD starts no thread, but for a moment, to look up the name of a host; give
 * an address to have none. Your event loop does the work. Poll hf_fd for reading, and call hf_dispatch
 * whenever it is readable: it does what is due, renewals too, and runs callbacks. One thread at a time may
 * call it; callbacks then run one after another. Do not read from the descriptor; it is the client's,
 * and stays the same until hf_close, whatever becomes of connections. A loop that does not come back
 * for a lease has lost what it held.
 * Calls that block work as ever, and do the work meanwhile, but run no callback. -1 for a client with
 * threads, or in a forked child.
 *
 * hf_dispatch does not block. Errors: HF_INVALID (the client has threads), HF_CLOSED, HF_FORKED.
 */
HF_API int32_t hf_fd(hf_client *client);
HF_API HF_MUST_USE hf_result hf_dispatch(hf_client *client);

/* ---- Looking and breaking ------------------------------------------------------------------- */

/* Somebody who waits: the first of its client, which stands in line for all of its threads. */
typedef struct hf_waiter {
    int64_t pid;        /* 0: not known */
    const char *client; /* a UUID, on file: a number of the directory's */
    const char *owner;  /* as in hf_info; "" where it is not known */
    const char *host;
    const char *program;
    const char *label;
} hf_waiter;

/* Who holds a lock. Strings are never NULL; "" where nothing is known. Made by the library: fields
   are only ever added at the end. */
typedef struct hf_info {
    int32_t held;   /* 0: free, and all below is zero or "", but for who waits */
    uint32_t kind;  /* HF_MUTEX, HF_READ, …; with several holders HF_READ or HF_PERMITS */
    uint32_t count; /* how many times its owner has entered */
    uint32_t
        waiting; /* clients in line, of which `waiters` has the first 64; also of a free lock */
    int64_t remaining_ms; /* until the store forgets it, if it is not renewed */
    uint64_t token;
    int64_t since_unix_ms; /* when it was granted, by the store's clock */
    int64_t pid;           /* of the holder; 0: not known */
    const char *client;    /* the holder's client, a UUID */
    const char *owner;     /* "t3" is the third thread that locked, "o7" the logical owner 7; fresh
                              owners count as threads */
    const char *host;
    const char *program;
    const char *label;
    const hf_waiter *waiters; /* the first first */
    uint32_t holders;         /* how many; what is above tells of one of them */
    uint32_t used, capacity;  /* HF_PERMITS */
} hf_info;

/*
 * Ask the store who holds `name`; *info is freed with hf_info_free. Blocks. HF_OK also when it is
 * free; HF_UNREACHABLE, HF_REFUSED, HF_PROTOCOL, HF_UNSUPPORTED, HF_INVALID, HF_CLOSED, HF_FORKED,
 * HF_NOMEM.
 */
HF_API HF_MUST_USE hf_result hf_inspect(hf_client *client, const char *name, hf_info **info);
HF_API void hf_info_free(hf_info *info);

/* Told of a name that is in use; other than 0 ends the listing. What it is given is valid until it
   returns. See hf_list. */
typedef int32_t hf_list_fn(const char *name, const hf_info *info, void *arg);

/*
 * Be called for each name that is held or waited for and matches `pattern`, as a shell's does: `*`
 * is any bytes, `?` any one, [a-z] one of these and [!a-z] one of the others, a backslash takes the
 * meaning from what follows it. NULL is all. The info is that of hf_inspect, but for those who wait:
 * it says how many, and of the first 64 only client and owner.
 *
 * The order is the store's. What is in use all the while is told; what is taken or released
 * meanwhile may be told or not; a name may be told twice. On Redis it looks through the keys of the
 * database in small steps (SCAN), which disturbs nobody, and takes its time where there are many.
 *
 * Callbacks run in this call, with no lock of the library held; they may call everything but
 * hf_close. Blocks for each step as hf_inspect does, with its results; HF_OK also when the callback
 * has ended it.
 */
HF_API HF_MUST_USE hf_result hf_list(hf_client *client, const char *pattern, hf_list_fn *fn,
                                     void *arg);

/*
 * The operator's force: end the ownership of `name`, whoever has it; with a token other than 0 only
 * if it is that one. The holder is told as of any loss, no later than its next renewal. Blocks.
 * HF_OK, HF_NOT_HELD (free, or held under another token: the detail says which), HF_UNREACHABLE,
 * HF_UNKNOWN_OUTCOME, HF_REFUSED, HF_PROTOCOL, HF_UNSUPPORTED, HF_INVALID, HF_CLOSED, HF_FORKED,
 * HF_NOMEM.
 */
HF_API HF_MUST_USE hf_result hf_break(hf_client *client, const char *name, uint64_t token);

/* ---- Latches -------------------------------------------------------------------------------- */

/*
 * A latch is set to a count, counted down, and open from then on: whoever waits for it goes on. It
 * has a name of its own: a latch and a lock of the same name have nothing to do with each other.
 * The store forgets a latch a day after it was last set, counted or looked at.
 *
 * Setting it begins a new round, whether or not the last one came to its end. Who waits is let go
 * when a round has come to its end that began no earlier than the one it found: one that was
 * missed, because the latch was set again at once, is not waited for a second time; and one that
 * was given up half way lets nobody go. Each count-down is counted once, also where its answer was
 * lost and the library has asked again. docs/LATCH.md says more.
 */

/*
 * Begin a round with `count` to be counted down, 0 up to HF_LATCH_MAX; 0 is open at once. Blocks,
 * and rides an outage out: for the outage time and the command timeout at most.
 *
 * HF_OK; HF_UNKNOWN_OUTCOME (sent and not answered: it may have begun a round, or yet do so within
 * the outage time); HF_UNREACHABLE (nothing was done); HF_REFUSED, HF_PROTOCOL, HF_UNSUPPORTED,
 * HF_INVALID, HF_CLOSED, HF_FORKED, HF_NOMEM.
 */
HF_API HF_MUST_USE hf_result hf_latch_set(hf_client *client, const char *name, uint32_t count);

/*
 * Count `by` down, 1 to HF_LATCH_MAX; never below zero. *left is what is left (`left` may be NULL).
 * Blocks as hf_latch_set does, with its results; and HF_NOT_HELD: the latch is not set, and nothing
 * was counted.
 */
HF_API HF_MUST_USE hf_result hf_latch_count_down(hf_client *client, const char *name, uint32_t by,
                                                 uint32_t *left);

/*
 * Wait until the latch is open. Of the options only wait_ms and cancel may be set.
 *
 * HF_OK               a round has come to its end that began no earlier than the one it found
 * HF_BUSY             it is not open, and wait_ms was 0
 * HF_TIMEOUT          it was not open for all of wait_ms
 * HF_CANCELLED        options->cancel was fired, before or meanwhile
 * HF_NOT_HELD         the latch is not set; or it was, and the store has lost it: see the detail
 * HF_UNREACHABLE      the store is away, for the outage time, or at the end of wait_ms
 * HF_REFUSED, HF_PROTOCOL, HF_INVALID, HF_UNSUPPORTED, HF_CLOSED, HF_FORKED, HF_NOMEM
 * Blocks for wait_ms; with wait_ms 0 for at most the command timeout.
 */
HF_API HF_MUST_USE hf_result hf_latch_wait_v(hf_client *client, const char *name,
                                             const hf_options *options, size_t options_size);

/* How many are left in this round. Blocks, as hf_inspect does and with its results; HF_NOT_HELD:
   not set. */
HF_API HF_MUST_USE hf_result hf_latch_left(hf_client *client, const char *name, uint32_t *left);

/* ---- Leading -------------------------------------------------------------------------------- */

/*
 * Who leads holds the lock `name` and has said something under its token: the value. So a leader
 * has a value, if only an empty one, and who holds the lock and has said nothing is no leader. The
 * value goes with the hold: it is never seen with the token of another. docs/LEADER.md says more.
 */

/* Made by the library: fields are only ever added at the end. Strings are never NULL; "" where
   nothing is known. */
struct hf_leader_info {
    uint64_t token;       /* hf_fence of the leader's hold */
    int64_t remaining_ms; /* until the store forgets it, if it is not renewed */
    int64_t pid;          /* 0: not known */
    const char *value;    /* any bytes, and a NUL behind them that does not count */
    const char *client;   /* a UUID */
    const char *host;
    const char *program;
    const char *label;
    uint32_t value_length;
};

/*
 * Wait to lead: acquire `name`, as hf_acquire does and with its options (the kind is HF_MUTEX) and
 * results, and publish `value`, of at most HF_VALUE_MAX bytes; NULL with a length of 0 is an empty
 * one. The hold is one like any other: hf_release resigns. An owner that holds the lock enters it
 * again, and its value is replaced.
 *
 * Also HF_LOST: it was granted, and lost before the value was published; HF_UNKNOWN_OUTCOME also
 * where the store did not say whether it was. Nothing is held then; on_lost may have been called.
 */
HF_API HF_MUST_USE hf_result hf_campaign_v(hf_client *client, const char *name, const void *value,
                                           size_t value_length, const hf_options *options,
                                           size_t options_size, hf_hold **hold);

/*
 * Publish another value, or a first one, with a hold of kind HF_MUTEX: its holder leads from then
 * on. Blocks. HF_OK, HF_LOST, HF_NOT_HELD (released), HF_INVALID, HF_UNREACHABLE (nothing was
 * done), HF_UNKNOWN_OUTCOME, HF_REFUSED, HF_PROTOCOL, HF_UNSUPPORTED, HF_CLOSED, HF_FORKED,
 * HF_NOMEM.
 */
HF_API HF_MUST_USE hf_result hf_proclaim(hf_hold *hold, const void *value, size_t value_length);

/*
 * Ask who leads; *info is freed with hf_leader_free. Blocks. HF_OK; HF_NOT_HELD: nobody does; and
 * the results of hf_inspect.
 */
HF_API HF_MUST_USE hf_result hf_leader(hf_client *client, const char *name, hf_leader_info **info);
HF_API void hf_leader_free(hf_leader_info *info);

/*
 * Be called with who leads now, and then at every change that is seen: another leader, another
 * value, nobody. What is told is in order, and the last is always told; changes that follow each
 * other faster than they can be looked at or told may be told as one. Without any message the end
 * of a leader is seen when its lease ends, and a resignation within a second. While the store is
 * away nothing is told, and nothing is known: for a decision ask hf_held of the leader itself, or
 * send its token along.
 *
 * Callbacks run as those of hf_acquire_async do, one after another, with no lock held, and may call
 * everything but hf_close. Does not block. HF_OK, HF_INVALID, HF_NOMEM, HF_CLOSED, HF_FORKED.
 */
HF_API HF_MUST_USE hf_result hf_observe(hf_client *client, const char *name, hf_leader_fn *fn,
                                        void *arg, hf_observer **observer);

/*
 * End it and free the observer; NULL is allowed. Once it has returned the callback neither runs nor
 * will, unless this is its own call. Needed after hf_close, too, which has ended the callbacks.
 */
HF_API void hf_unobserve(hf_observer *observer);

/* ---- Counters ------------------------------------------------------------------------------- */

/*
 * How long something took. `bucket[i]` counts spans of at most 2^i microseconds that are in no bucket
 * before it: the first is for up to one microsecond, the 21st for up to about a second. The last has
 * all that are longer. This struct does not grow.
 */
#define HF_BUCKETS 40

typedef struct hf_histogram {
    uint64_t count;
    uint64_t sum_us; /* of all, in microseconds */
    uint64_t bucket[HF_BUCKETS];
} hf_histogram;

/* Since the client was opened. Fields are only ever added at the end. */
typedef struct hf_stats {
    uint64_t acquired;    /* ownerships granted */
    uint64_t reentered;   /* acquires that joined an ownership */
    uint64_t released;    /* ownerships ended by their holder */
    uint64_t refused;     /* acquires that ended without the lock */
    uint64_t lost;        /* ownerships lost */
    uint64_t renewed;     /* renewals confirmed */
    uint64_t commands;    /* sent to the store */
    uint64_t reconnects;  /* connections made after the first */
    uint64_t held;        /* ownerships now */
    uint64_t waiting;     /* calls that wait now */
    uint64_t handed_over; /* acquires that waited while another had the lock, and then got it */
    hf_histogram waits; /* acquires that were granted, from the call to the grant; no re-entries */
    hf_histogram holds; /* ownerships that ended, from the grant to the release or the loss */
} hf_stats;

/* Fill in at most `size` bytes of *stats. HF_OK, HF_INVALID, HF_CLOSED, HF_FORKED. */
HF_API HF_MUST_USE hf_result hf_stats_get_v(hf_client *client, hf_stats *stats, size_t size);

/*
 * The same as text in the OpenMetrics format, for Prometheus and what else reads it: counters, gauges and
 * the two histograms in seconds, all named holdfast_..., terminated by "# EOF" and a NUL. It tells of one
 * client; serve it as application/openmetrics-text; version=1.0.0; charset=utf-8, or write it to a
 * file. HF_METRICS_MAX bytes are enough, now and in later versions of this header. Does not block.
 *
 * HF_OK; HF_INVALID: no buffer, or it is too small, and *buffer is "" then; HF_CLOSED, HF_FORKED.
 */
#define HF_METRICS_MAX 32768
HF_API HF_MUST_USE hf_result hf_metrics_text(hf_client *client, char *buffer, size_t size);

/* ---- What a C programmer writes ------------------------------------------------------------- */

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
 * A hold that is released at the end of its scope (gcc and clang); it must be initialised:
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
