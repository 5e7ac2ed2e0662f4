# SPDX-License-Identifier: Apache-2.0
"""redis-py's Lock, driven as bench/peers/README.md says; with peer=setnx or flock, no library."""
import fcntl
import os
import random
import sys
import threading
import time

import redis

LEASE = 30
POLL_S = 0.05  # of the lock by hand
RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end"
options = dict(word.split("=", 1) for word in sys.argv[1:])


def connect():
    return redis.Redis(host="127.0.0.1", port=int(options["port"]))


class SetNx:
    """The lock that is usually written by hand: SET NX, sleep and try again; compare and delete."""

    def __init__(self, client, name):
        self.client, self.name, self.value = client, name, os.urandom(16)

    def acquire(self):
        while not self.client.set(self.name, self.value, nx=True, px=LEASE * 1000):
            time.sleep(POLL_S)

    def release(self):
        self.client.eval(RELEASE, 1, self.name, self.value)


class Flock:
    """flock(2) on a file beside the records, which all processes of a crew share."""

    def __init__(self, _client, name):
        path = os.path.join(os.path.dirname(options["out"]), name)
        self.file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)

    def acquire(self):
        fcntl.flock(self.file, fcntl.LOCK_EX)

    def release(self):
        os.close(self.file)


def lock_of(client, name):
    by_hand = {"setnx": SetNx, "flock": Flock}.get(options["peer"])
    return by_hand(client, name) if by_hand else client.lock(name, timeout=LEASE)


def worker(client, number, until, records):
    name = options["name"] if options["names"] == "one" else f"{options['name']}:{number}"
    hold, pause = int(options["hold_ms"]), int(options["pause_ms"]) / 1000
    while time.monotonic_ns() < until:
        requested = time.monotonic_ns()
        lock = lock_of(client, name)
        lock.acquire()
        acquired = time.monotonic_ns()
        if hold:
            time.sleep(random.uniform(hold, 1.25 * hold) / 1000)
        releasing = time.monotonic_ns()
        lock.release()
        records.append((number, requested, acquired, releasing, time.monotonic_ns()))
        if pause:
            time.sleep(pause)


def run(client):
    until = time.monotonic_ns() + int(float(options["seconds"]) * 1e9)
    records = [[] for _ in range(int(options["workers"]))]
    threads = [threading.Thread(target=worker, args=(client, i, until, own))
               for i, own in enumerate(records)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with open(options["out"], "w", encoding="ascii") as out:
        for own in records:
            out.writelines("%d %d %d %d %d\n" % record for record in own)


def extend_forever(locks):
    """Extend each lock every third of its lease, evenly spread: the library does not renew."""
    step = LEASE / 3 / len(locks)
    due = time.monotonic()
    try:
        while True:
            for lock in locks:
                lock.extend(LEASE, replace_ttl=True)
                due += step
                time.sleep(max(0, due - time.monotonic()))
    except redis.exceptions.RedisError as error:
        print(error, file=sys.stderr, flush=True)
        os._exit(1)


def hold(client):
    locks = [client.lock(f"{options['name']}:{i}", timeout=LEASE)
             for i in range(int(options["locks"]))]
    for lock in locks:
        lock.acquire()
    threading.Thread(target=extend_forever, args=(locks,), daemon=True).start()
    print("held", flush=True)
    sys.stdin.readline()


shared = connect()
with shared.lock(f"warm:{os.getpid()}", timeout=LEASE):
    pass
print("ready", flush=True)
sys.stdin.readline()
hold(shared) if options["mode"] == "hold" else run(shared)
sys.stdout.flush()
os._exit(0)
