/*
 * The mutex on one server, as docs/REDIS-PROTOCOL.md has it, for spin: see docs/MODEL.md for what is left out and why that is sound.
 *
 * One of these takes a rule away, and then spin finds what it is for:
 *
 *     -DNO_CLAIM   a grant counts from when its message is read, and not from when it was made
 *     -DNO_NUMBER  commands act for their client, whatever their number
 *     -DNO_CHECK   the resource takes what comes, whatever its token
 *
 * -DRESOURCE: the clients write to a resource. -DONLY_ALONE: of what must hold, only that nobody is inside beside another.
 * -DTWO: the third client stays away. -DPATIENT: nobody leaves the line, and who waits is served.
 * -DFORGETS: a restart loses all that the server knew. Then only tokens are left to hold on to, and only they are checked.
 */
#define N 3 /* clients, from 1; 0 is nobody */
#ifndef ROUNDS
#define ROUNDS 2 /* acquires of the first client; the others have one */
#endif
#ifndef FAULTS
#define FAULTS 1 /* connections that break, restarts, deaths, in all */
#endif
#ifndef LEASE
#define LEASE 2 /* ticks */
#define FIRST 1 /* of a grant, until it is renewed */
#endif

#define MAX(a, b)      ((a) > (b) -> (a) : (b))
#define OF(total, age) ((total) > (age) -> (total) - (age) : 0)

/* ---- What there is --------------------------------------------------------------------------- */

/* Commands, and answers. */
#define NONE    0
#define ACQUIRE 1
#define RENEW   2
#define RELEASE 3

#define GRANTED 1
#define BUSY    2
#define OLD     3 /* of a number that is over: nothing was done */
#define KEPT    4
#define GONE    5
#define DONE    6

/* States of a client. */
#define IDLE      0
#define ASKING    1
#define WAITING   2 /* in line, as it was told */
#define INSIDE    3
#define RELEASING 4 /* or leaving the line */
#define DEAD      5

/* The server. `lasts` is what the hold's key has left; at 0 there is none. */
byte holder, held_number, held_token, lasts;
byte line[N];        /* clients, the first to come first */
byte line_number[N];
byte tomb[N + 1];    /* acquires up to this number come too late */
byte tokens;         /* the last one: of the fence, or of the clock, which is what the rule takes the higher of */

/* Of a step, and of no state. */
hidden byte at, next, n_next, said, said_token, gap;
hidden byte got, got_token;
hidden byte ours, asked;

/* The network: one command of a client under way at a time, and what was left on a connection that it gave up. */
byte request[N + 1], request_number[N + 1], request_token[N + 1];
byte late[N + 1], late_number[N + 1], late_token[N + 1];
bit request_bury[N + 1], late_bury[N + 1]; /* an acquire of this number may yet come */
byte answer[N + 1], answer_token[N + 1];
byte message[N + 1], message_token[N + 1], message_age[N + 1]; /* the number that is granted; 0: none */

/* Clients. */
byte state[N + 1], number[N + 1], token[N + 1];
byte left[N + 1];    /* until its own deadline */
byte since[N + 1];   /* it sent its last command */
bit renewed[N + 1];  /* this hold was, once */
bit loose[N + 1];    /* an acquire of this number was not answered on its connection */

/* The resource, and what it took last. */
byte newest;

byte faults;

/*
 * Tokens grow without end. Who has one can only ask whether it is the same as another, or older: so those that are in use are
 * numbered from 1 in their order, and what nobody knows any more is left out.
 */
#define KNOWS(c)                                                                                          \
    (token[c] == gap || message_token[c] == gap || answer_token[c] == gap || request_token[c] == gap ||    \
     late_token[c] == gap)
#define IN_USE (held_token == gap || newest == gap || KNOWS(1) || KNOWS(2) || KNOWS(3))
#define DOWN(x) x = (x > gap -> x - 1 : x)

inline count_tokens() {
    gap = 1;
    do
    :: gap > tokens -> break
    :: gap <= tokens && IN_USE -> gap++
    :: else ->
        DOWN(held_token); DOWN(newest); tokens--;
        DOWN(token[1]); DOWN(message_token[1]); DOWN(answer_token[1]); DOWN(request_token[1]); DOWN(late_token[1]);
        DOWN(token[2]); DOWN(message_token[2]); DOWN(answer_token[2]); DOWN(request_token[2]); DOWN(late_token[2]);
        DOWN(token[3]); DOWN(message_token[3]); DOWN(answer_token[3]); DOWN(request_token[3]); DOWN(late_token[3])
    od;
    gap = 0
}

/* ---- What must hold -------------------------------------------------------------------------- */

#define WITHIN(c) (state[c] == INSIDE && left[c] > 0)

/* Nobody else is inside by its own deadline. */
inline check_alone(c) {
#ifndef FORGETS
    assert(!WITHIN(c) || (!(c != 1 && WITHIN(1)) && !(c != 2 && WITHIN(2)) && !(c != 3 && WITHIN(3))))
#else
    skip
#endif
}

/* Nobody holds it for a client that does not want it, once all that the client has sent has been done. */
inline check_no_orphan(c) {
#if !defined(FORGETS) && !defined(ONLY_ALONE)
    assert(!(state[c] == IDLE && holder == c && request[c] == NONE && late[c] == NONE))
#else
    skip
#endif
}

/* A token is never followed by an older one; and who is inside is never refused. */
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

#ifdef NO_NUMBER
#define SAME(n)      true
#define NOT_ABOVE(n) true
#define BURIED(c, n) false
#else
#define SAME(n)      (held_number == (n))
#define NOT_ABOVE(n) (held_number <= (n))
#define BURIED(c, n) (tomb[c] >= (n))
#endif

inline free_it() {
    holder = 0;
    held_number = 0;
    held_token = 0;
    lasts = 0
}

inline grant(c, n, ticks) {
    tokens++;
    holder = c;
    held_number = n;
    held_token = tokens;
    lasts = ticks
}

/* Where a client stands, N: nowhere. */
inline find(c) {
    at = 0;
    do
    :: at < N && line[at] != c -> at++
    :: else -> break
    od
}

inline take_out(c) {
    find(c);
    do
    :: at < N - 1 -> line[at] = line[at + 1]; line_number[at] = line_number[at + 1]; at++
    :: at == N - 1 -> line[at] = 0; line_number[at] = 0; at++
    :: else -> break
    od
}

inline join(c, n) {
    find(c);
    if
    :: at == N -> find(0); line[at] = c; line_number[at] = n
    :: at < N && line_number[at] < n -> line_number[at] = n
    :: else
    fi
}

inline leave(c, n) {
    find(c);
    if
    :: at < N && line_number[at] <= n -> take_out(c)
    :: else
    fi
}

/* The first in line who can be reached, up to the one that asks; 0: nobody. */
inline first_before(asker) {
    next = 0;
    do
    :: next < N && line[next] != 0 && line[next] != asker && state[line[next]] == DEAD -> next++
    :: else -> break
    od;
    if
    :: next < N && line[next] != 0 && line[next] != asker -> next = line[next]
    :: else -> next = 0
    fi
}

/* Hand it to that one: its grant is short, and told last. */
inline hand_to_next() {
    find(next);
    n_next = line_number[at];
    take_out(next);
    grant(next, n_next, FIRST);
    message[next] = n_next;
    message_token[next] = tokens;
    message_age[next] = 0
}

inline acquire_lua(c, n) {
    if
    :: holder == c && SAME(n) -> lasts = MAX(lasts, LEASE); said = GRANTED
    :: else ->
        if
        :: BURIED(c, n) -> said = OLD
        :: else ->
            if
            :: holder != 0 && holder != c -> join(c, n); said = BUSY
            :: holder == c && !NOT_ABOVE(n) -> said = OLD
            :: else ->
                if
                :: holder == c -> free_it()
                :: else
                fi;
                find(c);
                if
                :: at < N && line_number[at] > n -> said = OLD
                :: else ->
                    first_before(c);
                    if
                    :: next != 0 -> hand_to_next(); join(c, n); said = BUSY
                    :: else -> leave(c, n); grant(c, n, LEASE); said = GRANTED
                    fi
                fi
            fi
        fi
    fi;
    said_token = (said == GRANTED -> held_token : 0)
}

inline renew_lua(c, n, t) {
    said_token = 0;
    if
    :: holder == c && SAME(n) && held_token == t -> lasts = MAX(lasts, LEASE); said = KEPT
    :: else -> said = GONE
    fi
}

inline release_lua(c, n, bury) {
    said = DONE;
    said_token = 0;
    ours = (holder == c && NOT_ABOVE(n));
    if
    :: ours -> free_it()
    :: else
    fi;
    leave(c, n);
    if
    :: bury -> tomb[c] = MAX(tomb[c], n)
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
    request_number[c] = 0;
    request_token[c] = 0;
    request_bury[c] = 0
}

inline clear_late(c) {
    late[c] = NONE;
    late_number[c] = 0;
    late_token[c] = 0;
    late_bury[c] = 0
}

inline execute(c, verb, n, t, bury) {
    if
    :: verb == ACQUIRE -> acquire_lua(c, n)
    :: verb == RENEW -> renew_lua(c, n, t)
    :: verb == RELEASE -> release_lua(c, n, bury)
    fi
}

inline serve_request(c) {
    execute(c, request[c], request_number[c], request_token[c], request_bury[c]);
    clear_request(c);
    if
    :: state[c] != DEAD -> answer[c] = said; answer_token[c] = said_token
    :: else
    fi
}

/* Of a connection that was given up: nobody hears the answer. */
inline serve_late(c) {
    execute(c, late[c], late_number[c], late_token[c], late_bury[c]);
    clear_late(c);
    check_no_orphan(c)
}

/* One command after the other, of any client: on the connection that it has, or on one that it gave up. */
proctype server(byte c) {
end:
    do
    :: d_step { request[c] != NONE -> serve_request(c); count_tokens() }
    :: d_step { late[c] != NONE -> serve_late(c); count_tokens() }
    od
}

#define UNDER_WAY(c) (request[c] != NONE || answer[c] != 0)

/* ---- Time ------------------------------------------------------------------------------------ */

/* On all clocks at once. Whoever does nothing meanwhile is paused, or far away. */
inline age(c) {
    left[c] = OF(left[c], 1);
    since[c] = (UNDER_WAY(c) && since[c] < LEASE -> since[c] + 1 : (state[c] == WAITING -> 1 : since[c]));
    message_age[c] = (message[c] && message_age[c] < FIRST -> message_age[c] + 1 : message_age[c])
}

#ifdef PATIENT
/* Nothing is promised to those who are always slower than a lease: here what is under way arrives within a tick. */
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
        age(1); age(2); age(3);
        count_tokens()
    }
    od
}

/* ---- What breaks ----------------------------------------------------------------------------- */

inline send(c, what) {
    request[c] = what;
    request_number[c] = number[c];
    request_token[c] = (what == RENEW -> token[c] : 0);
    request_bury[c] = (what == RELEASE -> loose[c] : 0);
    since[c] = 0
}

/* What was not answered is sent again. What the server has not read of the old connection comes late; or never, which is as if it
   were to come later than all else. */
inline send_again(c) {
    if
    :: request[c] == ACQUIRE -> loose[c] = 1
    :: else
    fi;
    if
    :: request[c] != NONE && late[c] == NONE ->
        late[c] = request[c];
        late_number[c] = request_number[c];
        late_token[c] = request_token[c];
        late_bury[c] = request_bury[c]
    :: else
    fi;
    clear_request(c);
    answer[c] = 0;
    answer_token[c] = 0;
    if
    :: state[c] == ASKING -> send(c, ACQUIRE)
    :: state[c] == INSIDE && asked -> send(c, RENEW)
    :: state[c] == RELEASING -> send(c, RELEASE)
    :: else
    fi
}

inline break_connection(c) {
    asked = UNDER_WAY(c);
    send_again(c)
}

inline lose_message(c) {
    message[c] = 0;
    message_token[c] = 0;
    message_age[c] = 0
}

inline die(c) {
    lose_message(c);
    state[c] = DEAD;
    left[c] = 0;
    since[c] = 0;
    answer[c] = 0;
    answer_token[c] = 0;
    number[c] = 1
}

inline forget_all() {
    free_it();
    line[0] = 0; line[1] = 0; line[2] = 0;
    line_number[0] = 0; line_number[1] = 0; line_number[2] = 0;
    tomb[1] = 0; tomb[2] = 0; tomb[3] = 0
}

active proctype trouble() {
end:
    do
    :: d_step { faults < FAULTS && UNDER_WAY(1) -> faults++; break_connection(1) }
    :: d_step { faults < FAULTS && UNDER_WAY(2) -> faults++; break_connection(2) }
    :: d_step { faults < FAULTS && UNDER_WAY(3) -> faults++; break_connection(3) }
    :: d_step { faults < FAULTS && state[3] != DEAD -> faults++; die(3) }
    :: d_step { /* a restart: all connections and messages are gone */
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

/* Let go, or leave the line: it counts as outside before this is sent. */
inline let_go(c) {
    forget_hold(c);
    state[c] = RELEASING;
    send(c, RELEASE)
}

inline to_rest(c) {
    forget_hold(c);
    state[c] = IDLE;
    loose[c] = (late[c] == ACQUIRE);
    check_no_orphan(c)
}

inline hear(c) {
    got = answer[c];
    got_token = answer_token[c];
    answer[c] = 0;
    answer_token[c] = 0;
    if
    :: state[c] == ASKING && got == GRANTED && since[c] < LEASE -> lose_message(c); enter(c, LEASE - since[c], got_token)
    :: state[c] == ASKING && got == GRANTED && since[c] >= LEASE -> let_go(c)
    :: state[c] == ASKING && got == BUSY -> state[c] = WAITING
    :: state[c] == ASKING && got == OLD -> let_go(c)
    :: state[c] == INSIDE && got == KEPT -> left[c] = MAX(left[c], OF(LEASE, since[c])); since[c] = 0; check_alone(c)
    :: state[c] == INSIDE && got == GONE && loose[c] -> let_go(c)
    :: state[c] == INSIDE && got == GONE && !loose[c] -> to_rest(c)
    :: state[c] == RELEASING -> to_rest(c)
    fi
}

#ifdef NO_CLAIM
#define REMAINS(c) FIRST
#else
#define REMAINS(c) OF(FIRST, message_age[c])
#endif

/* The second and the third are the same, so it is enough that they come in this order. */
#define FIRST_IN_ORDER(c) (c != 3 || number[2] > 0)
#define ROUNDS_OF(c)      (c == 1 -> ROUNDS : 1)

proctype client(byte c) {
end:
    do
    :: d_step { state[c] == IDLE && number[c] < ROUNDS_OF(c) && FIRST_IN_ORDER(c) -> number[c]++; state[c] = ASKING; send(c, ACQUIRE) }
    :: d_step { answer[c] != 0 -> hear(c); count_tokens() }
    /* A message for another number is nobody's. One for this is claimed, or entered on by the server's clock. */
    :: d_step { message[c] != 0 && message[c] != number[c] -> lose_message(c); count_tokens() }
    :: d_step {
        state[c] == WAITING && message[c] == number[c] -> lose_message(c); state[c] = ASKING; send(c, ACQUIRE); count_tokens()
    }
    :: d_step {
        state[c] == WAITING && message[c] == number[c] && REMAINS(c) > 0 ->
        got = REMAINS(c);
        enter(c, got, message_token[c]);
        lose_message(c);
        count_tokens()
    }
    :: d_step { state[c] == WAITING && since[c] > 0 -> state[c] = ASKING; send(c, ACQUIRE) }
#ifndef PATIENT
    :: d_step { state[c] == WAITING -> let_go(c); count_tokens() }
#endif
    :: d_step {
        WITHIN(c) && !renewed[c] && !UNDER_WAY(c) -> renewed[c] = 1; send(c, RENEW)
    }
#ifdef RESOURCE
    /* It may have been paused after its check: it writes whatever the time. */
    :: d_step { state[c] == INSIDE && token[c] != newest -> write(c); count_tokens() }
#endif
    :: d_step { state[c] == INSIDE && !UNDER_WAY(c) -> let_go(c); count_tokens() }
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
/* Who wants it gets it, if nobody who can go on is kept from it for ever; one that dies is the third. */
#define wants (state[1] == ASKING || state[1] == WAITING)
ltl served { [] (wants -> <> !wants) }
#endif
