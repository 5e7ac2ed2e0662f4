# SPDX-License-Identifier: Apache-2.0
"""cli-exit-codes: the exit code of the command, for every reason."""
import os
import select
import signal
import socket
import threading

import kit
from kit import on, until


class Proxy:
    """Between the command and a server on a unix socket.

    `drop_replies` drops all replies. `drop_from` drops those that follow the first request with
    these bytes.
    """

    def __init__(self, path, server, drop_from=None):
        self.path, self.server, self.drop_from, self.drop_replies = path, server, drop_from, False
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen()
        self.quit = os.pipe()
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        pairs, clients = {}, set()
        while True:
            ready, _, _ = select.select([self.quit[0], self.listener, *pairs], [], [])
            if self.quit[0] in ready:
                break
            for source in ready:
                if source is self.listener:
                    client, upstream = source.accept()[0], socket.socket(socket.AF_UNIX)
                    upstream.connect(str(self.server))
                    pairs[client], pairs[upstream] = upstream, client
                    clients.add(client)
                elif source in pairs:
                    self.pass_on(source, pairs, clients)
        for each in pairs:
            each.close()

    def pass_on(self, source, pairs, clients):
        try:
            data = source.recv(65536)
            if data and source in clients and self.drop_from and self.drop_from in data.upper():
                self.drop_replies = True
            if data and not (self.drop_replies and source not in clients):
                pairs[source].sendall(data)
        except OSError:
            data = b""
        if not data:
            other = pairs.pop(source)
            pairs.pop(other, None)
            for each in (source, other):
                each.close()

    def stop(self):
        os.write(self.quit[1], b"x")
        self.thread.join()
        self.listener.close()
        for end in self.quit:
            os.close(end)


@on("file", "redis")
class ExitCodes(kit.Case):
    def test_the_exit_code_of_the_child(self):
        for code in (0, 1, 2, 63, 64, 69, 71, 74, 75, 76, 77, 126, 127, 128, 130, 143, 255):
            with self.subTest(code):
                result = self.hf("run", self.name, "sh", "-c", f"exit {code}")
                self.assertCode(code, result)
                self.assertEqual("", result.err)

    def test_the_exit_code_of_the_child_with_E(self):
        self.assertCode(3, self.hf("run", "-E", "42", self.name, "sh", "-c", "exit 3"))
        self.assertCode(1, self.hf("run", "-E", "42", self.name, "false"))

    def test_128_plus_the_signal_that_killed_the_child(self):
        for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT,
                       signal.SIGSEGV, signal.SIGABRT, signal.SIGPIPE, signal.SIGALRM,
                       signal.SIGUSR1, signal.SIGUSR2, signal.SIGRTMIN, signal.SIGRTMAX):
            with self.subTest(number):
                result = self.hf("run", self.name, "sh", "-c",
                                 f"ulimit -c 0; kill -{int(number)} $$")
                self.assertCode(128 + number, result)
        self.assertFree()

    def test_1_for_a_conflict_and_a_timeout(self):
        self.holder()
        for words in (["-n"], ["-w", "0.05"]):
            result = self.hf("run", *words, self.name, "true")
            self.assertCode(1, result)
            self.assertSays(result)

    def test_69_when_the_command_cannot_be_executed(self):
        directory = self.dir / "directory"
        directory.mkdir()
        no_rights = self.dir / "no-rights"
        no_rights.write_text("#!/bin/sh\n")
        no_interpreter = self.script("no-interpreter", "#!/no/such/interpreter\n")
        for command, reason in (("no-such-command-anywhere", "No such file"),
                                ("./none", "No such file"), (no_rights, "Permission denied"),
                                (directory, "Permission denied|Is a directory"),
                                (no_interpreter, "No such file"), ("", "No such file"),
                                (str(self.dir / "no-rights" / "x"), "Not a directory")):
            with self.subTest(str(command)):
                result = self.hf("run", self.name, "--", command, "x")
                self.assertCode(69, result)
                self.assertSays(result, reason)
                self.assertFree()

    def test_69_suggests_a_correction(self):
        for words, hint in ((["no-such-command-anywhere"], r"\$PATH"),
                            (["echo a; echo b"], "use -c"),
                            (["./none"], "directory$"), (["-n"], "put options before NAME")):
            with self.subTest(words):
                self.assertSays(self.hf("run", self.name, *words), hint)

    def test_69_when_SHELL_cannot_be_executed(self):
        self.env["SHELL"] = "/no/such/shell"
        result = self.hf("run", self.name, "-c", "true")
        self.assertCode(69, result)
        self.assertSays(result, "/no/such/shell", "No such file")


@on("redis")
class StoreCodes(kit.Case):
    def refused(self, code, *words, url=None, patterns=()):
        options = ["-S", url] if url else []
        result = self.hf("run", *options, *words, self.name, "echo", "no")
        self.assertCode(code, result)
        self.assertSays(result, *patterns)
        self.assertEqual("", result.out)
        return result

    def test_74_when_nobody_listens(self):
        self.refused(74, url=f"redis+unix://{self.dir}/none.sock")
        self.refused(74, url=f"redis://127.0.0.1:{kit.free_port()}")
        self.refused(74, "-n", url=f"redis://127.0.0.1:{kit.free_port()}")
        self.refused(74, "-E", "42", url=f"redis://127.0.0.1:{kit.free_port()}")
        self.refused(74, url="redis://no-such-host.invalid")
        self.assertCode(74, self.hf("status", "-S", f"redis+unix://{self.dir}/none.sock", "x"))

    def test_74_when_the_server_does_not_answer(self):
        redis = self.own_redis()
        redis.freeze()
        self.refused(74, url=redis.url + "?connect_timeout=300ms")
        redis.thaw()

    def test_74_when_it_is_not_redis(self):
        with socket.socket(socket.AF_UNIX) as listener:
            path = self.dir / "other.sock"
            listener.bind(str(path))
            listener.listen()

            def answer():
                for _ in range(2):
                    with listener.accept()[0] as client:
                        client.sendall(b"220 mail.example.org ESMTP\r\n")
                        client.settimeout(kit.PATIENCE)
                        client.recv(4096)
            thread = threading.Thread(target=answer, daemon=True)
            thread.start()
            self.refused(74, "-n", url=f"redis+unix://{path}?connect_timeout=3s")

    def test_74_when_the_key_belongs_to_something_else(self):
        """F28"""
        self.redis.command("SET", self.redis.key(self.name), "mine")
        self.refused(74, "-n")
        self.assertEqual(b"mine", self.redis.command("GET", self.redis.key(self.name)))

    def test_74_when_the_server_goes_while_waiting(self):
        """An outage longer than allowed ends the wait."""
        redis = self.own_redis()
        self.env["HOLDFAST_URL"] += "?outage=300ms"
        self.holder()
        waiter = self.start("run", self.name, "echo", "no")
        until(lambda: len(redis.command("CLIENT", "LIST").splitlines()) >= 3, "both to connect")
        redis.stop()
        result = waiter.wait()
        self.assertIn(result.code, (74, 76), result)  # 76 if a request was in flight
        self.assertSays(result)
        self.assertEqual("", result.out)

    def test_77_when_the_server_refuses(self):
        """F27"""
        redis = self.own_redis(password="sesame")
        self.refused(77)
        self.refused(77, "-n")
        self.refused(77, "-E", "42")
        wrong = self.dir / "wrong"
        wrong.write_text("not-it\n")
        wrong.chmod(0o600)
        result = self.refused(77, url=f"{redis.url}?password_file={wrong}")
        self.assertNotIn("not-it", result.err)
        self.assertCode(77, self.hf("status", self.name))
        right = self.dir / "right"
        right.write_text("sesame\n")
        right.chmod(0o600)
        self.assertCode(0, self.hf("run", "-S", f"{redis.url}?password_file={right}", "x", "true"))

    def test_77_when_rights_are_missing(self):
        redis = self.own_redis()
        redis.command("ACL", "SETUSER", "poor", "on", ">sesame", "+@connection", "~*", "&*")
        port_free = f"redis+unix://{redis.socket}?user=poor&password_file={self.dir}/word"
        (self.dir / "word").write_text("sesame\n")
        (self.dir / "word").chmod(0o600)
        result = self.refused(77, "-n", url=port_free)
        self.assertNotIn("sesame", result.err)

    def through(self, **options):
        proxy = Proxy(self.dir / "proxy.sock", self.redis.socket, **options)
        self.addCleanup(proxy.stop)
        self.env["HOLDFAST_URL"] = f"redis+unix://{proxy.path}?command_timeout=300ms&outage=300ms"
        return proxy

    def test_76_when_the_acquire_is_not_answered(self):
        """F12"""
        self.through(drop_from=b"EVAL")
        result = self.refused(76, "-n")
        self.assertLess(result.seconds, 10)

    def test_a_release_that_is_not_answered_is_a_warning(self):
        proxy = self.through()
        job, gate = self.start_with_gate()
        proxy.drop_replies = True
        gate.write_text("go\n")
        result = job.wait()
        self.assertCode(3, result)
        self.assertSays(result)

    def test_an_unanswered_release_prints_nothing_with_quiet(self):
        proxy = self.through()
        job, gate = self.start_with_gate("-q")
        proxy.drop_replies = True
        gate.write_text("go\n")
        result = job.wait()
        self.assertCode(3, result)
        self.assertEqual("", result.err)

    def test_75_when_the_release_finds_it_lost(self):
        """F25, F48: the lock was taken away while the child ran, unnoticed until its end."""
        job, gate = self.start_with_gate()
        self.redis.command("DEL", self.redis.key(self.name))
        gate.write_text("go\n")
        result = job.wait()
        self.assertCode(75, result)
        self.assertSays(result, "lost")

    def start_with_gate(self, *options):
        """A child that ends with 3 once something is written to the gate."""
        gate = self.dir / "gate"
        os.mkfifo(gate)
        job = self.start("run", *options, self.name, "sh", "-c", 'echo in; read x <"$1"; exit 3',
                         "sh", gate)
        until(lambda: job.out, "the child to run")
        return job, gate


if __name__ == "__main__":
    kit.main()
