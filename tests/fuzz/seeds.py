#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write seeds for the fuzz targets: meaningful inputs from which the fuzzer starts.

    seeds.py DIRECTORY      makes DIRECTORY/url, DIRECTORY/cli, ... with a file for each seed

corpus/ has grown from these, by `make fuzz` and -merge=1.
"""

import os
import sys

NOW = 1800000000000000  # the clock of scripts.c, in µs
A = "11111111-1111-4111-8111-111111111111"
B = "22222222-2222-4222-8222-222222222222"
LATE = str(NOW + 10_000_000)

URLS = """
file:
file:///tmp/locks?keep=24h&network=allow
memory:
memory:space?lease=500ms
redis://localhost
redis://user:hunter2@host:6380/3?prefix=p&lease=30s&connect_timeout=1s&command_timeout=2s\
&outage=1m&label=x
redis://:hunter2@[::1]:6379
rediss://h?tls_ca=/a&tls_cert=/b&tls_key=/c&tls_verify=none
redis+unix:///run/redis.sock?db=2&user=u&password_file=/p
redis+sentinel://a,b:26380,c/mymaster/1?sentinel_user=u&sentinel_password=hunter2\
&sentinel_password_file=/f
rediss+sentinel://a/m
redis+quorum://a,b,c,d,e?rejoin_delay=30s
rediss+quorum://a:1,b:2,c:3
redis+cluster://a,b:7001?replicas=1
rediss+cluster://[::1]:7000,h
redis://h?nothing=1
redis://%75ser:p%40ss@h
redis://h:99999
redis://h/x
redis://h?lease=0s
500ms
""".split()

LINES = """
run -n name true
run -S redis://u:hunter2@h -w 500ms -E 3 --lease 10s --grace 1s --min-hold 1s \
--max-hold 1m --label l name -- cmd a b
run --permits 2/5 --also other --on-lost TERM --on-wait w --on-acquire a \
--json 2 --metrics m -q name -c x
run -s --verbose --on-lost continue n c
run -x -c true n
run --help
acquire -S memory: -o handle -n --lease 30s --while-pid 1 --no-renew --max-hold 1h --label x name
acquire -w 5 n
release -S file: handle
extend --lease 1m handle
status -S file: --json n
status --all
list --json --wait a*
list --held pattern
wait -w 1.5m n
break -y --token 12 n
doctor --json -S redis://h
bench -S memory: --seconds 1 --threads 4
top --interval 1s --sort name
run -w 99999999999999999999h n
run -w .0000000000000001s n
run --wa 1 n
run --w= n
run -S redis://h:hunter2@x@y n
""".strip().splitlines()

CONFIGS = ["store = redis://u:p@h # c\n", "# none\n\nstore=file:\n", "store = \n", "store = a b",
           "x = y"]
HANDLES = [
    "holdfast handle 1\nname a%2Fb\nstore file:\ntoken 12\nhelper 123 456\n",
    f"holdfast handle 1\nname a\nstore redis://h\ntoken 12\nexported hf1:{A}:12:30000:a\n"
    "lease 30000\nuntil 1\nover \n",
]


def line(*fields):
    return "\t".join(str(f) for f in fields) + "\n"


HELD = line("H", 0, f"{A}:t1", 1, "n", f"{A}:5", "t", NOW - 1000000) + line("E", 0, 20000)
HELD_Q = line("H", 0, f"{A}:t1", 1, "n", f"{A}:5 q", "t", NOW - 1000000) + line("E", 0, 20000)
FENCE = line("S", 1, NOW - 1000000)
FENCE_Q = line("S", 1, f"{NOW - 1000000} q")
TOMBSTONE = line("S", 1, f"{NOW - 1000000} q {A}:9:{NOW + 5000000}")
MERGED = line("S", 1, f"{NOW - 1000000} q *:{NOW - 500} 0{NOW + 5000000} {A}:9 0{NOW + 5000000}")
MANY = line("S", 1, f"{NOW - 1000000}" + "".join(f" c{i}:1 0{NOW + 5000000}" for i in range(40)))
QUEUE = line("L", 2, f"{B}:7 {B}:t1 30000 0", f"{A}:9 {A}:o3 30000 0") + line("E", 2, 60000)
SEEN = line("H", 3, B, NOW - 1000, A, NOW - 1000) + line("E", 3, 60000)
READERS = (
    line("H", 0, "n", "*", "t", NOW - 5000, "k", "r", "e", NOW + 9000000,
         f"{A}#3", f"{NOW + 9000000} 1 {A}:t1 1 {NOW - 5000} {NOW - 5000}",
         f"{B}#4", f"{NOW + 8000000} 1 {B}:t1 1 {NOW - 4000} {NOW - 4000}")
    + line("E", 0, 9000))
PERMITS = (
    line("H", 0, "n", "*", "t", NOW - 5000, "k", "p5", "u", 2, "e", NOW + 9000000,
         f"{A}#3", f"{NOW + 9000000} 2 {A}:t1 1 {NOW - 5000} {NOW - 5000}")
    + line("E", 0, 9000))
LATCH = line("H", 4, "r", NOW - 9000, "d", 0, "c", 2) + line("E", 4, 80000000)
SUBSCRIBED = line("C", f"hf:c:{B}") + line("C", f"hf:c:{A}")


def run(script, keys, *args):
    return line("R", script, keys, *args)


ACQUIRE = run("acquire", "0123", f"{B}:8", f"{B}:t1", 30000, LATE, 0, NOW)
ENQUEUE = run("acquire", "0123", f"{B}:8", f"{B}:t1", 30000, LATE, 0, NOW, 1)
NEXT_ACQUIRE = run("acquire", "0123", f"{B}:8", f"{B}:t1", 30000, LATE, 0, NOW, 2)
READ = run("shared_acquire", "0123", f"{B}#9", f"{B}:t1", 30000, LATE, 0, "r", NOW, 1)
WRITE = run("shared_acquire", "0123", f"{B}#9", f"{B}:t1", 30000, LATE, 0, "w", NOW, 1)
TAKE = run("shared_acquire", "0123", f"{B}#9", f"{B}:t1", 30000, LATE, 0, "p5 2", NOW, 1)
RELEASE = run("release", "0123", f"{A}:5", 0, 0)
RELEASE_TOMBSTONE = run("release", "0123", f"{A}:5", NOW + 5000000, 90000000, 0)
SCRIPTS = [
    ACQUIRE, HELD + ACQUIRE, HELD + FENCE + ENQUEUE, HELD_Q + FENCE_Q + QUEUE + SEEN + ENQUEUE,
    FENCE_Q + QUEUE + SEEN + SUBSCRIBED + ACQUIRE,
    TOMBSTONE + ACQUIRE, MERGED + ACQUIRE + READ, MANY + RELEASE_TOMBSTONE + ACQUIRE + READ,
    HELD + FENCE + NEXT_ACQUIRE + ENQUEUE, FENCE + READ + WRITE, READERS + FENCE + READ,
    READERS + FENCE_Q + WRITE,
    PERMITS + FENCE + TAKE, PERMITS + FENCE_Q + QUEUE + SEEN + SUBSCRIBED + TAKE,
    HELD + FENCE + RELEASE, HELD_Q + FENCE_Q + QUEUE + SEEN + SUBSCRIBED + RELEASE,
    HELD_Q + FENCE_Q + QUEUE + SEEN + SUBSCRIBED + "M\n" + RELEASE,
    HELD + run("renew", "0", f"{A}:5", f"{A}:t1", 2, 30000, NOW - 1000000),
    READERS + FENCE
    + run("shared_renew", "0123", f"{A}#3", f"{A}:t1", 2, 30000, NOW - 5000, "r", 0),
    READERS + FENCE + run("shared_release", "0123", f"{A}#3", 0, 0),
    HELD_Q + FENCE_Q + QUEUE + SEEN + SUBSCRIBED + run("break", "0123", 0, LATE),
    READERS + FENCE + run("break", "0123", NOW - 5000, LATE),
    HELD_Q + QUEUE + run("inspect", "02"), READERS + run("inspect", "02"),
    PERMITS + run("inspect", "02"),
    HELD + run("transfer", "0", f"{B}:1", f"{B}:t1", 30000, LATE, f"{A}:5", NOW - 1000000),
    run("acquire_all", "01236789", f"{B}:t1", 30000, LATE, 0, NOW, f"{B}:8", "m", f"{B}#9", "r"),
    HELD + FENCE
    + run("acquire_all", "01236789", f"{B}:t1", 30000, LATE, 0, NOW, f"{B}:8", "m", f"{B}#9", "w"),
    LATCH + run("latch_count_down", "45", A, 3, LATE, 1)
    + run("latch_count_down", "45", A, 4, LATE, 1),
    run("latch_set", "45", A, 3, LATE, 2) + run("latch_get", "45", B, 1),
    LATCH + run("latch_get", "45", B, 1) + run("latch_set", "45", A, 9, LATE, 0),
    HELD + run("proclaim", "05", f"{A}:5", NOW - 1000000, 1, "value"),
    HELD + run("leader", "05", B, 1),
    HELD + run("raise_token", "01", f"{A}:5", NOW + 5), run("uptime", ""),
    run("register_client", "9", 90000, "x"), run("list", "", 0, "hf:*"),
    line("S", 0, "foreign") + ACQUIRE, line("L", 1, "x") + ACQUIRE,
    line("S", 2, "x") + HELD + ENQUEUE, line("S", 1, "text") + ACQUIRE,
    "P\tpublish\n" + HELD_Q + FENCE_Q + QUEUE + SEEN + SUBSCRIBED + RELEASE,
    "P\tpexpire\n" + ACQUIRE, "P\tpexpire\n" + READ, "M\n" + ACQUIRE,
]


def steps(*parts):
    return b"".join(p.encode("latin-1") if isinstance(p, str) else bytes(p) for p in parts)


def second(letter):
    return [ord(letter) | 0x80]


FILES = [
    steps("a", [0, 0], second("a"), [1, 0], "i", "r", [0], "l", "c"),
    steps("a", [0, 1], second("a"), [1, 1], "i", second("w"), [2, 2], "r", [0]),
    steps("a", [0, 4], second("a"), [1, 4], "a", [2, 4], "i", "l", "k", [0]),
    steps("a", [0, 3], "u", [0], "v", [0], "x", [0], "r", [0]),
    steps("a", [0, 0], "r", [0], "P", [0, 0, 8, 4], "\xff\xff\xff\xff", "a", [0, 0], "i"),
    steps("a", [0, 0], "T", [0, 0, 100], second("a"), [1, 0], "i", "l", "r", [0]),
    steps("a", [0, 0], "F", [0, 0, 0, 0, 8], "\x01\0\0\0\0\0\0\0", "i", second("w"), [1, 0]),
    steps("a", [0, 1], "F", [1, 0, 0, 0, 16], "\xff" * 16, second("a"), [1, 1], "i"),
    steps("a", [0, 1], "F", [2, 0, 0, 0, 64], "\xff" * 64, second("a"), [1, 2], "i"),
    steps("g", [2, 0], second("g"), [0, 1], "B", [1, 0, 40, 8], "\xff" * 8, "g", [0, 2]),
    steps("d", [0, 1], second("d"), [1, 0], "B", [0, 1, 0, 16], "\x01" * 16, second("d"), [1, 0]),
    steps("O", [0, 1], "a", [0, 0], "i", "O", [0, 2], "a", [0, 0], "l", "O", [0, 3], "a", [0, 0],
          "c"),
    steps("a", [0, 2], second("w"), [1, 0], "t", [255], "c", second("c"), "l"),
    steps("P", [0, 0, 0, 40], "hf lock?" * 5, "a", [0, 0], "P", [4, 2, 0, 4], "hf\0m", "l"),
]


def plan(*pairs, control=b""):
    return bytes([len(pairs)]) + bytes(b for pair in pairs for b in pair) + control


# The steps of resp.c, in its order.
TRY, WAIT, ASYNC, FREE, LOOK, BREAK, LIST, EXTEND, KIND, KIND_WAIT, UP, DOWN = range(12)
ALL, LATCH_OP, CAMPAIGN, LEADER = range(12, 16)
PROCLAIM, EXPORT, PASS, CLOSE, OBSERVE, MISHAP, FREE_ASYNC = range(16, 23)
OTHER = 0x80  # the second client
LIFE = [(TRY, 0), (OTHER | TRY, 1), (LOOK, 0), (FREE, 0), (OTHER | WAIT, 1), (FREE, 1)]
HAND = [(TRY, 0), (OTHER | ASYNC, 1), (PASS, 2), (FREE, 0), (PASS, 1), (OTHER | PASS, 1),
        (FREE, 1)]
RESP = [
    plan(), plan(*LIFE), plan(*HAND),
    plan((KIND, 8), (OTHER | KIND, 9), (OTHER | KIND_WAIT, 18), (FREE, 0), (KIND_WAIT, 24), (UP, 0),
         (DOWN, 0)),
    plan((KIND, 32), (OTHER | KIND, 33), (KIND, 34), (OTHER | LOOK, 0), (LIST, 0)),
    plan((ALL, 0), (OTHER | ALL, 17), (FREE, 0), (OTHER | ALL, 1)),
    plan((LATCH_OP, 4), (OTHER | LATCH_OP, 1), (LATCH_OP, 2), (LATCH_OP, 1), (LATCH_OP, 3)),
    plan((OBSERVE, 0), (OTHER | CAMPAIGN, 0), (PASS, 10), (LEADER, 0), (PROCLAIM, 0), (PASS, 100),
         (FREE, 0), (PASS, 50)),
    plan((TRY, 0), (OTHER | EXPORT, 8), (EXTEND, 0), (FREE_ASYNC, 0), (PASS, 1)),
    plan((TRY, 0), (PASS, 60), (PASS, 60), (PASS, 200), (MISHAP, 4), (PASS, 60), (FREE, 0)),
    plan((TRY, 0), (OTHER | BREAK, 0), (PASS, 60), (CLOSE, 0), (TRY, 0)),
    plan((MISHAP, 1), (TRY, 0), (MISHAP, 3), (EXTEND, 0), (MISHAP, 0), (TRY, 5), (MISHAP, 2),
         (OTHER | ASYNC, 1), (FREE, 0)),
]
RAW = [b":1800000000000001\r\n", b"*3\r\n:1\r\n:1800000000000001\r\n:1800000000000001\r\n",
       b"-NOAUTH x\r\n", b"-ERR x\r\n", b"*2147483647\r\n", b"$-2\r\n", b"-LOADING\r\n",
       b"-READONLY x\r\n", b"-OOM x\r\n", b"-BUSY x\r\n", b"+OK\r\n", b"*-1\r\n",
       b"*5\r\n:0\r\n:1800000000000001\r\n:20000\r\n:1\r\n:1\r\n", b"-MOVED 1 a:1\r\n", b"*0\r\n",
       b"*1\r\n" * 8]
CHANGES = [b"\1\0", b"\2\3\1", b"\3\4", b"\6", b"\7", b"\x08\1" b"7", b"\x09"]
for number, way in enumerate(CHANGES):
    for skip in (0, 1, 3, 5, 8, 12):
        control = bytes(skip) + way + bytes(4) + way
        RESP.append(plan(*(HAND if number % 2 else LIFE), control=control))
for raw in RAW:
    for skip in (2, 4, 6):
        RESP.append(plan(*LIFE, control=bytes(skip) + bytes([4, len(raw)]) + raw))



def number(size, value):
    return value.to_bytes(size, "big")


def slot(client, acquire_id, token, kind, lease=0, permits=(0, 0)):
    return (bytes(15) + bytes([client]) + number(8, acquire_id) + number(8, token)
            + number(8, 40 * 10**9) + number(8, NOW // 1000) + number(8, client)
            + number(8, lease) + number(4, 1) + number(4, permits[0]) + number(4, permits[1])
            + bytes([kind, 1]) + bytes(18))


def state(holders=(), waiters=(), last=9):
    return (b"HFLS\0\1\0\0" + number(4, len(holders)) + number(4, len(waiters))
            + number(8, last) + b"".join(holders) + b"".join(waiters))


# A mutex, a reader, a writer, an upgradable, permits.
HOLDERS = [slot(1, 3, 9, 0), slot(1, 3, 8, 1), slot(1, 3, 9, 2), slot(1, 4, 9, 3),
           slot(1, 3, 9, 4, permits=(2, 5))]
WAITERS = [slot(2, 5, 0, 0, 30000), slot(3, 5, 0, 1, 30000), slot(4, 5, 0, 2, 30000),
           slot(5, 5, 0, 3, 30000), slot(6, 5, 0, 4, 30000, permits=(4, 5))]
UPGRADE = slot(1, 4, 9, 2, 30000)
LOCKS = [state()] + [state([h], WAITERS) for h in HOLDERS]
LOCKS += [state([HOLDERS[1], HOLDERS[3]], [UPGRADE] + WAITERS), state((), WAITERS[::-1])]
# Acquire, release the first, renew it, break, acquire; each with the 10 bytes of lock_state.c.
LOCK_OPS = b"".join(bytes([0x7f, 5, verb, nth, kind, 1, 3, 1, 50, 1])
                    for verb, nth, kind in [(0, 200, 1), (2, 0, 0), (1, 0, 1), (3, 0, 0),
                                            (4, 130, 4), (5, 0, 0)])

TARGETS = {
    "resp": RESP,
    "url": [b"u" + u.encode() for u in URLS]
    + [b"p*a[!b-d]?\\*\0xazc*", b"o" + bytes(70),
       b"o\x48" + bytes(72) + b"\x48" + bytes(72) + b"name"],
    "cli": [b"-" + l.replace(" ", "\n").encode() for l in LINES]
    + [b"c" + c.encode() for c in CONFIGS] + [b"h" + h.encode() for h in HANDLES],
    "scripts": [s.encode() for s in SCRIPTS],
    "files": FILES,
    "lock_state": [b"\0" + s for s in LOCKS] + [b"\x06" + LOCK_OPS + s for s in LOCKS]
    + [b"\x16" + LOCK_OPS + s for s in LOCKS],
}


def main():
    for target, seeds in TARGETS.items():
        directory = os.path.join(sys.argv[1], target)
        os.makedirs(directory, exist_ok=True)
        for i, seed in enumerate(seeds):
            with open(os.path.join(directory, f"seed-{i:02d}"), "wb") as f:
                f.write(seed)


if __name__ == "__main__":
    main()
