# SPDX-License-Identifier: Apache-2.0
"""A private redis-server, and the small part of its protocol that the measurements need."""
import os
import socket
import subprocess
import tempfile
import threading
import time

SCRIPTS = ("eval", "evalsha", "fcall")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """One process on a free loopback port that writes nothing to disk."""

    def __init__(self):
        self.port = free_port()
        self._dir = tempfile.TemporaryDirectory()
        self._process = subprocess.Popen(
            [os.environ.get("HOLDFAST_TEST_SERVER", "redis-server"), "--port", str(self.port),
             "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--maxclients", "10000",
             "--dir", self._dir.name],
            stdout=subprocess.DEVNULL)
        self._link = self._connect()
        self.version = self.info("server")["redis_version"]

    def _connect(self):
        until = time.monotonic() + 10
        while True:
            try:
                return Link(self.port)
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.02)

    def command(self, *words):
        return self._link.command(*words)

    def info(self, section):
        text = self.command("INFO", section).decode()
        return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)

    def calls(self):
        """The number of calls of each command, by clients and by scripts."""
        calls = {}
        for key, value in self.info("commandstats").items():
            name = key.removeprefix("cmdstat_").split("|")[0]
            calls[name] = calls.get(name, 0) + int(value.split("calls=")[1].split(",")[0])
        return calls

    def cpu(self):
        """Seconds of CPU that the server's process has used."""
        cpu = self.info("cpu")
        return float(cpu["used_cpu_user"]) + float(cpu["used_cpu_sys"])

    def flush(self):
        self.command("FLUSHALL")

    def stop(self):
        self._process.terminate()
        self._process.wait(10)
        self._dir.cleanup()


class Link:
    """A connection: one command, one answer."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), 10)
        self.file = self.socket.makefile("rb")

    def send(self, *words):
        words = [w if isinstance(w, bytes) else str(w).encode() for w in words]
        head = b"*%d\r\n" % len(words)
        self.socket.sendall(head + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))

    def answer(self):
        line = self.file.readline().rstrip()
        if line[:1] == b"-":
            raise RuntimeError(line.decode())
        if line[:1] != b"$":
            return line[1:]
        return self.file.read(int(line[1:]) + 2)[:-2]

    def command(self, *words):
        self.send(*words)
        return self.answer()

    def close(self):
        self.file.close()
        self.socket.close()


class Watch:
    """Counts with MONITOR which commands come from clients and which from scripts."""

    def __init__(self, port):
        self.by_clients, self.by_scripts = {}, {}
        self._link = Link(port)
        self._link.command("MONITOR")
        self._thread = threading.Thread(target=self._count)
        self._thread.start()

    def _count(self):
        try:
            for line in self._link.file:
                _, _, rest = line.partition(b"[")
                who, _, words = rest.partition(b"] ")
                name = words.split(b'"')[1].split(b"|")[0].decode().lower() if b'"' in words else ""
                into = self.by_scripts if who.endswith(b"lua") else self.by_clients
                into[name] = into.get(name, 0) + 1
        except (OSError, ValueError):
            pass

    def stop(self):
        self._link.socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._link.close()

    def share(self, name):
        """The share of a command's calls that clients sent."""
        own, inner = self.by_clients.get(name, 0), self.by_scripts.get(name, 0)
        if own + inner == 0:
            return 1.0 if name in SCRIPTS else 0.0
        return own / (own + inner)


def sent_by_clients(before, after, watch):
    """Commands that clients sent between two readings of the counters, without our own."""
    ours = ("info", "monitor", "flushall")
    return sum((calls - before.get(name, 0)) * watch.share(name)
               for name, calls in after.items() if name not in ours)
