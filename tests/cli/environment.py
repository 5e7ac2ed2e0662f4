# SPDX-License-Identifier: Apache-2.0
"""cli-environment: the wrapper gives a command the same environment as without the wrapper.

Most tests run the same command twice, bare and wrapped, and compare.
"""
import json
import os
import random
import resource
import signal

import kit
from kit import on, until

ADDED = {"HOLDFAST_NAME", "HOLDFAST_FENCE", "HOLDFAST_STORE"}


@on("file", "redis")
class Environment(kit.Case):
    def wrapped(self, *command, **options):
        return self.hf("run", self.name, "--", *command, **options)

    def both(self, *command, **options):
        bare, wrapped = self.run_bare(*command, **options), self.wrapped(*command, **options)
        return bare, wrapped

    def assertSame(self, *command, **options):
        bare, wrapped = self.both(*command, text=False, **options)
        self.assertEqual((bare.code, bare.out, bare.err), (wrapped.code, wrapped.out, wrapped.err))
        return wrapped

    # -- Variables

    def variables(self, *options, **more):
        result = self.hf("run", *options, self.name, "env", "-0", **more)
        self.assertCode(0, result)
        lines = result.out.split("\0")[:-1]
        self.assertEqual(len(lines), len({line.partition("=")[0] for line in lines}), lines)
        return dict(line.split("=", 1) for line in lines)

    def test_three_variables_are_added_and_no_other_is_touched(self):
        self.env.update({"EMPTY": "", "ODD": "a=b\nc\t$HOME `x` \\", "é": "ü"})
        self.assertEqual(self.env, {k: v for k, v in self.variables().items() if k not in ADDED})
        self.assertLessEqual(ADDED, set(self.variables()))

    def test_the_name_and_the_store(self):
        seen = self.variables()
        self.assertEqual(self.name, seen["HOLDFAST_NAME"])
        self.assertEqual(self.url, seen["HOLDFAST_STORE"])

    def test_variables_of_an_outer_wrapper_are_replaced(self):
        outer = {key: "outer" for key in ADDED}
        self.env.update(outer)
        seen = self.variables()
        self.assertFalse(set(outer.items()) & set(seen.items()))
        result = self.hf("run", "outer", kit.HOLDFAST, "run", "inner", "printenv", "HOLDFAST_NAME")
        self.assertEqual("inner\n", result.out)

    def test_B28_tokens_grow(self):
        fences = [int(self.variables()["HOLDFAST_FENCE"]) for _ in range(8)]
        self.assertGreater(fences[0], 0)
        self.assertEqual(sorted(set(fences)), fences)

    # -- Input and output

    def test_input_and_output_pass_byte_by_byte(self):
        data = random.Random(1).randbytes(6 << 20)
        result = self.wrapped("cat", input=data, text=False)
        self.assertCode(0, result)
        self.assertTrue(data == result.out)
        self.assertEqual(b"", result.err)

    def test_errors_pass_byte_by_byte(self):
        data = bytes(range(256)) * 400
        result = self.wrapped("sh", "-c", "cat >&2", input=data, text=False)
        self.assertEqual((b"", data), (result.out, result.err))

    def test_output_is_not_swapped_or_mixed(self):
        self.assertSame("sh", "-c", "printf out; printf err >&2; exit 4")

    def test_input_that_the_command_does_not_read_stays_for_the_next(self):
        """`(holdfast run x head -c 2; cat)`: the wrapper does not read stdin."""
        result = self.run_bare("sh", "-c",
                               'for i in 1 2; do "$0" run x dd bs=2 count=1 status=none; '
                               "done; cat", kit.HOLDFAST, stdin=self.file(b"abcdefgh"))
        self.assertEqual("abcdefgh", result.out)

    def file(self, data):
        path = self.dir / "input"
        path.write_bytes(data)
        file = open(path, "rb")
        self.addCleanup(file.close)
        return file

    def test_head_ends_the_command(self):
        """The command gets SIGPIPE as without a wrapper; nothing hangs, no message is printed."""
        result = self.run_bare("bash", "-c", '"$0" run x yes | head -1; echo "${PIPESTATUS[0]}"',
                               kit.HOLDFAST)
        self.assertEqual(("y\n141\n", ""), (result.out, result.err))

    def test_a_substitution_ends_with_the_command(self):
        """No process of the wrapper keeps the pipe open, or $(...) would wait for it."""
        result = self.run_bare("sh", "-c", 'x=$("$0" run x echo inner); echo "[$x]"', kit.HOLDFAST)
        self.assertEqual("[inner]\n", result.out)

    def test_output_may_be_full(self):
        with open("/dev/full", "wb") as full:
            bare, wrapped = self.both("sh", "-c", "echo x 2>/dev/null || exit 9", stdout=full)
        self.assertEqual((9, 9), (bare.code, wrapped.code))

    # -- Descriptors

    def seen(self, run, **options):
        path = self.dir / "seen"
        path.unlink(missing_ok=True)
        result = run(*self.child("see", path), **options)
        self.assertCode(0, result)
        return json.loads(path.read_text())

    def same_seen(self, **options):
        bare, wrapped = self.seen(self.run_bare, **options), self.seen(self.wrapped, **options)
        for one in (bare, wrapped):
            one["environment"] = {k: v for k, v in one["environment"].items()
                                  if bytes.fromhex(k).decode() not in ADDED}
            for key in ("pid", "parent", "session", "group"):
                del one[key]
        self.assertEqual(bare, wrapped)
        return wrapped

    def test_F43_no_descriptor_of_ours_is_inherited(self):
        with open(self.dir / "in", "w+b") as i, open(self.dir / "out", "wb") as o:
            seen = self.same_seen(stdin=i, stdout=o, stderr=o)
        self.assertEqual(["0", "1", "2"], sorted(seen["fds"]))

    def test_descriptors_of_the_user_are_inherited(self):
        """Includes numbers that the wrapper might use itself: low, high, and in between."""
        with open(self.dir / "file", "w+b") as file:
            fds = [fd for fd in (3, 4, 5, 9, 17, 250) if not self.taken(fd)]
            for fd in fds:
                os.dup2(file.fileno(), fd)
            try:
                seen = self.same_seen(stdin=file, stdout=file, stderr=file, pass_fds=fds)
            finally:
                for fd in fds:
                    os.close(fd)
        self.assertLessEqual(set(map(str, fds)), set(seen["fds"]))

    def taken(self, fd):
        return os.path.exists(f"/proc/self/fd/{fd}")

    def test_closed_descriptors_stay_closed(self):
        """Files that the wrapper opens do not get the closed numbers."""
        seen = self.dir / "seen"
        see = " ".join(f"'{word}'" for word in self.child("see", seen))
        for closed in ("<&-", ">&-", "2>&-", "<&- >&-", "<&- 2>&-", ">&- 2>&-", "<&- >&- 2>&-"):
            with self.subTest(closed):
                found = []
                for wrapper in ("", f"'{kit.HOLDFAST}' run --verbose x "):
                    seen.unlink(missing_ok=True)
                    self.run_bare("sh", "-c", f"{wrapper}{see} {closed}")
                    found.append(sorted(json.loads(seen.read_text())["fds"]))
                self.assertEqual(*found)

    def test_messages_do_not_go_to_a_file_that_got_descriptor_2(self):
        """With 2>&- the next open returns 2: a lock file, or the connection to the server."""
        self.holder("held")
        fences = []
        for closed in ("2>&-", "<&- 2>&-", ">&- 2>&-", "<&- >&- 2>&-"):
            script = f"'{kit.HOLDFAST}' run"
            with self.subTest(closed):
                for words, code in (("--verbose x true", 0), ("-n held true", 1),
                                    ("-w 0.05 held true", 1), ("x ./none", 69), ("-w x", 64)):
                    self.assertCode(code, self.run_bare("sh", "-c", f"{script} {words} {closed}"))
                result = self.hf("run", "x", "printenv", "HOLDFAST_FENCE")
                self.assertCode(0, result)
                fences.append(int(result.out))
        self.assertEqual(sorted(set(fences)), fences)
        self.assertBusy("held")

    def test_everything_else_is_unchanged(self):
        def change():
            os.umask(0o027)
            os.nice(3)
            os.chdir("/")
            resource.setrlimit(resource.RLIMIT_NOFILE, (200, 300))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with open(self.dir / "out", "wb") as out:
            self.same_seen(stdout=out, stderr=out, preexec_fn=change)

    def test_the_child_has_a_group_of_its_own_in_the_same_session(self):
        path = self.dir / "seen"
        job = self.start("run", self.name, "--", *self.child("see", path))
        self.assertCode(0, job.wait())
        seen = json.loads(path.read_text())
        self.assertEqual(seen["pid"], seen["group"])
        self.assertEqual(job.pid, seen["session"])
        self.assertEqual(job.pid, seen["parent"])

    # -- Signals

    def signals_of(self, run, change):
        result = run("grep", "-E", "^(Sig|Shd)(Blk|Ign|Cgt|Pnd)", "/proc/self/status",
                     preexec_fn=change, restore_signals=False)
        self.assertCode(0, result)
        # The C library uses 32 and 33 itself when it starts a thread.
        own = 1 << 31 | 1 << 32
        rows = (row.split() for row in result.out.splitlines())
        return {name: int(mask, 16) & ~own for name, mask in rows}

    def test_F43_mask_and_dispositions_are_as_inherited(self):
        # Without those that cannot be changed, and those of the C library and the sanitizers.
        every = set(range(1, 65)) - {signal.SIGKILL, signal.SIGSTOP, 32, 33, signal.SIGSEGV,
                                     signal.SIGBUS, signal.SIGFPE}

        def nothing():
            pass

        def blocked(*numbers):
            return lambda: signal.pthread_sigmask(signal.SIG_BLOCK, numbers)

        def ignored(*numbers):
            return lambda: [signal.signal(number, signal.SIG_IGN) for number in numbers]

        def default(*numbers):
            return lambda: [signal.signal(number, signal.SIG_DFL) for number in numbers]

        for title, change in (
                ("as Python left them", nothing), ("all default", default(*every)),
                ("SIGPIPE ignored", ignored(signal.SIGPIPE)), ("nohup", ignored(signal.SIGHUP)),
                ("in the background of sh", ignored(signal.SIGINT, signal.SIGQUIT)),
                ("SIGTERM blocked", blocked(signal.SIGTERM)),
                ("SIGCHLD blocked", blocked(signal.SIGCHLD)),
                ("SIGCHLD ignored", ignored(signal.SIGCHLD)),
                ("SIGTTOU, SIGTSTP ignored",
                 ignored(signal.SIGTTOU, signal.SIGTSTP, signal.SIGTTIN)),
                ("all ignored", ignored(*every)), ("all blocked", blocked(*every))):
            with self.subTest(title):
                self.assertEqual(self.signals_of(self.run_bare, change),
                                 self.signals_of(self.wrapped, change))

    def test_the_exit_code_is_right_with_any_inherited_SIGCHLD(self):
        """With SIGCHLD ignored the kernel reaps children, and their exit code is lost."""
        for change in (lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN),
                       lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])):
            self.assertCode(5, self.wrapped("sh", "-c", "exit 5", preexec_fn=change))
            self.assertCode(143, self.wrapped("sh", "-c", "kill $$", preexec_fn=change))
            self.assertCode(69, self.wrapped("./none", preexec_fn=change))

    # -- Processes

    def test_nothing_is_left_when_it_ends(self):
        """No guard and no zombie is left. Without a reaper, every run would leave one."""
        for command in (["true"], ["sh", "-c", "kill -9 $$"], ["./none"],
                        ["sh", "-c", "sleep 0.1"]):
            with self.subTest(command):
                job = self.start("run", "-q", self.name, *command)
                job.wait()
                left = [p for p in kit.family() if p.pid not in kit.KNOWN]
                self.assertEqual([], left)

    def test_the_child_has_no_children_of_the_wrapper(self):
        """`wait` in a script does not wait for a process of the wrapper."""
        result = self.wrapped("sh", "-c", "cat /proc/$$/task/$$/children")
        self.assertEqual(1, len(result.out.split()), result)  # the cat itself

    def test_processes_that_the_child_leaves_keep_running(self):
        result = self.wrapped("sh", "-c", "sleep 300 >/dev/null 2>&1 & echo $!")
        self.assertCode(0, result)
        left = kit.Process(result.out)
        self.addCleanup(left.kill)
        self.assertFree()
        self.assertTrue(left.runs)
        left.kill()


@on("redis")
class Secrets(kit.Case):
    """No password in the child's environment, nor in any output."""

    SECRET = "s3kr1t"

    def setUp(self):
        super().setUp()
        self.port = kit.free_port()
        self.own_redis(port=self.port)
        self.redis.command("ACL", "SETUSER", "mallory", "on", ">" + self.SECRET, "+@all", "~*",
                           "&*")
        self.redis.command("ACL", "SETUSER", "default", "off")

    def url_with(self, user="mallory", password=SECRET, rest=""):
        return f"redis://{user}:{password}@127.0.0.1:{self.port}{rest}"

    def assertSilent(self, result):
        text = result.out + result.err
        self.assertNotIn(self.SECRET, text)
        self.assertNotIn("mallory", text)
        self.assertNotIn("%333kr1t", text)

    def test_the_store_is_named_without_user_and_password(self):
        for url in (self.url_with(), self.url_with(rest="/0"), self.url_with(password="%733kr1t"),
                    self.url_with(rest="?lease=20s")):
            with self.subTest(url):
                result = self.hf("run", "--verbose", "-S", url, self.name, "printenv",
                                 "HOLDFAST_STORE")
                self.assertCode(0, result)
                self.assertSilent(result)
                self.assertIn(f"127.0.0.1:{self.port}", result.out)
                self.assertIn(f"127.0.0.1:{self.port}", result.err)
                self.assertSilent(self.hf("status", "-S", url, self.name))

    def test_the_store_is_named_without_a_user_given_as_an_option(self):
        word = self.dir / "word"
        word.write_text(self.SECRET + "\n")
        word.chmod(0o600)
        url = f"redis://127.0.0.1:{self.port}?user=mallory&password_file={word}"
        result = self.hf("run", "--verbose", "-S", url, self.name, "printenv", "HOLDFAST_STORE")
        self.assertCode(0, result)
        self.assertSilent(result)

    def test_the_named_store_has_the_same_lock(self):
        """HOLDFAST_STORE keeps the database and the prefix, so it leads to the same lock."""
        url = self.url_with(rest="/3?prefix=mine")
        result = self.hf("run", "-S", url, self.name, "printenv", "HOLDFAST_STORE")
        self.assertRegex(result.out, r"/3\b")
        self.assertIn("prefix=mine", result.out)

    def test_no_error_shows_the_password(self):
        wrong = self.SECRET + "x"
        for code, url in ((77, self.url_with(password=wrong)),
                          (64, self.url_with(password=wrong, rest="?walk=1")),
                          (64, self.url_with(password=wrong, rest="/notanumber")),
                          (64, f"redis://mallory:{wrong}@127.0.0.1:notaport"),
                          (64, f"redis://mallory:{wrong}@[::1"),
                          (64, f"rediz://mallory:{wrong}@127.0.0.1"),
                          (64, f"redis:mallory:{wrong}@127.0.0.1"),
                          (64, f"redis://mallory:{wrong}%zz@127.0.0.1"),
                          (74, f"redis://mallory:{wrong}@127.0.0.1:{kit.free_port()}"),
                          (64, f"file://mallory:{wrong}@host/dir")):
            for words in (["run", "--verbose", "-S", url, "x", "true"], ["status", "-S", url, "x"]):
                with self.subTest(words):
                    result = self.hf(*words)
                    self.assertCode(code, result)
                    self.assertSilent(result)

    def test_no_loss_message_shows_the_password(self):
        job = self.start("run", "--verbose", "-S", self.url_with(), "--lease", "1s", self.name,
                         "sh",
                         "-c", "echo in; exec sleep 60")
        until(lambda: job.out, "the child to run")
        self.redis.stop()
        result = job.wait()
        self.assertCode(75, result)
        self.assertSilent(result)


if __name__ == "__main__":
    kit.main()
