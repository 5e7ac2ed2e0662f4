# SPDX-License-Identifier: Apache-2.0
"""Tests of the examples for cron, systemd, Kubernetes, CI and tokens.

    outside.py HOLDFAST

Their commands run unchanged, except that store, scripts and hosts are those of the test.
"""
import configparser
import os
import pathlib
import re
import shlex
import sqlite3
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
HOLDFAST = os.path.abspath(sys.argv.pop(1))
PATIENCE = 30


class Case(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.dir = pathlib.Path(directory.name)
        os.symlink(HOLDFAST, self.dir / "holdfast")
        self.env = {"PATH": f"{self.dir}:{os.environ['PATH']}", "HOME": directory.name,
                    "HOLDFAST_URL": "memory:"}

    def script(self, name):
        """A replacement that records its arguments, if it runs under a lock."""
        path = self.dir / pathlib.Path(name).name
        path.write_text(f'#!/bin/sh\n[ -n "$HOLDFAST_FENCE" ] && echo "$0 $*" >>{self.dir}/ran\n')
        path.chmod(0o755)
        return str(path)

    def run_example(self, words):
        """Run `holdfast run …` of an example; the script is the first word that is a path."""
        at = next(i for i, word in enumerate(words) if i and re.match(r"\.?/", word))
        self.assertIn("holdfast", words[0])
        words = ["holdfast", *words[1:at], self.script(words[at]), *words[at + 1:]]
        ended = subprocess.run(words, env=self.env, cwd=self.dir, stdin=subprocess.DEVNULL,
                               text=True, capture_output=True, timeout=PATIENCE)
        self.assertEqual((0, ""), (ended.returncode, ended.stderr), words)
        ran = (self.dir / "ran").read_text().split()
        (self.dir / "ran").unlink()
        self.assertEqual(words[at:], ran)


class Jobs(Case):
    def test_cron(self):
        jobs = 0
        for line in (EXAMPLES / "cron" / "nightly").read_text().splitlines():
            if not line or re.match(r"#|\w+=", line):
                continue
            *times, user, command = line.split(None, 6)
            for field in times:
                self.assertRegex(field, r"^(\*|\d+)(/\d+)?$")
            self.assertEqual("root", user)
            self.run_example(shlex.split(command))
            jobs += 1
        self.assertEqual(2, jobs)

    def test_cron_leaves_no_failure_where_another_has_it(self):
        self.env["HOLDFAST_URL"] = f"file://{self.dir}/locks"
        late = ["holdfast", "run", "-n", "-E", "0", "nightly-report", "false"]
        ended = subprocess.run(["holdfast", "run", "nightly-report", *late], env=self.env,
                               capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(0, ended.returncode, ended)

    def unit(self, name):
        parser = configparser.ConfigParser(interpolation=None, strict=False)
        parser.optionxform = str
        parser.read_string((EXAMPLES / "systemd" / name).read_text())
        return parser

    def test_systemd(self):
        for name in ("nightly.service", "worker.service"):
            service = self.unit(name)["Service"]
            self.assertEqual("HOLDFAST_URL=redis://locks.example.org", service["Environment"])
            self.run_example(shlex.split(service["ExecStart"]))
        self.assertIn("OnCalendar", self.unit("nightly.timer")["Timer"])

    def test_kubernetes(self):
        text = (EXAMPLES / "kubernetes" / "cronjob.yaml").read_text()
        self.assertNotIn("\t", text)
        block = re.search(r"^ +command:\n((?: +- .*\n)+)", text, re.M).group(1)
        self.run_example([word.strip('"') for word in re.findall(r"- (.*)", block)])

    def test_ci(self):
        commands = []
        for name in ("github.yml", "gitlab.yml"):
            text = (EXAMPLES / "ci" / name).read_text()
            commands += re.findall(r"(?:run: |- )(holdfast run .*)", text)
        self.assertEqual(3, len(commands))
        for command in commands:
            self.run_example(shlex.split(command))

    def test_the_page_about_switching_from_other_tools(self):
        page = (ROOT / "docs" / "COMING-FROM.md").read_text()
        self.script("cmd")
        lines = re.findall(r"^    (holdfast run .*)", page, re.M)
        lines += [line.replace("\\|", "|") for line in re.findall(r"`(holdfast run .*?)`", page)]
        self.assertGreaterEqual(len(lines), 4)
        (self.dir / "a").write_text("#!/bin/sh\necho a\n")
        (self.dir / "b").write_text("#!/bin/sh\nexec cat\n")
        for name in "ab":
            (self.dir / name).chmod(0o755)
        for line in lines:
            words = shlex.split(line.replace("redis://locks", "memory:"))
            ended = subprocess.run(words, env=self.env, capture_output=True, text=True,
                                   timeout=PATIENCE)
            self.assertEqual((0, ""), (ended.returncode, ended.stderr), line)

    def test_a_script_that_runs_itself_under_its_lock(self):
        page = (ROOT / "docs" / "COMING-FROM.md").read_text()
        line = re.search(r"^    (\[ -n .*)$", page, re.M).group(1)
        path = self.dir / "itself"
        path.write_text(f'#!/bin/sh\n{line}\necho "$HOLDFAST_NAME" "$@"\n')
        path.chmod(0o755)
        ended = subprocess.run([str(path), "one", "two words"], env=self.env, capture_output=True,
                               text=True, timeout=PATIENCE)
        self.assertEqual((0, "my-script one two words\n"), (ended.returncode, ended.stdout))


class Sql(unittest.TestCase):
    def setUp(self):
        text = (EXAMPLES / "tokens" / "guard.sql").read_text()
        parts = re.split(r"^-- name: (\w+)\n", text, flags=re.M)[1:]
        self.sql = dict(zip(parts[::2], parts[1::2]))
        self.db = sqlite3.connect(":memory:")
        self.addCleanup(self.db.close)
        self.db.executescript(self.sql["schema"])
        self.db.execute("INSERT INTO orders (id, state) VALUES (42, 'open')")

    def changed_by(self, statement, **values):
        self.db.execute(self.sql[statement], values)
        return self.db.execute("SELECT changes()").fetchone()[0]

    def bill(self, token, state):
        return self.changed_by("bill_order", id=42, token=token, state=state)

    def guard(self, token):
        return self.changed_by("pass_guard", name="orders", token=token)

    def test_a_write_with_an_old_token_changes_nothing(self):
        token = 1794805158885882
        self.assertEqual(1, self.bill(token, "billed"))
        self.assertEqual(1, self.bill(token, "sent"))  # the same holder again
        self.assertEqual(1, self.bill(token + 1, "paid"))
        self.assertEqual(0, self.bill(token, "billed"))
        row = self.db.execute("SELECT state, fence FROM orders").fetchone()
        self.assertEqual(("paid", token + 1), row)

    def test_a_guard_for_many_rows(self):
        for token, passes in ((5, 1), (5, 1), (7, 1), (6, 0), (7, 1)):
            self.assertEqual(passes, self.guard(token), token)

    def test_tokens_fit(self):
        self.assertEqual(1, self.bill((1 << 63) - 1, "far away"))


class Server(Case):
    def setUp(self):
        super().setUp()
        self.server = subprocess.Popen(
            [sys.executable, "-B", str(EXAMPLES / "tokens" / "server.py"), "0"],
            stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.stop)
        self.url = self.server.stdout.readline().strip() + "/orders/42"

    def stop(self):
        self.server.kill()
        self.server.wait()
        self.server.stdout.close()

    def request(self, method, value=None, token=None):
        headers = {} if token is None else {"Fence-Token": str(token)}
        request = urllib.request.Request(self.url, data=value, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.status, answer.read(), answer.headers.get("Fence-Token")
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read(), error.headers.get("Fence-Token")

    def test_a_write_with_an_old_token_changes_nothing(self):
        self.assertEqual(404, self.request("GET")[0])
        self.assertEqual((200, b"written\n", "7"), self.request("PUT", b"billed", 7))
        self.assertEqual(200, self.request("PUT", b"sent", 7)[0])
        self.assertEqual(200, self.request("PUT", b"paid", 9)[0])
        self.assertEqual((412, b"a later holder has written\n", "9"),
                         self.request("PUT", b"billed", 8))
        self.assertEqual((200, b"paid", "9"), self.request("GET"))

    def test_a_write_without_a_token_is_refused(self):
        for token in (None, "", "x", "-1", "1.5"):
            self.assertEqual(428, self.request("PUT", b"billed", token)[0], token)
        self.assertEqual(413, self.request("PUT", b"x" * 70000, 1)[0])
        self.assertEqual(404, self.request("GET")[0])

    def test_holders_one_after_another(self):
        """Two holders write with their tokens. A late write of the first one is refused."""
        code = ("import os, urllib.request as u; "
                "token = os.environ['HOLDFAST_FENCE']; print(token); "
                f"u.urlopen(u.Request({self.url!r}, b'by ' + token.encode(), "
                "{'Fence-Token': token}, method='PUT'), timeout=20).read()")
        tokens = []
        for _ in range(2):
            ended = subprocess.run(["holdfast", "run", "orders:42", sys.executable, "-c", code],
                                   env={**self.env, "HOLDFAST_URL": f"file://{self.dir}/locks"},
                                   capture_output=True, text=True, timeout=PATIENCE)
            self.assertEqual((0, ""), (ended.returncode, ended.stderr))
            tokens.append(int(ended.stdout))
        self.assertGreater(tokens[1], tokens[0])
        self.assertEqual(412, self.request("PUT", b"late", tokens[0])[0])
        self.assertEqual((200, b"by %d" % tokens[1], str(tokens[1])), self.request("GET"))


if __name__ == "__main__":
    unittest.main()
