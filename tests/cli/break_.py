# SPDX-License-Identifier: Apache-2.0
"""cli-break: taking a lock away from its holder."""
import json

import kit
from kit import on


@on("file", "redis")
class Break(kit.Case):
    def broken(self, holder):
        self.assertCode(75, holder.wait())

    def test_B26_with_yes(self):
        holder = self.holder(None, "--lease", "3s")
        result = self.hf("break", "--yes", self.name)
        self.assertCode(0, result)
        self.assertEqual("", result.out)
        self.assertSays(result, f"held by holdfast, pid {holder.pid} ", f"token {holder.fence}",
                        "was broken", lines=2)
        self.broken(holder)
        self.assertFree()

    def test_without_a_terminal_it_refuses(self):
        holder = self.holder(None, "--lease", "3s")
        for options in ({}, {"input": b"y\n"}):
            result = self.hf("break", self.name, **options)
            self.assertCode(64, result)
            self.assertSays(result, f"pid {holder.pid} ", "--yes", lines=2)
        result = self.run_bare("sh", "-c", '"$0" break "$1" <&-', kit.HOLDFAST, self.name)
        self.assertCode(64, result)
        self.assertBusy()

    def test_it_asks_on_a_terminal(self):
        holder = self.holder(None, "--lease", "3s")
        for answer in ("n\n", "\n", "yes please\n", "\x04"):
            code, text = self.in_terminal(80, "break", self.name, answer=answer)
            self.assertEqual(1, code, text)
            self.assertIn("nothing was broken", text)
        self.assertBusy()
        code, text = self.in_terminal(40, "break", "-q", self.name, answer="y\n", NO_COLOR="1")
        self.assertEqual(0, code, text)
        self.assertIn(f"pid {holder.pid} ", text)
        self.assertNotIn("\x1b", text)
        self.broken(holder)

    def test_nobody_holds_it(self):
        result = self.hf("break", "-y", self.name)
        self.assertCode(1, result)
        self.assertSays(result, "nobody holds")

    def test_only_that_one_is_broken(self):
        holder = self.holder(None, "--lease", "3s")
        for words in (["--yes"], []):
            result = self.hf("break", *words, "--token", holder.fence - 1, self.name)
            self.assertCode(1, result)
            self.assertSays(result, str(holder.fence))
        self.assertBusy()
        self.assertCode(0, self.hf("break", "-q", "-y", "--token", holder.fence, self.name))
        self.broken(holder)

    def test_one_of_several_readers(self):
        holders = [self.holder(None, "-s", "--lease", "3s") for _ in range(2)]
        token = json.loads(self.hf("status", "--json", self.name).out)["token"]
        result = self.hf("break", "-y", self.name)
        self.assertCode(0, result)
        self.assertSays(result, "one of several", lines=2)
        for holder in holders:
            if holder.fence == token:
                self.broken(holder)
        self.assertEqual(1, json.loads(self.hf("status", "--json", self.name).out)["holders"])

    def test_the_next_waiter_gets_it(self):
        holder = self.holder(None, "--lease", "3s")
        self.waiters(1)
        result = self.hf("break", "-y", self.name)
        self.assertCode(0, result)
        self.assertSays(result, "1 waiting", lines=3)
        self.broken(holder)
        self.assertCode(0, self.jobs[1].wait())

    def test_errors(self):
        self.assertCode(64, self.hf("break"))
        self.assertCode(64, self.hf("break", "a", "b"))
        self.assertCode(64, self.hf("break", "--token", "x", "a"))
        self.assertCode(64, self.hf("break", "--token", "0", "a"))
        self.assertCode(74, self.hf("break", "-y", "-S", "redis://127.0.0.1:1", "a"))


if __name__ == "__main__":
    kit.main()
