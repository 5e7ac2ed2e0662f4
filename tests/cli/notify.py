# SPDX-License-Identifier: Apache-2.0
"""cli-notify: what a run reports: hooks, JSON events, metrics, label."""
import json
import os
import signal
import subprocess

import kit
from kit import on, until


@on("file", "redis")
class Hooks(kit.Case):
    def noting(self, file):
        variables = "$HOLDFAST_EVENT $HOLDFAST_NAME $HOLDFAST_FENCE $HOLDFAST_STORE"
        return f'echo "{variables}" >>{self.dir}/{file}'

    def noted(self, file):
        path = self.dir / file
        return path.read_text() if path.exists() else ""

    def test_a_wait_and_its_end_are_reported(self):
        holder = self.holder()
        job = self.start("run", "--on-wait", self.noting("w"), "--on-acquire", self.noting("a"),
                         self.name,
                         "--", "sh", "-c", 'echo "$HOLDFAST_FENCE $HOLDFAST_EVENT"')
        until(lambda: self.noted("w"), "the hook of the wait")
        self.assertEqual(f"wait {self.name}  {self.url}\n", self.noted("w"))
        self.assertEqual("", self.noted("a"))
        holder.signal(signal.SIGTERM)
        result = job.wait()
        self.assertCode(0, result)
        token = result.out.split()[0]
        self.assertEqual(f"{token} \n", result.out)  # the command is not a hook
        self.assertEqual(f"acquire {self.name} {token} {self.url}\n", self.noted("a"))

    def test_without_a_wait_no_wait_is_reported(self):
        self.assertCode(0, self.hf("run", "--on-wait", self.noting("w"), self.name, "true"))
        self.holder()
        self.assertCode(1, self.hf("run", "-n", "--on-wait", self.noting("w"), self.name, "true"))
        self.assertEqual("", self.noted("w"))

    def test_hooks_do_not_change_the_length_of_a_wait(self):
        self.holder()
        result = self.hf("run", "-w", "1", "--on-wait", self.noting("w"), self.name, "true")
        self.assertCode(1, result)
        self.assertGreaterEqual(result.seconds, 1)
        self.assertIn("wait", self.noted("w"))

    def test_the_output_of_a_hook_is_separate_from_that_of_the_command(self):
        result = self.hf("run", "--on-acquire", "echo hook; cat", self.name, "echo", "command")
        self.assertCode(0, result)
        self.assertEqual(("command\n", "hook\n"), (result.out, result.err))

    def test_the_failure_of_a_hook_is_reported_and_does_not_fail_the_run(self):
        result = self.hf("run", "--on-acquire", "exit 3", self.name, "true")
        self.assertCode(0, result)
        self.assertSays(result, "the command of --on-acquire ended with exit code 3")

    def test_the_lock_does_not_wait_for_a_hook(self):
        job = self.start("run", "--on-acquire", "exec sleep 300", self.name, "true")
        until(lambda: any("sleep 300" in p.command() for p in job.family()), "the hook")
        until(lambda: self.hf("run", "-n", self.name, "true").code == 0, "the lock to be free")
        self.assertFalse(job.ended())
        job.kill()
        for process in kit.family():
            if "sleep 300" in process.command():
                process.kill()

    def test_a_hook_runs_in_the_shell_of_the_environment(self):
        self.env["SHELL"] = self.script("shell", '#!/bin/sh\nprintf "%s." mine "$@"\n')
        result = self.hf("run", "--on-acquire", "a  b", self.name, "true")
        self.assertEqual("mine.-c.a  b.", result.err, result)
        self.env["SHELL"] = "/no/such/shell"
        result = self.hf("run", "--on-acquire", "a", self.name, "true")
        self.assertCode(0, result)
        self.assertSays(result, "--on-acquire")

    def test_a_signal_that_ends_the_wait_ends_the_hook(self):
        self.holder()
        job = self.start("run", "--on-wait", f"echo $$ >{self.dir}/pid; exec sleep 300", self.name,
                         "true")
        until(lambda: self.noted("pid"), "the hook")
        hook = kit.Process(self.noted("pid").strip())
        job.signal(signal.SIGTERM)
        self.assertCode(-signal.SIGTERM, job.wait())
        self.assertGone([hook], "the hook outlived the wait")


@on("file")
class SlowHooks(kit.Case):
    def test_a_hook_that_does_not_end_is_killed(self):
        result = self.hf("run", "--on-acquire", "exec sleep 300", self.name, "true")
        self.assertCode(0, result)
        self.assertSays(result, "too long")


@on("file", "redis")
class Events(kit.Case):
    def run_events(self, *words, wait=True, **options):
        """The job, and a function that reads its events so far."""
        path = self.dir / "events"
        with open(path, "ab") as file:
            fd = file.fileno()
            job = self.start("run", "--json", fd, *words, pass_fds=[fd], **options)
        if wait:
            job.wait()
        return job, lambda: [json.loads(line) for line in path.read_text().splitlines()]

    def names(self, events):
        return [event["event"] for event in events]

    def test_the_events_of_a_run(self):
        job, events = self.run_events(self.name, "sh", "-c", "echo $HOLDFAST_FENCE; exit 4")
        self.assertEqual(["acquired", "started", "ended", "released"], self.names(events()))
        acquired, started, ended, released = events()
        self.assertEqual(int(job.out), acquired["token"])
        self.assertEqual([int(job.out)], acquired["tokens"])
        self.assertGreater(started["pid"], 0)
        self.assertEqual(4, ended["exit_code"])
        self.assertEqual("HF_OK", released["result"])
        for event in events():
            self.assertEqual(self.name, event["name"])
            self.assertGreater(event["time_unix_ms"], 1500000000000)
        self.assertEqual("", job.err)

    def test_a_wait_names_the_holder(self):
        holder = self.holder()
        job, events = self.run_events(self.name, "true", wait=False)
        until(lambda: events(), "the first event")
        first = events()[0]
        self.assertEqual(("waiting", holder.pid, 0),
                         (first["event"], first["holder"]["pid"], first["ahead"]))
        holder.signal(signal.SIGTERM)
        job.wait()
        self.assertEqual(["waiting", "acquired", "started", "ended", "released"],
                         self.names(events()))

    def test_conflict_and_timeout_are_distinguished(self):
        self.holder()
        for words, result in ((["-n"], "HF_BUSY"), (["-w", "1", "-E", "5"], "HF_TIMEOUT")):
            job, events = self.run_events(*words, self.name, "true")
            self.assertEqual(("failed", result), (events()[-1]["event"], events()[-1]["result"]))
            self.assertEqual(job.popen.returncode, events()[-1]["exit_code"])

    def test_a_signal_that_ends_the_command(self):
        _, events = self.run_events(self.name, "sh", "-c", "kill -KILL $$")
        self.assertEqual((137, 9), (events()[2]["exit_code"], events()[2]["signal"]))

    def test_a_signal_that_ends_the_wait(self):
        self.holder()
        job, events = self.run_events(self.name, "true", wait=False)
        until(lambda: events(), "the wait")
        job.signal(signal.SIGTERM)
        job.wait()
        self.assertEqual("HF_CANCELLED", events()[-1]["result"])

    def test_a_loss(self):
        job, events = self.run_events("--lease", "6s", self.name, "sleep", "300", wait=False)
        until(lambda: "started" in self.names(events()), "the command")
        self.assertCode(0, self.hf("break", "--yes", self.name))
        self.assertCode(75, job.wait())
        self.assertEqual(["acquired", "started", "lost", "ended"], self.names(events()))
        self.assertTrue(events()[2]["why"])

    def test_a_command_that_cannot_be_run(self):
        _, events = self.run_events(self.name, "/no/such/thing")
        failed = [event for event in events() if event["event"] == "failed"]
        self.assertEqual([69], [event["exit_code"] for event in failed])

    def test_a_store_that_cannot_be_opened(self):
        _, events = self.run_events("-S", f"redis://127.0.0.1:{kit.free_port()}", self.name, "true")
        self.assertEqual([("failed", 74)], [(e["event"], e["exit_code"]) for e in events()])

    def test_any_name_gives_a_valid_line(self):
        """And the name can be recovered: by name_hex if it is not UTF-8 or too long as JSON."""
        for name in ("x" * 1024, "\x01" * 1024, "\u20ac" * 300, "\u009b\u202e" * 200,
                     b"\xff" * 1000, b"a\xff", 'a"\\\n'):
            with self.subTest(name[:4]):
                (self.dir / "events").unlink(missing_ok=True)
                _, events = self.run_events(name, "true")
                self.assertEqual(["acquired", "started", "ended", "released"], self.names(events()))
                for event in events():
                    found = (bytes.fromhex(event["name_hex"]) if "name_hex" in event
                             else event["name"].encode())
                    self.assertEqual(name if isinstance(name, bytes) else name.encode(), found)

    def test_a_wait_for_the_longest_name_is_reported(self):
        self.env["HOLDFAST_URL"] += "?label=" + "%1b" * 128
        for name in (b"\xff" * 1024, "\x01" * 1024):
            (self.dir / "events").unlink(missing_ok=True)
            self.holder(name)
            _, events = self.run_events("-w", "50ms", name, "true")
            self.assertEqual(["waiting", "failed"], self.names(events()))
            self.assertTrue(events()[0]["holder"]["label"])

    def test_as_many_tokens_as_names(self):
        words = [word for i in range(63) for word in ("--also", f"n{i}")]
        _, events = self.run_events(*words, "\x01" * 500, "true")
        self.assertEqual(64, len(events()[0]["tokens"]))

    def test_a_reader_that_does_not_read_delays_nothing(self):
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        os.set_blocking(writer, False)
        try:
            while os.write(writer, b"x" * 4096):
                pass
        except BlockingIOError:
            os.set_blocking(writer, True)
        result = self.hf("run", "--json", writer, self.name, "true", pass_fds=[writer])
        os.close(writer)
        self.assertCode(0, result)
        self.assertSays(result, "does not read")

    def test_a_reader_that_is_gone_delays_nothing(self):
        reader, writer = os.pipe()
        os.close(reader)
        result = self.hf("run", "--json", writer, self.name, "true", pass_fds=[writer])
        os.close(writer)
        self.assertCode(0, result)

    def test_the_command_does_not_inherit_the_descriptor(self):
        job, _ = self.run_events(self.name, "ls", "/proc/self/fd")
        self.assertEqual(["0", "1", "2", "3"], job.out.split())  # and the descriptor of the listing

    def test_events_may_go_to_stderr(self):
        result = self.hf("run", "--json", "2", self.name, "sh", "-c", "echo err >&2",
                         stdin=subprocess.DEVNULL)
        self.assertIn("err\n", result.err)
        self.assertIn('"event":"released"', result.err)


@on("file", "redis")
class Label(kit.Case):
    def label(self, *words, name=None):
        job = self.start("run", *words)
        until(lambda: self.hf("status", "-q", name or self.name).code == 0 or job.ended(),
              "the lock")
        info = json.loads(self.hf("status", "--json", name or self.name).out)
        job.signal(signal.SIGTERM)
        job.wait()
        return info["holder"]["label"]

    def test_the_default_label_is_the_first_words_of_the_command(self):
        self.assertEqual("sleep 300", self.label(self.name, "sleep", "300"))
        self.assertEqual("sleep 300", self.label(self.name, "-c", "sleep 300; true"))
        self.assertEqual("", self.label(self.name))

    def test_the_label_leaves_out_possible_secrets(self):
        self.assertEqual("sh", self.label(self.name, "sh", "-c", "sleep 300; true", "--password"))
        self.assertEqual("env", self.label(self.name, "env", "PASSWORD=x", "sleep", "300"))
        self.assertEqual("", self.label(self.name, "-c", "PASSWORD=x sleep 300"))

    def test_the_URL_sets_the_label(self):
        self.env["HOLDFAST_URL"] += "?label=nightly%20one"
        self.assertEqual("nightly one", self.label(self.name, "sleep", "300"))

    def test_the_option_overrides_the_URL(self):
        self.assertEqual("weekly", self.label("--label", "weekly", self.name, "sleep", "300"))
        self.env["HOLDFAST_URL"] += "?label=nightly&lease=20s"
        self.assertEqual("weekly", self.label("--label=weekly", self.name, "sleep", "300"))
        self.assertEqual("", self.label("--label=", self.name, "sleep", "300"))

    def test_a_written_label_is_escaped_on_the_terminal(self):
        self.holder(None, "--label", "a\x1b[31mb\nc")
        self.assertNotRegex(self.hf("status", self.name).out, r"[\x00-\x09\x0b-\x1f]|\nc")


@on("file", "redis")
class Metrics(kit.Case):
    def read(self):
        lines = (self.dir / "metrics").read_text().splitlines()
        self.assertEqual("# EOF", lines[-1])
        return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))

    def run_it(self, *words):
        return self.hf("run", "--metrics", self.dir / "metrics", *words)

    def test_the_counters_of_the_run(self):
        self.assertCode(0, self.run_it(self.name, "true"))
        seen = self.read()
        self.assertEqual(("1", "1", "0"), tuple(seen[f"holdfast_{key}"] for key in
                                                ("acquired_total", "released_total", "held")))
        self.assertEqual([], list(self.dir.glob("metrics.*")))

    def test_metrics_exist_while_the_command_runs(self):
        self.assertCode(0, self.run_it(self.name, "cp", self.dir / "metrics", self.dir / "copy"))
        self.assertIn("holdfast_held 1", (self.dir / "copy").read_text())

    def test_metrics_are_written_without_the_lock(self):
        self.holder()
        self.assertCode(1, self.run_it("-n", self.name, "true"))
        self.assertEqual("1", self.read()["holdfast_refused_total"])

    def test_a_file_that_cannot_be_written_is_reported(self):
        result = self.hf("run", "--metrics", self.dir / "none" / "m", self.name, "sh", "-c",
                         "exit 3")
        self.assertCode(3, result)
        self.assertSays(result, "--metrics", lines=2)

    def test_a_loss_counts(self):
        job = self.start("run", "--metrics", self.dir / "metrics", "--lease", "6s", self.name, "--",
                         "sh",
                         "-c", "echo in; exec sleep 300")
        until(lambda: job.out, "the command")
        self.assertCode(0, self.hf("break", "--yes", self.name))
        self.assertCode(75, job.wait())
        self.assertEqual("1", self.read()["holdfast_lost_total"])


if __name__ == "__main__":
    kit.main()
