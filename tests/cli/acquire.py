# SPDX-License-Identifier: Apache-2.0
"""cli-acquire: locks that stay held after their command: acquire, release, extend."""
import json
import os
import signal
import stat

import kit
from kit import on, until


class Handles(kit.Case):
    def setUp(self):
        super().setUp()
        self.handle = self.dir / "handle"

    def leave_nothing(self):
        self.hf("release", "-q", self.handle)
        super().leave_nothing()

    def acquire(self, *words, **options):
        return self.hf("acquire", self.name, "-o", self.handle, *words, **options)

    def status(self):
        return json.loads(self.hf("status", "--json", self.name).out)

    def field(self, word):
        return next(line.split(" ", 1)[1] for line in self.handle.read_text().splitlines()
                    if line.startswith(word + " "))

    def helper(self):
        return kit.Process(self.field("helper").split()[0])

    def bystander_of(self, helper):
        """A process with another start time than the helper; the kernel counts in 10 ms."""
        job = kit.Job(self, ["sleep", "300"])
        self.jobs.append(job)
        return job if job.process.begin != helper.begin else None

    def assertTaken(self, result):
        self.assertCode(0, result)
        self.assertEqual("", result.err)
        self.assertEqual(int(result.out), self.status()["token"])
        self.assertEqual(0o600, stat.S_IMODE(self.handle.stat().st_mode))

    def assertOver(self):
        result = self.hf("release", self.handle)
        self.assertCode(75, result)
        self.assertSays(result, "no longer held")
        self.assertFalse(self.handle.exists())


@on("file", "redis")
class Acquire(Handles):
    def test_detached(self):
        self.assertTaken(self.acquire("--detach", "--max-hold", "5m"))
        helper = self.helper()
        self.assertEqual(helper.pid, self.status()["holder"]["pid"])
        self.assertBusy()
        result = self.hf("release", self.handle)
        self.assertCode(0, result)
        self.assertEqual(("", ""), (result.out, result.err))
        self.assertFalse(self.handle.exists())
        self.assertGone([helper], "the helper")
        self.assertFree()

    def test_it_is_renewed(self):
        self.assertTaken(self.acquire("--detach", "--max-hold", "5m", "--lease", "1500ms"))
        since = kit.now()
        until(lambda: kit.now() - since > 2, "a lease and more")
        self.assertBusy()

    def test_max_hold_ends_it(self):
        self.assertCode(0, self.acquire("--detach", "--max-hold", "300ms"))
        until(lambda: not self.status()["held"], "its end")
        self.assertOver()

    def test_the_end_of_a_process_ends_it(self):
        job = kit.Job(self, ["sleep", "300"])
        self.jobs.append(job)
        self.assertTaken(self.acquire("--while-pid", job.pid))
        self.assertBusy()
        helper = self.helper()
        job.kill()
        self.assertGone([helper], "the helper")
        self.assertFree()
        self.assertOver()

    def test_the_end_of_a_script_ends_it(self):
        result = self.run_bare("sh", "-c",
                               '"$0" acquire -o "$2" --while-pid $$ "$1" && "$0" status -q "$1"',
                               kit.HOLDFAST, self.name, self.handle)
        self.assertCode(0, result)
        until(lambda: not self.status()["held"], "its end")

    def test_max_hold_applies_with_a_process(self):
        self.assertCode(0, self.acquire("--while-pid", os.getpid(), "--max-hold", "300ms"))
        until(lambda: not self.status()["held"], "its end")

    def test_held_by_another(self):
        self.holder()
        for words in (["-n"], ["-w", "100ms"]):
            result = self.acquire("--detach", "--max-hold", "5m", *words)
            self.assertCode(1, result)
            self.assertSays(result, f"holdfast status -S \\S+ {self.name}$")
            self.assertEqual("", result.out)
            self.assertFalse(self.handle.exists())

    def test_it_waits_for_its_turn(self):
        holder = self.holder()
        job = self.start("acquire", "-o", self.handle, "--detach", "--max-hold", "5m", self.name)
        until(lambda: self.status()["waiting"] == 1, "it to wait")
        holder.signal(signal.SIGTERM)
        self.assertTaken(job.wait())

    def test_a_waiter_that_gives_up_leaves_no_process_behind(self):
        self.holder()
        for number in (signal.SIGKILL, signal.SIGTERM):
            job = self.start("acquire", "-o", self.handle, "--detach", "--max-hold", "5m",
                             self.name)
            until(lambda: self.status()["waiting"] == 1, "it to wait")
            helpers = job.family()
            job.signal(number)
            self.assertCode(-number, job.wait())
            self.assertGone(helpers, "the helper")
            until(lambda: self.status()["waiting"] == 0, "it to leave the queue")
            self.assertFalse(self.handle.exists())

    def test_a_helper_that_is_killed(self):
        self.assertTaken(self.acquire("--detach", "--max-hold", "5m", "--lease", "1s"))
        self.helper().kill()
        until(lambda: not self.status()["held"], "its end")
        self.assertOver()

    def test_B26_broken(self):
        self.assertTaken(self.acquire("--detach", "--max-hold", "5m", "--lease", "1s"))
        helper = self.helper()
        self.assertCode(0, self.hf("break", "-q", "--yes", self.name))
        self.assertGone([helper], "the helper")
        self.assertOver()

    def test_a_handle_in_use_is_not_overwritten(self):
        self.assertTaken(self.acquire("--detach", "--max-hold", "5m"))
        before = self.handle.read_text()
        result = self.hf("acquire", "other", "-o", self.handle, "--detach", "--max-hold", "5m")
        self.assertCode(64, result)
        self.assertSays(result, f"holdfast release {self.handle}$")
        self.assertEqual(before, self.handle.read_text())
        self.helper().kill()
        # The first thread of a killed process is gone before the last one.
        until(lambda: self.hf("acquire", "other", "-o", self.handle, "--detach", "--max-hold",
                              "5m").code == 0,
              "its end")

    def test_other_files_are_not_touched(self):
        self.handle.write_text("mine\n")
        self.assertCode(64, self.acquire("--detach", "--max-hold", "5m"))
        for word in ("release", "extend"):
            self.assertCode(64, self.hf(word, self.handle), "not a handle")
            self.assertCode(64, self.hf(word, self.dir / "none"), "cannot open")
            self.assertCode(64, self.hf(word, self.dir))
        self.assertEqual("mine\n", self.handle.read_text())

    def test_a_handle_that_others_may_write_is_refused(self):
        self.assertTaken(self.acquire("--detach", "--max-hold", "5m"))
        self.handle.chmod(0o666)
        self.assertCode(64, self.hf("release", self.handle), "only you can write")
        self.handle.chmod(0o600)

    def test_a_reused_pid_is_not_mistaken_for_the_helper(self):
        self.assertTaken(self.acquire("--detach", "--max-hold", "5m"))
        helper, text = self.helper(), self.handle.read_text()
        self.assertCode(0, self.hf("release", self.handle))
        bystander = until(lambda: self.bystander_of(helper), "a process that began at another time")
        self.handle.write_text(text.replace(f"helper {helper.pid} ", f"helper {bystander.pid} "))
        self.handle.chmod(0o600)
        self.assertOver()
        self.assertFalse(bystander.ended())

    def test_a_helper_is_not_extended(self):
        self.assertTaken(self.acquire("--detach", "--max-hold", "5m"))
        self.assertCode(64, self.hf("extend", self.handle), "no need to extend")
        self.assertBusy()

    def test_closed_streams(self):
        result = self.run_bare("sh", "-c",
                               '"$0" acquire -o "$2" --detach --max-hold 5m "$1" <&- >&- 2>&-',
                               kit.HOLDFAST, self.name, self.handle)
        self.assertCode(0, result)
        self.assertBusy()

    def test_names_with_any_bytes(self):
        self.name = "a b\n%41{x}\t\u00e4"
        self.assertTaken(self.acquire("--detach", "--max-hold", "5m"))
        self.assertEqual(5, len(self.handle.read_text().splitlines()))
        self.assertCode(0, self.hf("release", self.handle))

    def test_usage(self):
        for words in (["--detach"], ["--detach", "--max-hold", "0"], [], ["--no-renew"],
                      ["--while-pid", "0"],
                      ["--while-pid", "x"], ["--while-pid", "1", "--detach", "--max-hold", "1"],
                      ["--no-renew", "--lease", "1m", "--max-hold", "1m"],
                      ["--while-pid", "999999999"]):
            self.assertCode(64, self.acquire(*words))
            self.assertFalse(self.handle.exists())
        self.assertCode(64, self.hf("acquire", "--detach", "--max-hold", "5", "x"), "-o HANDLE")
        self.assertCode(64, self.acquire("--detach", "--max-hold", "5", "-S", "memory:"),
                        "one process")
        self.assertCode(74,
                        self.acquire("--detach", "--max-hold", "5", "-S", "redis://127.0.0.1:1"))
        self.assertFalse(self.handle.exists())
        self.assertCode(64,
                        self.hf("acquire", "x", "-o", self.dir / "no" / "h", "--detach",
                                "--max-hold", "5"))
        for word in ("release", "extend"):
            self.assertCode(64, self.hf(word), "HANDLE is missing")
            self.assertCode(64, self.hf(word, "a", "b"), "only one HANDLE")


@on("redis")
class NoRenew(Handles):
    def test_B34_without_a_helper(self):
        self.assertTaken(self.acquire("--no-renew", "--lease", "30m"))
        found = self.status()
        self.assertTrue(25 * 60000 < found["remaining_ms"] <= 30 * 60000)
        self.assertEqual("holdfast", found["holder"]["program"])
        self.assertEqual([], kit.strays())
        self.assertBusy()
        self.assertCode(0, self.hf("release", self.handle))
        self.assertFalse(self.handle.exists())
        self.assertFree()

    def test_B34_it_is_extended(self):
        self.assertTaken(self.acquire("--no-renew", "--lease", "1m"))
        self.assertCode(0, self.hf("extend", self.handle, "--lease", "1h"))
        self.assertTrue(self.status()["remaining_ms"] > 50 * 60000)
        self.assertCode(0, self.hf("extend", self.handle))
        self.assertTrue(self.status()["remaining_ms"] > 50 * 60000)
        self.assertEqual(0o600, stat.S_IMODE(self.handle.stat().st_mode))
        self.assertCode(0, self.hf("release", self.handle))

    def test_it_ends_with_its_lease(self):
        self.assertTaken(self.acquire("--no-renew", "--lease", "500ms"))
        until(lambda: not self.status()["held"], "its end")
        self.assertCode(75, self.hf("extend", self.handle), "no longer held")
        self.assertOver()

    def test_a_later_holder_is_not_touched(self):
        self.assertTaken(self.acquire("--no-renew", "--lease", "500ms"))
        until(lambda: not self.status()["held"], "its end")
        holder = self.holder()
        self.assertOver()
        self.assertEqual(holder.fence, self.status()["token"])

    def test_the_handle_names_the_store(self):
        self.assertTaken(self.acquire("--no-renew", "--lease", "1m"))
        del self.env["HOLDFAST_URL"]
        self.assertCode(0, self.hf("release", self.handle))

    def test_no_password_in_the_handle(self):
        port = kit.free_port()
        self.own_redis(port=port, password="sesame")
        self.env["HOLDFAST_URL"] = f"redis://:sesame@127.0.0.1:{port}"
        self.assertTaken(self.acquire("--no-renew", "--lease", "1m"))
        self.assertNotIn("sesame", self.handle.read_text())
        self.assertEqual(f"redis://127.0.0.1:{port}", self.field("store"))
        self.assertCode(77,
                        self.hf("release", self.handle,
                                env={"PATH": self.env["PATH"], "HOME": str(self.dir)}))
        self.assertCode(0, self.hf("release", self.handle))

    def test_a_store_that_is_away(self):
        self.own_redis()
        self.assertTaken(self.acquire("--no-renew", "--lease", "1m"))
        self.redis.stop()
        self.assertCode(74, self.hf("release", self.handle))
        self.assertCode(74, self.hf("extend", self.handle))
        self.assertTrue(self.handle.exists())
        self.redis.start()  # it has lost all data
        self.assertOver()

    def test_no_space_for_the_handle(self):
        result = self.run_bare("sh", "-c",
                               'ulimit -f 0; trap "" XFSZ; '
                               '"$0" acquire -o "$2" --no-renew --lease 1m "$1"',
                               kit.HOLDFAST, self.name, self.handle)
        self.assertCode(71, result, "cannot write the handle")
        self.assertFalse(self.handle.exists())
        self.assertFree()


@on("file", "redis")
class OthersDirectory(Handles):
    """-o HANDLE and --metrics FILE as root, in a directory that another user changes meanwhile."""

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest("only root can act as a second user")
        self.theirs, self.victim = self.dir / "theirs", self.dir / "victim"
        self.theirs.mkdir()
        os.chown(self.theirs, 65534, 65534)
        self.victim.write_text("# root's own\n")
        self.victim.chmod(0o600)
        self.handle = self.theirs / "handle"

    def other(self, script):
        result = self.run_bare("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh",
                               "-ec", script,
                               cwd=self.theirs)
        self.assertCode(0, result)

    def assertUntouched(self):
        self.assertEqual("# root's own\n", self.victim.read_text())
        self.assertEqual((0, 0o600),
                         (self.victim.stat().st_uid, stat.S_IMODE(self.victim.stat().st_mode)))

    def waiting(self, *words):
        job = self.start("acquire", "-o", self.handle, *words, self.name)
        until(lambda: self.status()["waiting"] == 1, "it to wait")
        return job

    def test_a_link_in_the_place_of_the_handle_is_not_followed(self):
        holder = self.holder()
        job = self.waiting("--detach", "--max-hold", "300ms")
        self.other(f"rm handle; ln -s {self.victim} handle")
        holder.signal(signal.SIGTERM)
        result = job.wait()
        until(lambda: not self.status()["held"], "its end")
        until(lambda: not kit.strays(), "the helper to end")
        self.assertUntouched()
        # A lock that nobody could release is released at once.
        self.assertCode(71, result, "cannot write the handle.*the file was replaced by another")
        self.assertTrue(self.handle.is_symlink())

    def test_a_link_put_there_later_is_not_followed(self):
        job = kit.Job(self, ["sleep", "300"])
        self.jobs.append(job)
        self.assertTaken(self.acquire("--while-pid", job.pid))
        helper = self.helper()
        self.other(f"rm handle; ln -s {self.victim} handle")
        job.kill()
        self.assertGone([helper], "the helper")
        self.assertUntouched()
        self.assertCode(64, self.hf("release", self.handle), "symbolic link")
        self.assertUntouched()

    def test_a_link_to_another_handle_releases_nothing(self):
        mine = self.dir / "mine"
        self.assertCode(0,
                        self.hf("acquire", "-o", mine, "--detach", "--max-hold", "5m", self.name))
        self.other(f"ln -s {mine} handle")
        self.assertCode(64, self.hf("release", self.handle), "symbolic link")
        self.assertCode(64, self.hf("extend", self.handle), "symbolic link")
        self.assertBusy()
        self.assertCode(0, self.hf("release", mine))

    def test_a_link_in_the_place_of_the_directory_is_not_followed(self):
        """Only the file that was created is removed."""
        mine = self.dir / "mine"
        mine.mkdir()
        (mine / "handle").write_text("root's\n")
        self.other("mkdir sub")
        self.handle = self.theirs / "sub" / "handle"
        self.holder()
        job = self.waiting("--detach", "--max-hold", "5m", "-w", "2")
        self.other(f"mv sub away; ln -s {mine} sub")
        self.assertCode(1, job.wait())
        self.assertEqual("root's\n", (mine / "handle").read_text())
        self.assertFalse((self.theirs / "away" / "handle").exists())
        self.handle = self.dir / "none"

    def test_a_file_placed_for_the_metrics_is_not_written_to(self):
        """Metrics are written to a temporary file next to FILE. Its name can be guessed."""
        for link in (os.link, os.symlink):
            begin = self.dir / f"begin-{link.__name__}"
            os.mkfifo(begin)
            metrics = self.theirs / "metrics"
            job = self.run_later(begin, "run", "--metrics", metrics, self.name, "true")
            link(self.victim, f"{metrics}.{job.pid}")
            begin.write_text("go\n")
            self.assertCode(0, job.wait())
            self.assertUntouched()
            self.assertIn("holdfast_", metrics.read_text())
            metrics.unlink()

    def run_later(self, begin, *words):
        job = kit.Job(self,
                      ["sh", "-c", 'read x <"$0"; exec "$@"', begin, kit.HOLDFAST,
                       *map(kit.arg, words)],
                      env=self.env)
        self.jobs.append(job)
        return job


@on("file")
class InFiles(Handles):
    def test_a_hold_cannot_leave_its_process(self):
        result = self.acquire("--no-renew", "--lease", "1m")
        self.assertCode(64, result)
        self.assertSays(result, "--while-pid or --detach")
        self.assertFalse(self.handle.exists())


if __name__ == "__main__":
    kit.main()
