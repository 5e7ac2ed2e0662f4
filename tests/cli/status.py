# SPDX-License-Identifier: Apache-2.0
"""cli-status: the holder and the waiters of a lock, for people."""
import json
import os
import re
import signal
import socket
import time
import urllib.parse

import kit
from kit import on, until


@on("file", "redis")
class Status(kit.Case):
    def lines(self, result):
        """Its lines, by their first word."""
        return {line.split()[0].rstrip(":").lower(): line for line in result.out.splitlines()
                if line}

    def test_B27_held(self):
        holder = self.holder(None, "--lease", "60")
        result = self.hf("status", self.name)
        self.assertCode(0, result)
        self.assertEqual("", result.err)
        self.assertIn(self.name, result.out)
        self.assertRegex(result.out, r"\bheld\b")
        self.assertRegex(result.out, rf"\b{holder.pid}\b")
        self.assertRegex(result.out, rf"\b{holder.fence}\b")
        self.assertIn(socket.gethostname(), result.out)
        self.assertRegex(result.out, r"\bholdfast\b")
        self.assertIn(self.url, result.out)
        self.assertRegex(result.out, r"\d\d:\d\d:\d\d")
        self.assertRegex(result.out, r"\bago\b")

    def test_B27_the_remaining_time_is_shown(self):
        self.holder(None, "--lease", "60")
        line = self.lines(self.hf("status", self.name))["remaining"]
        self.assertRegex(line, r"\b(4\d|5\d|60) ?s|\b1 ?min")

    def test_lines_are_aligned(self):
        self.holder()
        starts = {re.match(r"\S+:? +", line).end() for line in
                  self.hf("status", self.name).out.splitlines()}
        self.assertEqual(1, len(starts))

    def test_free(self):
        for name in (self.name, "unused"):
            if name == self.name:
                self.assertFree()  # was held
            result = self.hf("status", name)
            self.assertCode(1, result)
            self.assertEqual("", result.err)
            self.assertIn(name, result.out)
            self.assertRegex(result.out, r"\bfree\b")
            self.assertNotRegex(result.out, r"\bheld\b")
            self.assertIn(self.url, result.out)

    def test_free_after_release_and_after_the_wait_of_others(self):
        holder = self.holder()
        self.assertCode(0, self.hf("status", self.name))
        holder.signal(signal.SIGTERM)
        holder.wait()
        self.assertCode(1, self.hf("status", self.name))

    def test_B27_inspecting_changes_nothing(self):
        holder = self.holder()
        for _ in range(5):
            self.assertCode(0, self.hf("status", self.name))
        self.assertBusy()
        self.assertFalse(holder.ended())

    def test_the_label_is_shown(self):
        self.env["HOLDFAST_URL"] += "?label=nightly%20report"
        self.holder()
        self.assertIn("nightly report", self.hf("status", self.name).out)

    def test_a_label_is_escaped_on_the_terminal(self):
        evil = self.dir / "e\x1b[31m\nvil"
        evil.symlink_to(kit.HOLDFAST)
        self.env["HOLDFAST_URL"] += "?label=a%1b%5b31mb%0ac"
        job = self.start("run", self.name, "sleep", "300", holdfast=str(evil))
        until(lambda: self.hf("status", self.name).code == 0 or job.ended(), "the lock")
        if job.ended():  # a label like that may be refused
            self.assertCode(64, job.wait())
            self.assertNotRegex(job.err, r"[\x00-\x09\x0b-\x1f\x7f]")
            return
        result = self.hf("status", self.name)
        self.assertCode(0, result)
        self.assertNotRegex(result.out, r"[\x00-\x09\x0b-\x1f\x7f]")
        self.assertNotRegex(result.out, r"(?m)^(vil|c\b)")

    FOREIGN = ["%c2%9b31m", "%9b31m%80", "%e2%80%ae%e2%81%a6%e2%80%a8",
               "%ff%c3%28%ed%a0%80%f4%90%80%80"]

    def assertTame(self, text):
        """UTF-8 without C0, DEL, C1, line separators and changes of the text direction."""
        data = text.encode(errors="surrogateescape")
        self.assertNotRegex(data.decode(),
                            "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")

    def test_F50_no_byte_of_others_controls_the_terminal(self):
        url = self.env["HOLDFAST_URL"]
        for foreign in self.FOREIGN:
            with self.subTest(foreign):
                name = b"n" + urllib.parse.unquote_to_bytes(foreign) + b"m"
                evil = os.fsencode(self.dir) + b"/e" + urllib.parse.unquote_to_bytes(foreign)
                os.symlink(kit.HOLDFAST, evil)
                job = self.start("run", "-S", f"{url}?label=a{foreign}b", name, "sleep", "300",
                                 holdfast=evil)
                until(lambda: self.hf("status", "-q", name).code == 0 or job.ended(), "the lock")
                self.assertFalse(job.ended(), job)
                for words in (["status"], ["status", "--json"], ["run", "-n"],
                              ["run", "--verbose", "-w", "10ms"],
                              ["wait", "--verbose", "-w", "10ms"]):
                    result = self.hf(*words, name)
                    self.assertTame(result.out + result.err)
                for words in (["list"], ["list", "--json"]):
                    self.assertTame(self.hf(*words).out)
                for words in (["status", name], ["list"], ["run", "-w", "1500ms", name, "true"]):
                    _, text = self.in_terminal(200, *words)
                    self.assertTame(re.sub("\r|\x1b\\[K", "", text))
                result = self.hf("break", "-y", name)
                self.assertTame(result.out + result.err)
                job.kill()

    def test_narrow_terminals_and_pipes_get_the_same(self):
        self.holder()
        plain = self.hf("status", self.name)
        self.assertNotIn("\x1b", plain.out)
        for columns in (40, 200):
            code, text = self.in_terminal(columns, "status", self.name)
            self.assertEqual(0, code)
            text = re.sub(r"\x1b\[[0-9;]*m", "", text)  # colours would be all right
            self.assertNotIn("\x1b", text)
            text = re.sub(r"\n {11}", " ", text)
            # Without what changes between two calls.
            still = re.compile(r"^(since|remaining).*$", re.M | re.I)
            self.assertEqual(still.sub("", plain.out).split(), still.sub("", text).split())

    def test_words_that_do_not_fit_continue_in_the_second_column(self):
        self.env["HOLDFAST_URL"] += "?label=" + "%20".join(["report"] * 12)
        self.holder()
        _, text = self.in_terminal(40, "status", self.name)
        lines = text.splitlines()
        start = next(i for i, line in enumerate(lines) if line.startswith("holder"))
        self.assertRegex(lines[start + 1], r"^ {11}\S")
        longest = max(len(word) for word in text.split())
        for line in lines:
            self.assertTrue(len(line) <= max(40, 11 + longest), line)

    def test_all_waiters_are_named_in_order(self):
        self.holder()
        self.waiters(12)
        pids = [str(job.pid) for job in self.jobs[1:]]
        plain = self.hf("status", self.name).out
        self.assertRegex(plain, r"(?m)^waiting +12 clients")
        self.assertEqual(pids, re.findall(r"pid (\d+)", plain)[1:])
        _, text = self.in_terminal(200, "status", self.name)
        self.assertEqual(pids[:10], re.findall(r"pid (\d+)", text)[1:])
        self.assertRegex(text, r"and 2 more: --all")
        _, text = self.in_terminal(200, "status", "--all", self.name)
        self.assertEqual(pids, re.findall(r"pid (\d+)", text)[1:])

    def test_json(self):
        holder = self.holder(None, "--lease", "60")
        self.waiters(2)
        result = self.hf("status", self.name, "--json")
        self.assertCode(0, result)
        self.assertEqual(1, result.out.count("\n"))
        found = json.loads(result.out)
        self.assertEqual((self.name, True, "mutex", 1, holder.fence, 2, self.url),
                         tuple(found[k]
                               for k in ("name", "held", "kind", "count", "token", "waiting",
                                         "store")))
        self.assertEqual((holder.pid, "holdfast", socket.gethostname()),
                         tuple(found["holder"][k] for k in ("pid", "program", "host")))
        self.assertEqual([job.pid for job in self.jobs[1:]], [w["pid"] for w in found["waiters"]])
        self.assertTrue(0 < found["remaining_ms"] <= 60000)
        self.assertTrue(abs(found["since_unix_ms"] / 1000 - time.time()) < 60)
        free = self.hf("status", "--json", "other")
        self.assertCode(1, free)
        self.assertEqual({"name": "other", "held": False, "waiting": 0, "waiters": [],
                          "store": self.url},
                         json.loads(free.out))

    def test_json_of_any_name(self):
        name = 'a"b\\c\x01\u00e4'.encode() + b"\xff"
        found = json.loads(self.hf("status", "--json", name).out)
        self.assertEqual('a"b\\c\x01\u00e4\ufffd', found["name"])
        self.assertEqual(name, bytes.fromhex(found["name_hex"]))

    def test_json_distinguishes_names_that_are_not_UTF_8(self):
        names = [b"a\xff", b"a\xfe", b"a\xc3", b"\xed\xa0\x80", b"\xff" * 1024]
        found = [json.loads(self.hf("status", "--json", name).out) for name in names]
        self.assertEqual(found[0]["name"], found[1]["name"])
        self.assertEqual(names, [bytes.fromhex(lock["name_hex"]) for lock in found])
        for name in ("a\u00e4", "\u009b", "\ufffd", "x" * 1024):
            result = self.hf("status", "--json", name)
            self.assertEqual(name, json.loads(result.out)["name"])
            self.assertNotIn("name_hex", result.out)

    def test_kinds(self):
        self.holder("r", "-s")
        self.holder("r", "-s")
        self.assertRegex(self.hf("status", "r").out, r"(?m)^state +shared, by 2$")
        self.holder("p", "--permits", "2/5")
        text = self.hf("status", "p").out
        self.assertRegex(text, r"(?m)^state +2 of 5 permits in use, by 1$")
        self.assertRegex(text, r"(?m)^kind +permits$")

    def test_a_closed_pipe_is_not_an_error(self):
        self.holder()
        result = self.run_bare("bash", "-c", '"$0" status "$1" | true; echo "${PIPESTATUS[0]}"',
                               kit.HOLDFAST, self.name)
        self.assertIn(result.out, ("0\n", "141\n"))
        self.assertEqual("", result.err)

    def test_the_store_may_be_given(self):
        holder = self.holder()
        del self.env["HOLDFAST_URL"]
        for words in (["-S", self.url], ["--store", self.url], [f"--store={self.url}"]):
            self.assertCode(0, self.hf("status", *words, self.name))
        self.assertFalse(holder.ended())

    def test_F50_names_after_two_dashes(self):
        self.holder("-n", "--")
        self.assertCode(0, self.hf("status", "--", "-n"))

    def test_errors(self):
        self.assertCode(64, self.hf("status"))
        self.assertCode(64, self.hf("status", ""))
        self.assertCode(64, self.hf("status", "-S", "nothing://", "x"))
        self.assertCode(74, self.hf("status", "-S", f"redis+unix://{self.dir}/none", "x"))

    def test_a_store_that_nobody_used_yet_is_free(self):
        if self.kind == "file":
            self.env["HOLDFAST_URL"] = f"file://{self.dir}/fresh"
        self.assertCode(1, self.hf("status", "x"))


@on("file")
class InFiles(kit.Case):
    def test_the_directory_is_shown(self):
        self.env["HOLDFAST_URL"] = "file:"
        result = self.hf("status", self.name)
        self.assertRegex(result.out, rf"(?m)^store +file: \(/\S+/holdfast-{os.geteuid()}\)$")

    def test_a_lock_lasts_as_long_as_its_holder_runs(self):
        self.holder()
        self.assertRegex(self.hf("status", self.name).out,
                         r"(?m)^remaining +as long as its holder runs$")

    def test_a_holder_that_is_stopped_is_seen(self):
        holder = self.holder(None, "--lease", "500ms")
        holder.signal(signal.SIGSTOP)
        until(lambda: "the holder is not running" in self.hf("status", self.name).out,
              "the end of its lease")

    def test_free_with_others_in_the_queue(self):
        holder = self.holder()
        self.waiters(1)
        self.jobs[1].signal(signal.SIGSTOP)
        until(lambda: self.jobs[1].process.stopped, "the waiter to stop")
        holder.signal(signal.SIGTERM)
        holder.wait()
        result = self.hf("status", self.name)
        self.assertCode(1, result)
        self.assertRegex(result.out, r"(?m)^state +free, but others are waiting$")
        self.assertSays(self.hf("run", "-n", self.name, "true"), "others wait for it",
                        f"holdfast status -S {re.escape(self.url)} {self.name}")


if __name__ == "__main__":
    kit.main()
