/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mutex on one server, as in docs/REDIS-PROTOCOL.md, for spin. docs/MODEL.md says what is left
 * out and why that is sound.
 *
 * Each of these removes a rule; spin then finds the fault that the rule prevents:
 *
 *     -DNO_CLAIM   a grant counts from the time its message is read, not from the time it was made
 *     -DNO_ID      commands act for their client, whatever their acquire id
 *     -DNO_CHECK   the resource accepts every write, whatever its token
 *
 * The others change what is searched:
 *
 *     -DRESOURCE    the clients write to a resource
 *     -DONLY_ALONE  of all assertions, check only that two clients are never inside at once
 *     -DTWO         the third client takes no part
 *     -DPATIENT     no client leaves the queue, and each waiter must be served
 *     -DFORGETS     a restart loses all data of the server; then only tokens protect, and only
 *                   they are checked
 */
#define N 3 /* clients, from 1; 0 means none */
#ifndef ROUNDS
#define ROUNDS 2 /* acquires of the first client; the others have one */
#endif
#ifndef FAULTS
#define FAULTS 1 /* broken connections, restarts and deaths, in total */
#endif
#ifndef LEASE
#define LEASE 2 /* ticks */
#define FIRST 1 /* ticks of a grant, until it is renewed */
#endif

#define MAX(a, b)      ((a) > (b) -> (a) : (b))
#define OF(total, age) ((total) > (age) -> (total) - (age) : 0)

/* ---- State ----------------------------------------------------------------------------------- */

/* Commands and answers. */
#define NONE    0
#define ACQUIRE 1
#define RENEW   2
#define RELEASE 3

#define GRANTED 1
#define BUSY    2
#define OLD     3 /* the acquire id is out of date: nothing was done */
#define KEPT    4
#define GONE    5
#define DONE    6

/* States of a client. */
#define IDLE      0
#define ACQUIRING 1
#define WAITING   2 /* in the queue, as the server answered */
#define INSIDE    3
#define RELEASING 4 /* or leaving the queue */
#define DEAD      5

/* The server. `lasts` is the remaining time of the hold's key; at 0 there is no key. */
byte holder, held_id, held_token, lasts;
byte waiters[N];       /* clients, in order of arrival */
byte waiter_id[N];
byte tombstone[N + 1]; /* acquires up to this id are rejected */
byte tokens;           /* the last one: the higher of fence and clock */

/* Temporary values of one step. They are not part of the state. */
hidden byte at, next, n_next, reply, reply_token, gap;
hidden byte got, got_token;
hidden byte ours, in_flight;

/* The network: one command per client at a time, and one that is left on a connection that the
   client has closed. */
byte request[N + 1], request_id[N + 1], request_token[N + 1];
byte late[N + 1], late_id[N + 1], late_token[N + 1];
bit request_tombstone[N + 1], late_tombstone[N + 1]; /* an acquire with this id may still arrive */
byte answer[N + 1], answer_token[N + 1];
byte message[N + 1], message_token[N + 1], message_age[N + 1]; /* acquire id; 0: none */

/* Clients. */
byte state[N + 1], acquire_id[N + 1], token[N + 1];
byte left[N + 1];      /* ticks until its own deadline */
byte since[N + 1];     /* ticks since it sent its last command */
bit renewed[N + 1];    /* this hold was renewed */
bit unanswered[N + 1]; /* an acquire with this id was not answered on its connection */

/* The resource, and the last token that it accepted. */
byte newest;

byte faults;

/*
 * Tokens grow without limit, but are only compared with each other. So the tokens in use are
 * renumbered from 1 in their order, and tokens that are stored nowhere any more are left out.
 */
#define KNOWS(c)                                                                           \
    (token[c] == gap || message_token[c] == gap || answer_token[c] == gap ||               \
     request_token[c] == gap || late_token[c] == gap)
#define IN_USE (held_token == gap || newest == gap || KNOWS(1) || KNOWS(2) || KNOWS(3))
#define DOWN(x) x = (x > gap -> x - 1 : x)

inline count_tokens() {
    gap = 1;
    do
    :: gap > tokens -> break
    :: gap <= tokens && IN_USE -> gap++
    :: else ->
        DOWN(held_token); DOWN(newest); tokens--;
        DOWN(token[1]); DOWN(message_token[1]); DOWN(answer_token[1]);
        DOWN(request_token[1]); DOWN(late_token[1]);
        DOWN(token[2]); DOWN(message_token[2]); DOWN(answer_token[2]);
        DOWN(request_token[2]); DOWN(late_token[2]);
        DOWN(token[3]); DOWN(message_token[3]); DOWN(answer_token[3]);
        DOWN(request_token[3]); DOWN(late_token[3])
    od;
    gap = 0
}

/* ---- Assertions ------------------------------------------------------------------------------ */

#define WITHIN(c) (state[c] == INSIDE && left[c] > 0)

/* No other client is inside by its own deadline. */
inline check_alone(c) {
#ifndef FORGETS
    assert(!WITHIN(c) || (!(c != 1 && WITHIN(1)) && !(c != 2 && WITHIN(2)) &&
                           !(c != 3 && WITHIN(3))))
#else
    skip
#endif
}

/* When all commands of a client are processed, the server holds nothing for it if it is idle. */
inline check_no_orphan(c) {
#if !defined(FORGETS) && !defined(ONLY_ALONE)
    assert(!(state[c] == IDLE && holder == c && request[c] == NONE && late[c] == NONE))
#else
    skip
#endif
}

/* The resource never accepts an older token after a newer one, and never refuses a client that
   is inside. */
inline write(c) {
    if
#ifndef NO_CHECK
    :: token[c] < newest ->
#ifndef FORGETS
        assert(left[c] == 0)
#else
        skip
#endif
#endif
    :: else ->
        assert(token[c] >= newest);
        newest = token[c]
    fi
}

/* ---- The scripts ----------------------------------------------------------------------------- */

#ifdef NO_ID
#define SAME(n)      true
#define NOT_ABOVE(n) true
#define HAS_TOMBSTONE(c, n) false
#else
#define SAME(n)      (held_id == (n))
#define NOT_ABOVE(n) (held_id <= (n))
#define HAS_TOMBSTONE(c, n) (tombstone[c] >= (n))
#endif

inline free_it() {
    holder = 0;
    held_id = 0;
    held_token = 0;
    lasts = 0
}

inline grant(c, n, ticks) {
    tokens++;
    holder = c;
    held_id = n;
    held_token = tokens;
    lasts = ticks
}

/* The position of a client in the queue; N: it is not there. */
inline find_position(c) {
    at = 0;
    do
    :: at < N && waiters[at] != c -> at++
    :: else -> break
    od
}

inline dequeue(c) {
    find_position(c);
    do
    :: at < N - 1 -> waiters[at] = waiters[at + 1]; waiter_id[at] = waiter_id[at + 1]; at++
    :: at == N - 1 -> waiters[at] = 0; waiter_id[at] = 0; at++
    :: else -> break
    od
}

inline enqueue(c, n) {
    find_position(c);
    if
    :: at == N -> find_position(0); waiters[at] = c; waiter_id[at] = n
    :: at < N && waiter_id[at] < n -> waiter_id[at] = n
    :: else
    fi
}

inline leave_queue(c, n) {
    find_position(c);
    if
    :: at < N && waiter_id[at] <= n -> dequeue(c)
    :: else
    fi
}

/* The first waiter that can be reached, before the client that acquires; 0: none. */
inline first_before(acquirer) {
    next = 0;
    do
    :: next < N && waiters[next] != 0 && waiters[next] != acquirer &&
       state[waiters[next]] == DEAD -> next++
    :: else -> break
    od;
    if
    :: next < N && waiters[next] != 0 && waiters[next] != acquirer -> next = waiters[next]
    :: else -> next = 0
    fi
}

/* Hand the lock to that client. Its grant is short, and the message is sent last. */
inline hand_to_next() {
    find_position(next);
    n_next = waiter_id[at];
    dequeue(next);
    grant(next, n_next, FIRST);
    message[next] = n_next;
    message_token[next] = tokens;
    message_age[next] = 0
}

inline acquire_lua(c, n) {
    if
    :: holder == c && SAME(n) -> lasts = MAX(lasts, LEASE); reply = GRANTED
    :: else ->
        if
        :: HAS_TOMBSTONE(c, n) -> reply = OLD
        :: else ->
            if
            :: holder != 0 && holder != c -> enqueue(c, n); reply = BUSY
            :: holder == c && !NOT_ABOVE(n) -> reply = OLD
            :: else ->
                if
                :: holder == c -> free_it()
                :: else
                fi;
                find_position(c);
                if
                :: at < N && waiter_id[at] > n -> reply = OLD
                :: else ->
                    first_before(c);
                    if
                    :: next != 0 -> hand_to_next(); enqueue(c, n); reply = BUSY
                    :: else -> leave_queue(c, n); grant(c, n, LEASE); reply = GRANTED
                    fi
                fi
            fi
        fi
    fi;
    reply_token = (reply == GRANTED -> held_token : 0)
}

inline renew_lua(c, n, t) {
    reply_token = 0;
    if
    :: holder == c && SAME(n) && held_token == t -> lasts = MAX(lasts, LEASE); reply = KEPT
    :: else -> reply = GONE
    fi
}

inline release_lua(c, n, set_tombstone) {
    reply = DONE;
    reply_token = 0;
    ours = (holder == c && NOT_ABOVE(n));
    if
    :: ours -> free_it()
    :: else
    fi;
    leave_queue(c, n);
    if
    :: set_tombstone -> tombstone[c] = MAX(tombstone[c], n)
    :: else
    fi;
    if
    :: ours ->
        first_before(0);
        if
        :: next != 0 -> hand_to_next()
        :: else
        fi
    :: else
    fi
}

inline clear_request(c) {
    request[c] = NONE;
    request_id[c] = 0;
    request_token[c] = 0;
    request_tombstone[c] = 0
}

inline clear_late(c) {
    late[c] = NONE;
    late_id[c] = 0;
    late_token[c] = 0;
    late_tombstone[c] = 0
}

inline execute(c, command, n, t, set_tombstone) {
    if
    :: command == ACQUIRE -> acquire_lua(c, n)
    :: command == RENEW -> renew_lua(c, n, t)
    :: command == RELEASE -> release_lua(c, n, set_tombstone)
    fi
}

inline serve_request(c) {
    execute(c, request[c], request_id[c], request_token[c], request_tombstone[c]);
    clear_request(c);
    if
    :: state[c] != DEAD -> answer[c] = reply; answer_token[c] = reply_token
    :: else
    fi
}

/* A command of a closed connection: its answer is not read. */
inline serve_late(c) {
    execute(c, late[c], late_id[c], late_token[c], late_tombstone[c]);
    clear_late(c);
    check_no_orphan(c)
}

/* Processes one command after the other: on a client's connection, or on one that it has closed. */
proctype server(byte c) {
end:
    do
    :: d_step { request[c] != NONE -> serve_request(c); count_tokens() }
    :: d_step { late[c] != NONE -> serve_late(c); count_tokens() }
    od
}

#define UNDER_WAY(c) (request[c] != NONE || answer[c] != 0)

/* ---- Time ------------------------------------------------------------------------------------ */

/* Time passes on all clocks at once. A client that does nothing meanwhile is paused or far away. */
inline pass_tick(c) {
    left[c] = OF(left[c], 1);
    since[c] = (UNDER_WAY(c) && since[c] < LEASE -> since[c] + 1 :
                (state[c] == WAITING -> 1 : since[c]));
    message_age[c] = (message[c] && message_age[c] < FIRST -> message_age[c] + 1 : message_age[c])
}

#ifdef PATIENT
/* Clients that are always slower than a lease have no guarantee. So here messages arrive in a
   tick. */
#define SLOW(c) (UNDER_WAY(c) || (state[c] == WAITING && message[c] != 0))
#define MAY_PASS !(SLOW(1) || SLOW(2) || SLOW(3))
#else
#define MAY_PASS true
#endif

active proctype clock() {
end:
    do
    :: d_step {
        MAY_PASS ->
        if
        :: lasts > 1 -> lasts--
        :: lasts == 1 -> free_it()
        :: else
        fi;
        pass_tick(1); pass_tick(2); pass_tick(3);
        count_tokens()
    }
    od
}

/* ---- Faults ---------------------------------------------------------------------------------- */

inline send(c, what) {
    request[c] = what;
    request_id[c] = acquire_id[c];
    request_token[c] = (what == RENEW -> token[c] : 0);
    request_tombstone[c] = (what == RELEASE -> unanswered[c] : 0);
    since[c] = 0
}

/* Sends an unanswered command again. A command that the server has not read from the old
   connection arrives late. That it never arrives is covered too: it then arrives after
   everything else. */
inline send_again(c) {
    if
    :: request[c] == ACQUIRE -> unanswered[c] = 1
    :: else
    fi;
    if
    :: request[c] != NONE && late[c] == NONE ->
        late[c] = request[c];
        late_id[c] = request_id[c];
        late_token[c] = request_token[c];
        late_tombstone[c] = request_tombstone[c]
    :: else
    fi;
    clear_request(c);
    answer[c] = 0;
    answer_token[c] = 0;
    if
    :: state[c] == ACQUIRING -> send(c, ACQUIRE)
    :: state[c] == INSIDE && in_flight -> send(c, RENEW)
    :: state[c] == RELEASING -> send(c, RELEASE)
    :: else
    fi
}

inline break_connection(c) {
    in_flight = UNDER_WAY(c);
    send_again(c)
}

inline lose_message(c) {
    message[c] = 0;
    message_token[c] = 0;
    message_age[c] = 0
}

inline kill_client(c) {
    lose_message(c);
    state[c] = DEAD;
    left[c] = 0;
    since[c] = 0;
    answer[c] = 0;
    answer_token[c] = 0;
    acquire_id[c] = 1
}

inline forget_all() {
    free_it();
    waiters[0] = 0; waiters[1] = 0; waiters[2] = 0;
    waiter_id[0] = 0; waiter_id[1] = 0; waiter_id[2] = 0;
    tombstone[1] = 0; tombstone[2] = 0; tombstone[3] = 0
}

active proctype fault_injector() {
end:
    do
    :: d_step { faults < FAULTS && UNDER_WAY(1) -> faults++; break_connection(1) }
    :: d_step { faults < FAULTS && UNDER_WAY(2) -> faults++; break_connection(2) }
    :: d_step { faults < FAULTS && UNDER_WAY(3) -> faults++; break_connection(3) }
    :: d_step { faults < FAULTS && state[3] != DEAD -> faults++; kill_client(3) }
    :: d_step { /* a restart: all connections and messages are lost */
        faults < FAULTS -> faults++;
        lose_message(1); lose_message(2); lose_message(3);
#ifdef FORGETS
        forget_all();
#endif
        break_connection(1); break_connection(2); break_connection(3)
    }
    od
}

/* ---- Clients --------------------------------------------------------------------------------- */

inline enter(c, ticks, t) {
    state[c] = INSIDE;
    left[c] = ticks;
    since[c] = 0;
    token[c] = t;
    renewed[c] = 0;
    check_alone(c)
}

inline forget_hold(c) {
    since[c] = 0;
    token[c] = 0;
    left[c] = 0;
    renewed[c] = 0;
    lose_message(c)
}

/* Release, or leave the queue. The client counts as outside before this is sent. */
inline start_release(c) {
    forget_hold(c);
    state[c] = RELEASING;
    send(c, RELEASE)
}

inline become_idle(c) {
    forget_hold(c);
    state[c] = IDLE;
    unanswered[c] = (late[c] == ACQUIRE);
    check_no_orphan(c)
}

inline read_answer(c) {
    got = answer[c];
    got_token = answer_token[c];
    answer[c] = 0;
    answer_token[c] = 0;
    if
    :: state[c] == ACQUIRING && got == GRANTED && since[c] < LEASE ->
        lose_message(c);
        enter(c, LEASE - since[c], got_token)
    :: state[c] == ACQUIRING && got == GRANTED && since[c] >= LEASE -> start_release(c)
    :: state[c] == ACQUIRING && got == BUSY -> state[c] = WAITING
    :: state[c] == ACQUIRING && got == OLD -> start_release(c)
    :: state[c] == INSIDE && got == KEPT ->
        left[c] = MAX(left[c], OF(LEASE, since[c]));
        since[c] = 0;
        check_alone(c)
    :: state[c] == INSIDE && got == GONE && unanswered[c] -> start_release(c)
    :: state[c] == INSIDE && got == GONE && !unanswered[c] -> become_idle(c)
    :: state[c] == RELEASING -> become_idle(c)
    fi
}

#ifdef NO_CLAIM
#define REMAINS(c) FIRST
#else
#define REMAINS(c) OF(FIRST, message_age[c])
#endif

/* The second and the third client are alike, so only this order needs to be searched. */
#define FIRST_IN_ORDER(c) (c != 3 || acquire_id[2] > 0)
#define ROUNDS_OF(c)      (c == 1 -> ROUNDS : 1)

proctype client(byte c) {
end:
    do
    :: d_step {
        state[c] == IDLE && acquire_id[c] < ROUNDS_OF(c) && FIRST_IN_ORDER(c) ->
        acquire_id[c]++;
        state[c] = ACQUIRING;
        send(c, ACQUIRE)
    }
    :: d_step { answer[c] != 0 -> read_answer(c); count_tokens() }
    /* Ignore a message for another acquire id. Claim one for this id, or enter by the server's
       clock. */
    :: d_step { message[c] != 0 && message[c] != acquire_id[c] -> lose_message(c); count_tokens() }
    :: d_step {
        state[c] == WAITING && message[c] == acquire_id[c] ->
        lose_message(c);
        state[c] = ACQUIRING;
        send(c, ACQUIRE);
        count_tokens()
    }
    :: d_step {
        state[c] == WAITING && message[c] == acquire_id[c] && REMAINS(c) > 0 ->
        got = REMAINS(c);
        enter(c, got, message_token[c]);
        lose_message(c);
        count_tokens()
    }
    :: d_step { state[c] == WAITING && since[c] > 0 -> state[c] = ACQUIRING; send(c, ACQUIRE) }
#ifndef PATIENT
    :: d_step { state[c] == WAITING -> start_release(c); count_tokens() }
#endif
    :: d_step {
        WITHIN(c) && !renewed[c] && !UNDER_WAY(c) -> renewed[c] = 1; send(c, RENEW)
    }
#ifdef RESOURCE
    /* It may have been paused after its check, so it writes at any time. */
    :: d_step { state[c] == INSIDE && token[c] != newest -> write(c); count_tokens() }
#endif
    :: d_step { state[c] == INSIDE && !UNDER_WAY(c) -> start_release(c); count_tokens() }
    od
}

init {
    atomic {
        run server(1);
        run server(2);
        run server(3);
        run client(1);
        run client(2);
#ifndef TWO
        run client(3)
#endif
    }
}

#ifdef PATIENT
/* A client that wants the lock gets it, if no process is delayed forever. The one that may die
   is the third. */
#define wants (state[1] == ACQUIRING || state[1] == WAITING)
ltl served { [] (wants -> <> !wants) }
#endif
