# SPDX-License-Identifier: Apache-2.0
"""What the tests of the command share: deadlines, processes, stores, a case for each store.

A test file is run as `python3 -B FILE HOLDFAST [arguments of unittest]`; `-k redis` selects
a store.

Tests wait for events with `until`; its deadline only says when to give up. $HOLDFAST_TEST_PATIENCE
stretches all deadlines, for a slow machine.

The test process is a subreaper: processes that a command leaves behind become its children. The
test finds them at its end, and fails.
"""
import contextlib
import ctypes
import fcntl
import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

HOLDFAST = None  # the command under test, set by main()
PATIENCE = 20 * float(os.environ.get("HOLDFAST_TEST_PATIENCE", 1))
HERE = pathlib.Path(__file__).resolve().parent

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
libc = ctypes.CDLL(None, use_errno=True)


# ---- Time ----------------------------------------------------------------------------------------

def now():
    """Seconds on the clock that leases use."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def until(ready, what, seconds=None, every=0.005, reap=True):
    """Returns the first true value of ready(); fails the test at the deadline."""
    deadline = now() + (PATIENCE if seconds is None else seconds)
    while True:
        if reap:
            reap_orphans()
        value = ready()
        if value:
            return value
        if now() > deadline:
            raise AssertionError("timed out waiting for:  " + (what() if callable(what) else what))
        time.sleep(every)


# ---- Processes -----------------------------------------------------------------------------------

class Process:
    """A process by its pid and start time, so that a reused pid is not mistaken for it."""

    def __init__(self, pid, begin=None):
        self.pid = int(pid)
        self.begin = self.stat().get("begin") if begin is None else int(begin)

    def stat(self):
        try:
            text = pathlib.Path(f"/proc/{self.pid}/stat").read_text(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            return {}
        fields = text[text.rindex(")") + 2:].split()
        return {"state": fields[0], "parent": int(fields[1]), "group": int(fields[2]),
                "session": int(fields[3]), "foreground": int(fields[5]), "begin": int(fields[19])}

    @property
    def state(self):
        """One letter as in ps; "" when it is gone."""
        stat = self.stat()
        return stat["state"] if stat and stat["begin"] == self.begin else ""

    @property
    def runs(self):
        """True if it can still run; a zombie cannot."""
        return self.state not in ("", "Z", "X")

    @property
    def stopped(self):
        return self.state in ("T", "t")

    @property
    def blocks_signals(self):
        """True if it blocks all signals: the wrapper does while it holds, not while it waits."""
        try:
            text = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return False
        return "\nSigBlk:\tfffffff" in text

    def command(self):
        try:
            line = pathlib.Path(f"/proc/{self.pid}/cmdline").read_bytes().replace(b"\0", b" ")
        except (FileNotFoundError, ProcessLookupError):
            line = b""
        return line.decode(errors="replace").strip() or "(zombie)"

    def kill(self, number=signal.SIGKILL):
        if self.state:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def __repr__(self):
        return f"{self.pid} {self.state or '-'} {self.command()}"


def family(root=None):
    """All descendants of a process, nearest first."""
    children = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            process = Process(entry)
            children.setdefault(process.stat().get("parent"), []).append(process)
    found, parents = [], [root or os.getpid()]
    while parents:
        below = children.get(parents.pop(0), [])
        found += below
        parents += [process.pid for process in below]
    return found


KNOWN = set()  # pids that a test waits for


def reap_orphans():
    """Reaps orphans, like an init process."""
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
        for pid in map(int, file.read().split()):
            if pid not in KNOWN:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)


def strays():
    """Descendants that no test started or waits for."""
    reap_orphans()
    return [process for process in family() if process.pid not in KNOWN and process.state]


def die_with_the_test():
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def start_server(argv, **options):
    process = subprocess.Popen(argv, preexec_fn=die_with_the_test, **options)
    KNOWN.add(process.pid)
    return process


# Its own group in our session, like a job of a shell. (The default is its own session,
# like cron and systemd: nobody could continue a job that stops there.)
AS_A_JOB = {"start_new_session": False, "preexec_fn": os.setpgrp}


class Result:
    """How a command ended. code: the exit code, or -n if it died of signal n."""

    def __init__(self, argv, code, out, err, seconds):
        self.argv, self.code, self.out, self.err, self.seconds = argv, code, out, err, seconds

    def __repr__(self):
        return "\n".join([f"  $ {' '.join(map(repr, self.argv))}",
                          f"  exit {self.code} after {self.seconds:.2f} s",
                          f"  stdout {self.out[:2000]!r}", f"  stderr {self.err[:2000]!r}"])


class Job:
    """A running command with its output in files, so that no leftover process blocks a read."""

    def __init__(self, case, argv, **options):
        self.argv = argv
        self.files = [tempfile.TemporaryFile(dir=case.dir) for _ in range(2)]
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("stdout", self.files[0])
        options.setdefault("stderr", self.files[1])
        options.setdefault("start_new_session", True)
        self.begin = now()
        self.popen = subprocess.Popen(argv, **options)
        self.pid = self.popen.pid
        KNOWN.add(self.pid)
        self.process = Process(self.pid)

    def text(self, which):
        return os.pread(self.files[which].fileno(), 1 << 24, 0).decode(errors="replace")

    out = property(lambda self: self.text(0))
    err = property(lambda self: self.text(1))

    def ended(self):
        return self.popen.poll() is not None

    def wait(self, seconds=None, reap=True):
        until(self.ended, lambda: f"its end:\n{self!r}\n  left: {self.family()}", seconds,
              reap=reap)
        KNOWN.discard(self.pid)
        return self.result()

    def result(self):
        return Result(self.argv, self.popen.returncode, self.out, self.err, now() - self.begin)

    def __repr__(self):
        return repr(self.result())

    def signal(self, number):
        self.popen.send_signal(number)

    def kill(self):
        if not self.ended():
            self.popen.kill()
        self.popen.wait()
        KNOWN.discard(self.pid)

    def close(self):
        for file in self.files:
            file.close()

    def family(self):
        return family(self.pid)

    def guard(self):
        """The guard: the child of the wrapper that has its own session."""
        return next((p for p in self.family() if p.stat().get("session") == p.pid), None)


def beats(path):
    """The lines written by `beat` of child.py: (pid, began, what, time)."""
    try:
        lines = path.read_text().splitlines(keepends=True)
    except FileNotFoundError:
        return []
    split = [line.split() for line in lines if line.endswith("\n")]
    return [(int(pid), int(began), what, float(at)) for _, pid, began, what, at in split]


def beaters(path):
    return [Process(pid, began) for pid, began in {line[:2] for line in beats(path)}]


# ---- Stores --------------------------------------------------------------------------------------

SERVER = os.environ.get("HOLDFAST_TEST_SERVER") or "redis-server"
# what that server does not have, see tests/lib/t_redis.h
LACKS = os.environ.get("HOLDFAST_TEST_LACKS", "").split()


def needs(ability):
    """Skips a test, with a reason, if the server lacks this."""
    def mark(test):
        if ability in LACKS:
            print(f"left out: {test.__name__}: the server lacks {ability}", flush=True)
        return unittest.skipIf(ability in LACKS, f"the server lacks {ability}")(test)
    return mark


class Redis:
    """A private server on a unix socket, and on a free local port if wanted."""

    def __init__(self, directory, *config, port=0, password=None):
        self.dir = pathlib.Path(directory)
        self.socket, self.port, self.password = self.dir / "redis.sock", port, password
        self.url = f"redis+unix://{self.socket}"
        self.config = [*config, *(["--requirepass", password] if password else [])]
        self.start()

    def start(self):
        self.socket.unlink(missing_ok=True)
        with open(self.dir / "redis.log", "ab") as log:
            self.popen = start_server(
                [SERVER, "--port", str(self.port), "--bind", "127.0.0.1",
                 "--unixsocket", str(self.socket), "--unixsocketperm", "777", "--save", "",
                 "--appendonly", "no", "--dir", str(self.dir), *self.config],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.process = Process(self.popen.pid)
        until(self.answers, lambda: f"{SERVER}: {(self.dir / 'redis.log').read_text()[-2000:]}")

    def answers(self):
        try:
            return self.command("PING") == b"PONG"
        except OSError:
            return False

    def command(self, *words):
        """Returns the reply: bytes, int, None or a list. Raises an error reply."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(PATIENCE)
            connection.connect(str(self.socket))
            if self.password:
                self.exchange(connection, "AUTH", self.password)
            return self.exchange(connection, *words)

    @staticmethod
    def exchange(connection, *words):
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        connection.sendall(b"*%d\r\n" % len(words)
                           + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
        with connection.makefile("rb") as answer:
            return Redis.read(answer)

    @staticmethod
    def read(answer):
        line = answer.readline().rstrip(b"\r\n")
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else answer.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [Redis.read(answer) for _ in range(int(rest))]
        raise OSError(f"redis: {line!r}")

    def until_left(self, *keys, pattern="*"):
        """Waits until only these keys are left: the last command of a client has no reply."""
        until(lambda: sorted(keys) == sorted(self.command("KEYS", pattern)),
              lambda: f"{keys} to be all that is left, not {self.command('KEYS', pattern)}")

    def key(self, name):
        return f"hf:{{{name}}}"

    def held(self, name):
        return self.command("EXISTS", self.key(name)) == 1

    def expires_at(self, name):
        """When the server drops the lock without a renewal, on the local clock; None if free."""
        try:
            at = self.command("PEXPIRETIME", self.key(name)) / 1000
        except OSError:  # not in Redis before 7
            left, (seconds, micros) = self.command(
                "EVAL", "return {redis.call('PTTL', KEYS[1]), redis.call('TIME')}", 1,
                self.key(name))
            at = left if left < 0 else left / 1000 + int(seconds) + int(micros) / 1e6
        return None if at < 0 else at - time.time() + now()

    def freeze_after_a_renewal(self, name, lease):
        """Stops the server right after it renewed `name`. Returns when it would drop the lock.

        The next renewal is a third of the lease away, so a process that is stopped well before that
        has not renewed again.
        """
        for _ in range(10):
            before = until(lambda: self.expires_at(name), f"{name} to be held")
            after = until(lambda: self.changed(name, before), f"{name} to be renewed", lease, 0.002)
            seen = now()
            self.freeze()
            if now() - seen < lease / 6:
                return after
            self.thaw()
        raise AssertionError("this machine is too slow to stop a server in time")

    def changed(self, name, before):
        when = self.expires_at(name)
        return when if when and when > before + 0.01 else None

    def freeze(self):
        self.process.kill(signal.SIGSTOP)
        until(lambda: self.process.stopped, "the server to stop", every=0.0005)

    def thaw(self):
        self.process.kill(signal.SIGCONT)

    def stop(self):
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait()
        KNOWN.discard(self.popen.pid)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


# ---- Cases ---------------------------------------------------------------------------------------

SANITIZERS = [f"{name}SAN_OPTIONS" for name in ("A", "L", "T", "UB")]


class Case:
    """The directory, store and commands of a test. `on` makes a TestCase for each store."""

    kind = None  # "file", "redis" or None: the test has its own
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        # Paths of sockets must be short.
        cls.shared = pathlib.Path(tempfile.mkdtemp(prefix="hf-cli-", dir="/tmp"))
        cls.shared.chmod(0o755)
        cls.redis = Redis(cls.shared) if cls.kind == "redis" else None
        if cls.redis:
            cls.url = cls.redis.url
        elif cls.kind == "file":
            cls.url = f"file://{cls.shared}/locks"
        else:
            cls.url = None

    @classmethod
    def tearDownClass(cls):
        if cls.redis:
            cls.redis.stop()
        shutil.rmtree(cls.shared)

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(dir=self.shared))
        self.dir.chmod(0o755)
        self.name = self._testMethodName
        self.env = {"PATH": os.environ["PATH"], "HOME": str(self.dir), "LC_ALL": "C"}
        self.env.update((k, os.environ[k]) for k in SANITIZERS if k in os.environ)
        # The thread sanitizer waits a second at the end of every process.
        self.env["TSAN_OPTIONS"] = os.environ.get("TSAN_OPTIONS", "") + ":atexit_sleep_ms=0"
        if self.url:
            self.env["HOLDFAST_URL"] = self.url
        if self.redis:
            self.redis.command("FLUSHALL")  # ignore leftovers of earlier tests
        self.jobs = []
        self.addCleanup(self.leave_nothing)

    def own_redis(self, *config, **options):
        """A server that the test may damage; it becomes the store of later commands."""
        self.redis = Redis(tempfile.mkdtemp(dir=self.dir), *config, **options)
        self.addCleanup(self.redis.stop)
        self.url = self.env["HOLDFAST_URL"] = self.redis.url
        return self.redis

    # -- Commands

    def start(self, *args, holdfast=None, **options):
        """Starts `holdfast ARGS...`."""
        options.setdefault("env", self.env)
        job = Job(self, [holdfast or HOLDFAST, *map(arg, args)], **options)
        self.jobs.append(job)
        return job

    def hf(self, *args, holdfast=None, input=None, seconds=None, **options):
        """Runs `holdfast ARGS...` until it and its output have ended."""
        return self.run_bare(holdfast or HOLDFAST, *args, input=input, seconds=seconds, **options)

    def run_bare(self, *argv, input=None, seconds=None, text=True, **options):
        options.setdefault("env", self.env)
        options.setdefault("start_new_session", True)
        options.setdefault("stdin", subprocess.DEVNULL if input is None else subprocess.PIPE)
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        argv = [arg(a) for a in argv]
        begin = now()
        popen = subprocess.Popen(argv, **options)
        KNOWN.add(popen.pid)
        try:
            out, err = popen.communicate(input, PATIENCE if seconds is None else seconds)
        except subprocess.TimeoutExpired:
            below = family(popen.pid)
            popen.kill()
            popen.wait()
            raise AssertionError(
                f"neither it nor its output ended: {argv}\n  left: {below}") from None
        finally:
            KNOWN.discard(popen.pid)
        if text:
            out, err = ((o or b"").decode(errors="surrogateescape") for o in (out, err))
        return Result(argv, popen.returncode, out, err, now() - begin)

    def in_mounts(self, script, *args, **options):
        """Runs a shell script with private mounts; $0 is the command. Skips without the rights."""
        if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
            self.skipTest("it mounts filesystems of its own, which needs root")
        return self.run_bare("unshare", "-m", "sh", "-ec", script,
                             options.pop("holdfast", HOLDFAST), *args, **options)

    def in_terminal(self, columns, *words, answer=None, **env):
        """The exit code and output on a terminal of that width. `answer` is typed at a question."""
        parent, terminal = os.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        job = self.start(*words, stdout=terminal, stderr=terminal,
                         stdin=subprocess.DEVNULL if answer is None else terminal,
                         env={**self.env, "TERM": "xterm", "COLUMNS": str(columns), **env})
        os.close(terminal)
        text = b""
        try:
            while data := os.read(parent, 4096):
                text += data
                if answer is not None and b"? [" in text:
                    os.write(parent, answer.encode())
                    answer = None
        except OSError:
            pass  # the other end is closed
        os.close(parent)
        return job.wait().code, text.decode(errors="surrogateescape").replace("\r\n", "\n")

    def waiters(self, count, name=None, *options):
        """Starts this many waiters, in order."""
        for i in range(count):
            self.start("run", *options, name or self.name, "true")
            until(lambda: json.loads(self.hf("status", "--json",
                                             name or self.name).out)["waiting"] == i + 1,
                  "one more in the queue")

    def child(self, *args):
        """A command that runs child.py."""
        return [sys.executable, "-ISB", str(HERE / "child.py"), *map(str, args)]

    def script(self, name, text):
        path = self.dir / name
        path.write_text(text)
        path.chmod(0o755)
        return str(path)

    def holder(self, name=None, *options):
        """Starts another holder, until the test ends or kills it."""
        ready = self.dir / f"held-{len(self.jobs)}"
        job = self.start("run", *options, name or self.name, "--", "sh", "-c",
                         'echo "$HOLDFAST_FENCE" >"$1.new" && mv "$1.new" "$1"; exec sleep 300',
                         "sh", ready)
        until(lambda: ready.exists() or job.ended(), "the lock to be held")
        self.assertFalse(job.ended(), job)
        job.fence = int(ready.read_text())
        return job

    # -- Assertions

    def assertCode(self, code, result, err=None):
        self.assertEqual(code, result.code, f"\n{result!r}")
        if err is not None:
            self.assertRegex(result.err, err, f"\n{result!r}")

    def assertSays(self, result, *patterns, lines=1):
        """Stderr has only our lines, and matches all patterns."""
        self.assertRegex(result.err, r"\A(holdfast: [^\n]+\n){1,%d}\Z" % lines, f"\n{result!r}")
        for pattern in patterns:
            self.assertRegex(result.err, pattern, f"\n{result!r}")

    def assertFree(self, name=None):
        self.assertCode(0, self.hf("run", "-n", "--", name or self.name, "true"))

    def assertBusy(self, name=None):
        self.assertCode(1, self.hf("run", "-n", "--", name or self.name, "true"))

    def assertGone(self, processes, what, seconds=None):
        processes = list(processes)
        until(lambda: not any(p.runs for p in processes),
              lambda: f"{what}: {[p for p in processes if p.runs]}", seconds)

    # -- The end

    def leave_nothing(self):
        for job in self.jobs:
            job.kill()
            job.close()
        try:
            until(lambda: not strays(), lambda: f"processes left behind: {strays()}", 5)
        finally:
            for process in strays():
                process.kill()
            until(lambda: not strays(), "what was left behind to die")
            shutil.rmtree(self.dir, ignore_errors=True)


def arg(value):
    return value if isinstance(value, (bytes, str)) else str(value)


def on(*kinds):
    """Makes a TestCase for each of these stores, in the module of the case."""
    def make(case):
        for kind in kinds:
            if kind == "file" and "HOLDFAST_TEST_SERVER" in os.environ:
                continue  # the server itself is tested
            name = f"{case.__name__}_{kind}" if kind else f"{case.__name__}_"
            made = type(name, (case, unittest.TestCase),
                        {"kind": kind, "__module__": case.__module__, "__doc__": case.__doc__})
            setattr(sys.modules[case.__module__], name, made)
        return case
    return make


# ---- Commands that are wrong on purpose: a check that accepts them checks nothing ----------------

def planted_no_lock(case):
    """Runs the words after `--` without a lock."""
    return case.script("no-lock", """#!/bin/sh
        while [ "$1" != -- ]; do shift; done
        shift
        HOLDFAST_FENCE=$(date +%s%N) exec "$@"
        """)


def planted_no_guard(case):
    """Takes the lock, but the guard cannot reach what it runs."""
    return case.script("no-guard", f"""#!/bin/sh
        for word; do
            shift
            set -- "$@" "$word"
            [ "$word" != -- ] || set -- "$@" setsid -w
        done
        exec '{HOLDFAST}' "$@"
        """)


def heed_signals():
    """Resets ignored signals, which every command would inherit: after nohup or `&`."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


def main():
    global HOLDFAST
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(f"usage: {sys.argv[0]} HOLDFAST [unittest's arguments]")
    HOLDFAST = os.path.realpath(sys.argv.pop(1))
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    heed_signals()
    unittest.main(module="__main__", verbosity=2)
