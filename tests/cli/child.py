# SPDX-License-Identifier: Apache-2.0
"""What the tests run under the command. `child.py WHAT [ARG...]`; needs nothing but Python.

beat FILE      has a child and ignores SIGTERM: both append their pid and the time to FILE every
               few milliseconds, until they are killed
polite FILE    the same, but both end with code 0 on SIGTERM
see FILE       writes what a process inherits from its parent, as JSON
note_signals FILE SIGNAL...
               has a child: both note the signals that they receive; ends with code 7 when both have
               noted SIGTERM
witness FILE   prints which of the processes that beat in FILE still run, as JSON
"""
import json
import os
import resource
import signal
import sys
import time

LONGEST = 60  # ends by itself if the test was killed


def stamp():
    return f"{time.clock_gettime(time.CLOCK_BOOTTIME):.6f}"


def began(pid):
    """The start time, which distinguishes two processes with one pid; None: it is dead."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


class Notes:
    """A file to which several processes append whole lines: WHO PID BEGAN WHAT TIME."""

    def __init__(self, path):
        self.file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def add(self, what):
        os.write(self.file, f"{self.who} {os.getpid()} {self.began} {what} {stamp()}\n".encode())

    def two(self):
        """Forks; each process knows its role."""
        pid = os.fork()
        self.who, self.began = ("grandchild" if pid == 0 else "child"), began(os.getpid())
        return pid


def beat(path, polite=False):
    notes = Notes(path)

    def on_term(_number, _frame):
        notes.add("term")
        if polite:
            os._exit(0)

    notes.who, notes.began = "child", began(os.getpid())
    signal.signal(signal.SIGTERM, on_term)
    notes.two()
    end = time.monotonic() + LONGEST
    while time.monotonic() < end:
        notes.add("beat")
        time.sleep(0.004)


def note_signals(path, *names):
    notes = Notes(path)
    notes.who, notes.began = "child", began(os.getpid())
    ended = []

    def note(number, _frame):
        notes.add(signal.Signals(number).name)
        if number == signal.SIGTERM:
            ended.append(number)

    for name in names:
        signal.signal(signal.Signals[name], note)
    below = notes.two()
    notes.add("ready")
    end = time.monotonic() + LONGEST
    while not ended and time.monotonic() < end:
        time.sleep(0.01)
    if below:
        os.waitpid(below, 0)
        sys.exit(7)


def link(path):
    try:
        return os.readlink(path)
    except OSError:
        return None  # the descriptor of the listing itself


def see(path):
    status = {}
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        for line in file:
            key, _, value = line.partition(":")
            status[key] = value.strip()
    # Without signals: the interpreter changes some. `grep` on /proc/self/status shows those.
    seen = {
        "fds": {fd: link(f"/proc/self/fd/{fd}") for fd in sorted(os.listdir("/proc/self/fd"))},
        "cwd": os.getcwd(), "umask": status["Umask"], "nice": os.nice(0),
        "limits": {name: resource.getrlimit(getattr(resource, name))
                   for name in dir(resource) if name.startswith("RLIMIT_")},
        "ids": [os.getresuid(), os.getresgid(), os.getgroups()],
        "no_new_privs": status["NoNewPrivs"],
        "environment": {k.hex(): v.hex() for k, v in os.environb.items()},
        "session": os.getsid(0), "group": os.getpgrp(), "pid": os.getpid(), "parent": os.getppid(),
    }
    seen["fds"] = {fd: to for fd, to in seen["fds"].items() if to is not None}
    with open(path, "w", encoding="ascii") as file:
        json.dump(seen, file)


def witness(path):
    with open(path, encoding="ascii") as file:
        known = {tuple(map(int, line.split()[1:3])) for line in file if line.endswith("\n")}
    alive = [pid for pid, begin in known if began(pid) == begin]
    print(json.dumps({"known": sorted(pid for pid, _ in known), "alive": alive, "time": stamp()}))


if __name__ == "__main__":
    what, *args = sys.argv[1:]
    if what == "polite":
        beat(*args, polite=True)
    else:
        {"beat": beat, "see": see, "note_signals": note_signals, "witness": witness}[what](*args)
