# SPDX-License-Identifier: Apache-2.0
"""cli-secrets: a secret in a URL is never shown, whatever its place and the source of the URL.

The secret is put into each place that a URL has for one. The tests search all output of the command
and all that others can see of it: the files it creates, and the environment and command line of its
processes. Only the source may have it: an inherited $HOLDFAST_URL, or the configuration file.
"""
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import threading

import kit
from kit import on, until

# Parts of it are found even if its other bytes are percent-encoded.
SECRET = "Xq7planted9Zk"
PIECES = re.compile(rb"q7plan|ed9Zk", re.I)
ENCODED = "%58q7plan%74ed9Z%6B"


class Sentinel:
    """A Sentinel that watches the server as `mymaster`, with the password SECRET too."""

    def __init__(self, directory, watched):
        self.port = kit.free_port()
        config = pathlib.Path(directory) / "sentinel.conf"
        config.write_text(f"port {self.port}\nbind 127.0.0.1\n"
                          f"requirepass {SECRET}\ndir {directory}\n"
                          f"sentinel monitor mymaster 127.0.0.1 {watched.port} 1\n"
                          f"sentinel auth-pass mymaster {SECRET}\n")
        with open(config.with_suffix(".log"), "ab") as log:
            self.popen = kit.start_server(["redis-server", str(config), "--sentinel"],
                                          stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def stop(self):
        self.popen.kill()
        self.popen.wait()
        kit.KNOWN.discard(self.popen.pid)


class Planted(kit.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = kit.Redis(tempfile.mkdtemp(dir=cls.shared), port=kit.free_port(),
                               password=SECRET)
        cls.sentinel = Sentinel(tempfile.mkdtemp(dir=cls.shared), cls.server)

    @classmethod
    def tearDownClass(cls):
        cls.sentinel.stop()
        cls.server.stop()
        super().tearDownClass()

    def setUp(self):
        super().setUp()
        self.server.command("FLUSHALL")
        until(lambda: self.hf("status", "-q", "-S", self.urls()[0], "x").code == 1,
              "the Sentinel to know its primary")

    def urls(self):
        """The secret in each place: plain, percent-encoded, and given twice."""
        one, many = f"127.0.0.1:{self.server.port}", f"127.0.0.1:{self.sentinel.port}/mymaster"
        return [f"redis+sentinel://:{SECRET}@{many}?sentinel_password={SECRET}",
                f"redis+sentinel://default:{ENCODED}@{many}"
                f"?lease=20s&sentinel_password={ENCODED}&outage=5s",
                f"redis+sentinel://:{SECRET}@{many}"
                f"?sentinel_password={SECRET}x&sentinel_password={SECRET}"
                f"&sentinel_user=default",
                f"redis://:{SECRET}@{one}"]

    # -- Where it is looked for

    def assertHidden(self, where, text):
        data = text if isinstance(text, bytes) else text.encode(errors="surrogateescape")
        found = PIECES.search(data)
        if found:
            self.fail(f"the secret is in {where}: ...{data[max(0, found.start() - 60):][:160]}")

    def assertSilent(self, result):
        self.assertHidden(f"the output of {result.argv[1:3]}", result.out + result.err)

    def assertNoFileHasIt(self, *but):
        for path in self.dir.rglob("*"):
            self.assertHidden("a file's name", str(path))
            if path.is_file() and path not in but:
                self.assertHidden(path.name, path.read_bytes())

    def assertProcessesHide(self, processes):
        """Checks command line, name and environment, except an inherited $HOLDFAST_URL."""
        for process in processes:
            folder = pathlib.Path(f"/proc/{process.pid}")
            try:
                for name in ("cmdline", "comm", "stat", "status"):
                    self.assertHidden(f"/proc/{process.pid}/{name}", (folder / name).read_bytes())
                environment = (folder / "environ").read_bytes().split(b"\0")
            except (FileNotFoundError, ProcessLookupError):
                continue
            for variable in environment:
                if variable != f"HOLDFAST_URL={self.env.get('HOLDFAST_URL')}".encode():
                    self.assertHidden(f"/proc/{process.pid}/environ", variable)

    # -- How the store is named: by -S, by the environment, by the configuration

    def ways(self, url):
        config = self.dir / ".config" / "holdfast"
        config.parent.mkdir(exist_ok=True)
        self.env.pop("HOLDFAST_URL", None)
        yield ["-S", url], ()
        yield [f"--store={url}"], ()
        self.env["HOLDFAST_URL"] = url
        yield [], ()
        del self.env["HOLDFAST_URL"]
        config.write_text(f"store = {url}\n")
        config.chmod(0o600)
        yield [], (config,)
        config.unlink()


@on(None)
class Secrets(Planted):
    def check_run(self, store, but):
        """Checks all output of a run: environment, hooks, JSON, metrics file, stderr."""
        notes = self.dir / "notes"
        notes.mkdir()
        self.server.command("FLUSHALL")
        with open(notes / "events", "wb") as events:
            holder = self.start("run", *store, "--verbose", "--json", events.fileno(), "--metrics",
                                notes / "metrics",
                                "--on-acquire", f"env >{notes}/acquire-env", self.name, "sh", "-c",
                                'env >"$0/child-env"; echo in; exec sleep 300', notes,
                                pass_fds=[events.fileno()])
            until(lambda: holder.out or holder.ended(), "the child to run")
            self.assertFalse(holder.ended(), holder)
            waiter = self.start("run", *store, "--verbose", "--json", events.fileno(),
                                "--on-wait", f"env >{notes}/wait-env; echo waits >{notes}/waits",
                                self.name, "true",
                                pass_fds=[events.fileno()])
            until((notes / "waits").exists, "the hook of the one that waits")
            until(lambda: json.loads(self.hf("status", "--json", *store,
                                             self.name).out)["waiting"] == 1, "it to wait")
            self.assertProcessesHide([holder.process, *holder.family(), waiter.process,
                                      *waiter.family()])
            for words in (["status"], ["status", "--json"], ["status", "--verbose"],
                          ["wait", "-w", "50ms"],
                          ["run", "-n"], ["run", "-w", "50ms"],
                          ["break", "--verbose", "--token", "1", "-y"]):
                self.assertSilent(self.hf(words[0], *store, *words[1:], self.name))
            for words in (["list"], ["list", "--json"], ["doctor"], ["doctor", "--json"],
                          ["bench", "--json", "--seconds", "50ms"]):
                self.assertSilent(self.hf(words[0], *store, *words[1:]))
            self.assertSilent(self.hf("break", *store, "-y", self.name))
            waiter.signal(signal.SIGKILL)
            holder.signal(signal.SIGTERM)
            for job in (holder, waiter):
                self.assertSilent(job.wait())
        for name in ("child-env", "acquire-env", "wait-env"):
            path = notes / name
            lines = [line for line in path.read_text().splitlines()
                     if not line.startswith("HOLDFAST_URL=")]
            self.assertTrue(any(re.match(r"HOLDFAST_STORE=redis.*127\.0\.0\.1", line)
                                for line in lines), lines)
            path.write_text("\n".join(lines))
        self.assertIn('"acquired"', (notes / "events").read_text())
        self.assertIn("holdfast", (notes / "metrics").read_text())
        self.assertNoFileHasIt(*but)
        for path in notes.iterdir():
            path.unlink()
        notes.rmdir()

    def check_handles(self, store, but):
        handle = self.dir / "handle"
        for words in (["--detach", "--max-hold", "5m"], ["--no-renew", "--lease", "5m"]):
            before = {process.pid for process in kit.family()}
            result = self.hf("acquire", *store, "--verbose", "-o", handle, *words, self.name)
            self.assertCode(0, result)
            self.assertSilent(result)
            self.assertProcessesHide([process for process in kit.family()
                                      if process.pid not in before])
            self.assertHidden("the handle", handle.read_bytes())
            if "--no-renew" in words:
                self.assertSilent(self.hf("extend", *store, "--verbose", handle))
            self.assertNoFileHasIt(*but)
            result = self.hf("release", *store, "--verbose", handle)
            self.assertCode(0, result)
            self.assertSilent(result)

    def test_F41_no_output_of_a_run_shows_it(self):
        for url in self.urls():
            for store, but in self.ways(url):
                with self.subTest(url=url, store=store):
                    self.check_run(store, but)

    def test_F41_it_is_in_no_handle(self):
        for url in self.urls():
            for store, but in self.ways(url):
                with self.subTest(url=url, store=store):
                    self.check_handles(store, but)

    def test_F41_a_handle_alone_has_no_password(self):
        for url in self.urls()[:1]:
            handle = self.dir / "handle"
            self.assertCode(0,
                            self.hf("acquire", "-S", url, "-o", handle, "--no-renew", "--lease",
                                    "5m", self.name))
            for word in ("extend", "release"):
                result = self.hf(word, handle)
                self.assertCode(77, result)
                self.assertSays(result, "contains no password.*-S.*HOLDFAST_URL", lines=2)
            self.assertTrue(handle.exists())
            self.env["HOLDFAST_URL"] = url
            self.assertCode(0, self.hf("extend", handle))
            self.assertCode(0, self.hf("release", handle))

    def test_F41_a_handle_of_an_older_version_loses_its_secret(self):
        url, handle = self.urls()[0], self.dir / "handle"
        self.assertCode(0,
                        self.hf("acquire", "-S", url, "-o", handle, "--no-renew", "--lease", "5m",
                                self.name))
        old = re.sub(r"(?m)^store .*$", f"store {url}", handle.read_text())
        handle.write_text(old)
        self.assertCode(0, self.hf("extend", handle))
        self.assertHidden("the handle", handle.read_bytes())
        self.assertCode(0, self.hf("release", "-S", url, handle))

    def test_F41_it_is_hidden_while_a_helper_is_ended(self):
        """release needs no store for a helper, but still hides the secret in its command line."""
        url, handle = self.urls()[0], self.dir / "handle"
        self.assertCode(0,
                        self.hf("acquire", "-S", url, "-o", handle, "--detach", "--max-hold", "5m",
                                self.name))
        helper = kit.Process(re.search(r"(?m)^helper (\d+)", handle.read_text())[1])
        helper.kill(signal.SIGSTOP)
        until(lambda: helper.stopped, "the helper to stop")
        job = self.start("release", "-S", url, handle)
        until(lambda: self.has_pidfd(job) or job.ended(), "it to open the helper's pidfd")
        self.assertProcessesHide([job.process])
        helper.kill(signal.SIGCONT)
        self.assertCode(0, job.wait())

    def has_pidfd(self, job):
        with contextlib.suppress(OSError):
            return any("pidfd" in os.readlink(path)
                       for path in pathlib.Path(f"/proc/{job.pid}/fd").iterdir())

    def test_F41_it_is_not_on_the_screen_of_top(self):
        parent, terminal = os.openpty()
        job = self.start("top", "-S", self.urls()[0], stdin=terminal, stdout=terminal,
                         stderr=terminal,
                         env={**self.env, "TERM": "xterm", "LINES": "24", "COLUMNS": "300"})
        os.close(terminal)
        text = b""
        while b"mymaster" not in text and not job.ended():
            text += os.read(parent, 65536)
        self.assertIn(b"mymaster", text)
        self.assertProcessesHide([job.process])
        os.write(parent, b"q")
        try:
            while data := os.read(parent, 65536):
                text += data
        except OSError:
            pass  # the other end is closed
        os.close(parent)
        job.wait()
        self.assertHidden("the screen", text)

    def test_F41_no_report_of_a_loss_shows_it(self):
        server = kit.Redis(tempfile.mkdtemp(dir=self.shared), port=kit.free_port(), password=SECRET)
        self.addCleanup(server.stop)
        job = self.start("run", "-S", f"redis://:{SECRET}@127.0.0.1:{server.port}", "--verbose",
                         "--lease", "1s",
                         "--on-lost", "env >&2", self.name, "sh", "-c", "echo in; exec sleep 60")
        until(lambda: job.out or job.ended(), "the child to run")
        server.stop()
        result = job.wait()
        self.assertCode(75, result)
        self.assertSilent(result)


@on(None)
class Mistakes(Planted):
    """A URL that is rejected may have its secret anywhere."""

    BAD = [f"redis://:{SECRET}@h?walk=1", f"redis://h?password={SECRET}", f"redis://h?{SECRET}",
           f"redis://h?walk&{SECRET}=1", f"redis://h?sentinel_password={SECRET}",
           f"redis://:pa/{SECRET}@h",
           f"redis://:1/{SECRET}@h", f"redis://:pa?{SECRET}@h", f"redis://:pa?x={SECRET}@h",
           f"redis://u:{SECRET}",
           f"redis://u:{SECRET}@h:port", f"redis://u:{SECRET}%zz@h", f"redis://u:{SECRET}@[::1",
           f"redis+sentinel://u:1/{SECRET}@h/m", f"redis+sentinel://:{SECRET}@h",
           f"redis+sentinel://h/m?sentinel_password={SECRET}%zz",
           f"redis+sentinel://h/m?sentinel_password=a&{SECRET}",
           f"redis+sentinel://h/m?sentinel_password=a&{SECRET}=1",
           f"redis+sentinel://h/m?sentinel_password={SECRET}&sentinel_password_file=f",
           f"redis+sentinel://h/m?sentinel_pass=1&sentinel_password={SECRET}",
           f"redis+sentinel://h/m?sentinel_passw%6Frd={SECRET}",
           f"redis+sentinel://h/m?sentinel_password={SECRET}&db=x",
           f"redis+quorum://:{SECRET}@h,h,h",
           f"redis+quorum://a,b,:{SECRET}", f"redis+cluster://:{SECRET}@h/3",
           f"redis+unix://:{SECRET}@h/x",
           f"rediz://:{SECRET}@h", f"redis:{SECRET}@h", f"{SECRET}", f"file://u:{SECRET}@h/dir",
           f"redis://:{SECRET}@h?label=" + "x" * 5000]

    def test_F41_no_message_quotes_it(self):
        for url in self.BAD:
            for store, but in self.ways(url):
                with self.subTest(url=url[:80], store=bool(store)):
                    for words in (["status"], ["run", "--verbose"]):
                        result = self.hf(*words, *store, self.name,
                                         *(["true"] if words[0] == "run" else []))
                        self.assertCode(64, result)
                        self.assertSilent(result)
                    self.assertNoFileHasIt(*but)

    def test_F41_no_failed_connection_shows_it(self):
        """A login that is refused, a server that is away, and one that echoes its input."""
        many, away = f"127.0.0.1:{self.sentinel.port}/mymaster", kit.free_port()
        echo = self.echo()
        for code, url in ((77, f"redis+sentinel://:{SECRET}@{many}?sentinel_password={SECRET}x"),
                          (77, f"redis+sentinel://:{SECRET}x@{many}?sentinel_password={SECRET}"),
                          (77, f"redis://:{SECRET}x@127.0.0.1:{self.server.port}"),
                          (74, f"redis://:{SECRET}@127.0.0.1:{away}"),
                          (74,
                           f"redis+sentinel://:{SECRET}@127.0.0.1:{away}/m"
                           f"?sentinel_password={SECRET}"),
                          (None, f"redis://:{SECRET}@127.0.0.1:{echo}"),
                          (None,
                           f"redis+sentinel://:{SECRET}@127.0.0.1:{echo}/m"
                           f"?sentinel_password={SECRET}")):
            for words in (["run", "--verbose"], ["status"]):
                with self.subTest(url=url, words=words):
                    result = self.hf(*words, "-S", url, self.name,
                                     *(["true"] if words[0] == "run" else []))
                    self.assertIn(result.code, (code,) if code else (71, 74, 76, 77), result)
                    self.assertSilent(result)

    def echo(self):
        """The port of a server that echoes all input in an error reply."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)

        def answer(connection):
            with connection, contextlib.suppress(OSError):
                while data := connection.recv(65536):
                    connection.sendall(b"-ERR " + data.replace(b"\r\n", b" ") + b"\r\n")

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=answer, args=[listener.accept()[0]],
                                     daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        return listener.getsockname()[1]

    def test_F41_a_misplaced_URL_does_not_show_it(self):
        """A URL that was meant for -S, but is in another place."""
        url = f"redis://:{SECRET}@h"
        for words in (["status", "x", url], ["list", "x", url], ["release", "x", url],
                      ["release", url],
                      ["doctor", url], ["bench", url], ["run", "-c", "true", "x", url], [url],
                      ["top", "x", url],
                      ["run", "-w", url, "x", "true"], ["run", "--lease", url, "x", "true"],
                      ["run", "--json", url, "x", "true"], ["run", "--permits", url, "x", "true"],
                      ["acquire", "--while-pid", url, "x"], ["break", "--token", url, "x"],
                      ["run", f"--stroe={url}", "x", "true"], ["status", f"--quiet={url}", "x"]):
            with self.subTest(words):
                result = self.hf(*words)
                self.assertCode(64, result)
                self.assertSilent(result)
        result = self.hf("run", "-S", "memory:", "x", url)
        self.assertCode(69, result)
        self.assertSilent(result)


if __name__ == "__main__":
    kit.main()
