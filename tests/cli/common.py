# SPDX-License-Identifier: Apache-2.0
"""cli-common: options that all subcommands share, including their long forms."""
import json
import signal

import kit
from kit import on, until


@on("file")
class Common(kit.Case):
    """The store is given by --store; the one in the environment would fail."""

    def setUp(self):
        super().setUp()
        self.url = self.env["HOLDFAST_URL"]
        self.env["HOLDFAST_URL"] = f"redis://127.0.0.1:{kit.free_port()}"

    def long(self, *words, input=None):
        """A command with --store; it must not need the environment."""
        return self.hf(words[0], "--store", self.url, *words[1:], input=input)

    def hold(self, *options):
        job = self.start("run", "--store", self.url, *options, self.name, "sleep", "300")
        until(lambda: self.long("status", "--quiet", self.name).code == 0 or job.ended(),
              "the lock")
        return job

    def test_both_ways_show_the_same_help(self):
        for word in ("run", "acquire", "release", "extend", "status", "list", "wait", "break",
                     "top",
                     "doctor", "bench"):
            with self.subTest(word):
                result = self.hf(word, "--help")
                self.assertCode(0, result)
                self.assertEqual("", result.err)
                self.assertTrue(result.out.startswith(f"Usage: holdfast {word} "), result)
                self.assertEqual(result.out, self.hf("help", word).out)
                self.assertLessEqual(max(map(len, result.out.splitlines())), 84)

    def test_quiet_shows_nothing(self):
        self.hold()
        for code, words in ((0, ["status", "--quiet", self.name]), (0, ["list", "--quiet"]),
                            (1, ["wait", "--quiet", "--wait", "50ms", self.name]),
                            (1, ["wait", "--quiet", "--timeout", "50ms", self.name]),
                            (None, ["doctor", "--quiet"]),
                            (0, ["bench", "--quiet", "--seconds", "50ms"]),
                            (64, ["release", "--quiet", self.dir / "none"]),
                            (64, ["extend", "--quiet", self.dir / "none"]),
                            (64, ["extend", "-q", self.dir / "none"]),
                            (64, ["acquire", "--quiet", "--detach", "--max-hold", "5m", "--handle",
                                  self.dir / "none" / "none", "other"]),
                            (0, ["break", "--quiet", "--yes", self.name])):
            with self.subTest(words):
                result = self.long(*words)
                self.assertCode(result.code if code is None else code, result)
                self.assertEqual(("", ""), (result.out, result.err))

    def test_quiet_where_there_is_no_terminal_for_top(self):
        result = self.hf("top", "--quiet", "--store", self.url)
        self.assertIn(result.code, (64, 69))  # 69: built without ncurses
        self.assertEqual("", result.out)

    def test_verbose_names_the_store(self):
        for words in (["status", "--verbose", self.name], ["list", "--verbose"],
                      ["wait", "--verbose", self.name]):
            with self.subTest(words):
                self.assertIn(f"the store is {self.url}", self.long(*words).err)

    def test_top_takes_store_and_verbose(self):
        result = self.long("top", "--verbose")
        self.assertIn(result.code, (64, 69))
        self.assertSays(result, lines=2)

    def test_bench_takes_the_store(self):
        result = self.hf("bench", "--store", self.url, "--seconds", "50ms", "--json")
        self.assertCode(0, result)
        self.assertIn(self.url, json.dumps(json.loads(result.out)))

    def test_doctor_takes_the_store(self):
        result = self.hf("doctor", "--store", self.url)
        self.assertIn(result.code, (0, 1))  # 1: a warning about the disk of this machine
        self.assertIn(self.url, result.out)

    def test_the_store_of_list(self):
        self.hold()
        self.assertIn(self.name, self.hf("list", "--store", self.url).out)

    def test_the_store_of_break(self):
        job = self.hold()
        self.assertCode(0, self.hf("break", "--store", self.url, "--yes", "--verbose", self.name))
        self.assertCode(75, job.wait())

    def test_long_options_of_acquire_and_release(self):
        handle = self.dir / "handle"
        result = self.hf("acquire", "--verbose", "--store", self.url, "--handle", handle,
                         "--nonblock", "--detach",
                         "--max-hold", "5m", self.name)
        self.assertCode(0, result)
        for words in (["--wait", "50ms"], ["--timeout", "50ms"], ["--nonblock"]):
            self.assertCode(1,
                            self.hf("acquire", "--store", self.url, "--handle", self.dir / "other",
                                    *words,
                                       "--detach", "--max-hold", "5m", self.name))
        result = self.hf("release", "--verbose", "--store", self.url, handle)
        self.assertCode(0, result)
        self.assertFalse(handle.exists())

    def test_a_signal_ends_a_wait_without_output(self):
        self.hold()
        job = self.start("wait", "--store", self.url, self.name)
        until(lambda: job.process.runs, "it to run")
        job.signal(signal.SIGTERM)
        self.assertCode(-signal.SIGTERM, job.wait())


@on("redis")
class CommonOfRedis(kit.Case):
    def test_long_options_of_extend(self):
        handle = self.dir / "handle"
        url = self.env.pop("HOLDFAST_URL")
        self.assertCode(0,
                        self.hf("acquire", "--store", url, "--no-renew", "--lease", "1m", "-o",
                                handle, self.name))
        result = self.hf("extend", "--store", url, "--verbose", "--lease", "2m", handle)
        self.assertCode(0, result)
        self.assertIn(url, result.err)
        self.assertCode(0, self.hf("extend", "-q", handle))
        self.assertCode(0, self.hf("release", "--quiet", handle))


if __name__ == "__main__":
    kit.main()
