# SPDX-License-Identifier: Apache-2.0
"""cli-list: the locks in use, as a table, with tabs, as JSON."""
import json

import kit
from kit import on


@on("file", "redis")
class List(kit.Case):
    def setUp(self):
        super().setUp()
        if self.kind == "file":  # locks of other tests must not be listed
            self.url = self.env["HOLDFAST_URL"] = f"file://{self.dir}/locks"

    def test_nothing_is_in_use(self):
        result = self.hf("list")
        self.assertCode(1, result)
        self.assertEqual(("", ""), (result.out, result.err))
        code, text = self.in_terminal(80, "list")
        self.assertEqual(1, code)
        self.assertRegex(text, "no lock is in use")

    def test_B33_tabs_in_a_pipe(self):
        one, two = self.holder("b"), self.holder("a b")
        self.waiters(2, "b")
        self.assertFree("used")
        result = self.hf("list")
        self.assertCode(0, result)
        rows = [line.split("\t") for line in result.out.splitlines()]
        self.assertEqual(["a b", "b"], [row[0] for row in rows])
        self.assertEqual([5, 5], list(map(len, rows)))
        self.assertEqual([("held", "0"), ("held", "2")], [(row[1], row[4]) for row in rows])
        self.assertIn(f"pid {two.pid} ", rows[0][2])
        self.assertIn(f"pid {one.pid} ", rows[1][2])
        self.assertTrue(all(row[3].isdigit() for row in rows))

    def test_B33_a_pattern(self):
        self.holder("deploy-1")
        self.holder("nightly")
        self.assertRegex(self.hf("list", "deploy-*").out, r"\Adeploy-1\t[^\n]*\n\Z")
        self.assertRegex(self.hf("list", "[!d]*").out, r"\Anightly\t[^\n]*\n\Z")
        self.assertCode(1, self.hf("list", "d?"))
        for pattern, hint in (("d?", "no lock in use matches d\\?"),
                              ("night", "no lock named night is in use.*'\\*night\\*'")):
            code, text = self.in_terminal(200, "list", pattern)
            self.assertEqual(1, code)
            self.assertRegex(text, hint)

    def test_json(self):
        holder = self.holder('{"n": 1}%')
        self.holder("p", "--permits", "2/5")
        self.waiters(1, '{"n": 1}%')
        result = self.hf("list", "--json")
        self.assertCode(0, result)
        found = {lock["name"]: lock for lock in map(json.loads, result.out.splitlines())}
        self.assertEqual({'{"n": 1}%', "p"}, set(found))
        self.assertEqual(holder.pid, found['{"n": 1}%']["holder"]["pid"])
        self.assertEqual([{"client", "owner"}], list(map(set, found['{"n": 1}%']["waiters"])))
        self.assertEqual((2, 5, "permits"),
                         tuple(found["p"][k] for k in ("used", "capacity", "kind")))

    def test_a_table_on_a_terminal(self):
        self.holder("short")
        self.holder("a-name-that-is-long-" + "x" * 100)
        for columns in (40, 80, 120):
            code, text = self.in_terminal(columns, "list", NO_COLOR="1")
            self.assertEqual(0, code)
            lines = text.splitlines()
            self.assertEqual(3, len(lines))
            holder = "" if columns == 40 else "HOLDER +"  # too narrow for it
            self.assertRegex(lines[0], rf"^NAME +STATE +{holder}HELD FOR +WAITING$")
            self.assertNotIn("\x1b", text)
            self.assertEqual(1, len({line.rindex("  ") for line in lines}))  # aligned
            self.assertTrue(max(map(len, lines)) <= columns, text)
            self.assertRegex(lines[1], r"^a-name\S*\.\. ")

    def test_names_that_look_alike_are_all_listed(self):
        names = [b"a\xfe", b"a\xff", b"a\n", b"a\t"]
        for name in names:
            self.holder(name)
        self.assertEqual(["a ", "a ", "a?", "a?"],
                         sorted(line.split("\t")[0] for line in self.hf("list").out.splitlines()))
        found = [json.loads(line) for line in self.hf("list", "--json").out.splitlines()]
        self.assertEqual(sorted(names), sorted(bytes.fromhex(lock["name_hex"]) if "name_hex" in lock
                                               else lock["name"].encode() for lock in found))

    def test_text_of_others_is_escaped_on_the_terminal(self):
        self.holder("a\x1b[31m\tb\nc")
        result = self.hf("list")
        self.assertRegex(result.out, r"\Aa \[31m b c\theld\t[^\n\t\x1b]*\t\d+\t0\n\Z")

    def test_quiet(self):
        self.assertCode(1, self.hf("list", "-q"))
        self.holder("x")
        for words in (["-q"], ["-q", "--json"]):
            result = self.hf("list", *words)
            self.assertCode(0, result)
            self.assertEqual("", result.out)

    def test_errors(self):
        self.assertCode(64, self.hf("list", "a", "b"), "one PATTERN")
        self.assertCode(64, self.hf("list", "--nonsense"))
        self.assertCode(74, self.hf("list", "-S", "redis://127.0.0.1:1"))

    def test_stdin_closed_and_output_full(self):
        self.holder("x")
        result = self.run_bare("sh", "-c", '"$0" list <&- >/dev/full', kit.HOLDFAST)
        self.assertCode(71, result)
        self.assertSays(result, "standard output")


@on("redis")
class Rights(kit.Case):
    def test_a_missing_right_is_named(self):
        self.own_redis()
        self.redis.command("ACL", "SETUSER", "poor", "on", ">sesame", "~*", "&*", "+@all", "-scan")
        path = self.dir / "password"
        path.write_text("sesame\n")
        result = self.hf("list", "-S", f"{self.url}?user=poor&password_file={path}")
        self.assertCode(77, result)
        self.assertSays(result, "cannot list")


if __name__ == "__main__":
    kit.main()
