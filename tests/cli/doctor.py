# SPDX-License-Identifier: Apache-2.0
"""cli-doctor: what it finds in a store, and what it reports."""
import json
import pathlib
import re
import socket
import subprocess
import tempfile
import threading
import time

import kit
from kit import on
from terminal import Terminal

PROTOCOL = kit.HERE.parents[1] / "docs" / "REDIS-PROTOCOL.md"
LEVELS = ["ok", "note", "warning", "error"]


class Doctor(kit.Case):
    def findings(self, code, *args, **options):
        """The findings by check, the worst of each; checks the exit code too."""
        result = self.hf("doctor", "--json", *args, **options)
        self.assertCode(code, result)
        self.assertEqual("", result.err)
        report = json.loads(result.out)
        by_check = {}
        for finding in sorted(report["findings"], key=lambda f: -LEVELS.index(f["level"])):
            by_check.setdefault(finding["check"], finding)
        worst = max(LEVELS.index(f["level"]) for f in report["findings"])
        self.assertEqual(LEVELS[worst], report["level"])
        self.assertEqual([0, 0, 1, 2][worst], code)
        return by_check

    def assertLevel(self, level, finding, pattern="."):
        self.assertEqual(level, finding["level"], finding)
        self.assertRegex(finding["found"], pattern)
        if level in ("warning", "error"):
            self.assertTrue(finding.get("means"), finding)


@on("file", "redis")
class OfAnyStore(Doctor):
    def test_a_lock_is_tried(self):
        found = self.findings(1 if self.kind == "redis" else 0)
        self.assertLevel("ok", found["locks"], "kept another client out")

    def test_a_held_lock_is_not_a_problem(self):
        self.holder()
        self.findings(1 if self.kind == "redis" else 0)
        self.assertBusy()

    def test_text_that_is_piped_is_plain_and_aligned(self):
        result = self.hf("doctor")
        self.assertNotIn("\x1b", result.out)
        lines = [line for line in result.out.splitlines()
                 if re.match(r"(ok|note|warning|error) ", line)]
        self.assertTrue(lines)
        self.assertEqual({22}, {re.match(r"\S+ +\S+ +", line).end() for line in lines})
        self.assertRegex(result.out, r"\n\d+ ok, \d+ notes?, \d+ warnings?, \d+ errors?\n$")
        self.assertIn(self.url, result.out)

    def test_quiet(self):
        result = self.hf("doctor", "-q")
        self.assertCode(1 if self.kind == "redis" else 0, result)
        self.assertEqual(("", ""), (result.out, result.err))

    def test_without_standard_streams(self):
        for closed in ("<&-", "<&- 2>&-", "2>&-"):
            result = self.run_bare("sh", "-c", f'"$0" doctor --json {closed}', kit.HOLDFAST)
            self.assertIn("findings", json.loads(result.out))
        result = self.run_bare("sh", "-c", '"$0" doctor >/dev/full', kit.HOLDFAST)
        self.assertCode(71, result)
        self.assertIn("cannot write", result.err)

    def test_usage(self):
        for args in (["x"], ["--unknown"], ["-S"], ["--store"], ["--json=1"]):
            result = self.hf("doctor", *args)
            self.assertCode(64, result)
            self.assertIn("holdfast doctor --help", result.err)
        self.assertIn("Usage: holdfast doctor", self.hf("doctor", "--help").out)
        self.assertEqual(self.hf("help", "doctor").out, self.hf("doctor", "--help").out)


@on(None)
class OfFiles(Doctor):
    def test_a_directory_of_our_own(self):
        found = self.findings(0, "-S", f"file://{self.dir}/locks")
        self.assertLevel("ok", found["directory"], r"/locks, owned by user id \d+, mode 0700")
        for check in ("filesystem", "space", "files"):
            self.assertIn(found[check]["level"], ("ok", "note"))

    def test_a_directory_that_others_may_write(self):
        open_to_all = self.dir / "open"
        open_to_all.mkdir()
        open_to_all.chmod(0o777)
        found = self.findings(2, "-S", f"file://{open_to_all}")
        self.assertLevel("error", found["directory"], "mode 777")
        self.assertNotIn("locks", found)

    def test_no_directory(self):
        (self.dir / "file").write_text("")
        found = self.findings(2, "-S", f"file://{self.dir}/file")
        self.assertLevel("error", found["directory"], "not a directory")

    def small(self, code, options, then=":"):
        """The findings for a directory on a tmpfs, filled by the given shell command."""
        where = self.dir / "small"
        where.mkdir(mode=0o700, exist_ok=True)
        result = self.in_mounts('mount -t tmpfs -o "mode=0700,$2" tmpfs "$1"; cd "$1"; '
                                f'{then}; exec "$0" doctor --json -S "file://$1"', where, options)
        self.assertCode(code, result)
        return {f["check"]: f for f in json.loads(result.out)["findings"]}

    def test_space_for_few_locks(self):
        """/run/lock has 5 MiB on Debian."""
        space = self.small(0, "size=5m")["space"]
        self.assertLevel("note", space, r"enough for about 12\d\d more locks")
        self.assertRegex(space["means"], "idle")
        self.assertIn("HOLDFAST_URL=file:///", space["change"])
        self.assertLevel("ok", self.small(0, "size=100m")["space"],
                         r"enough for about 25\d\d\d more locks")

    def test_little_space_is_left(self):
        fill = "head -c %d /dev/zero >fill"
        space = self.small(1, "size=5m", fill % (9 << 19))["space"]
        self.assertLevel("warning", space, r"enough for about 1\d\d more locks")
        self.assertIn("HOLDFAST_URL=file:///", space["change"])
        self.assertLevel("warning", self.small(1, "size=100m,nr_inodes=100")["space"],
                         r"^9\d inodes free, one for each lock")
        found = self.small(2, "size=5m", (fill % (6 << 20)) + " 2>&- || :")
        self.assertLevel("error", found["space"], "enough for about 0 more")
        self.assertLevel("error", found["locks"], "No space left.*HOLDFAST_URL=file:///")

    def test_a_default_directory_that_another_user_made(self):
        result = self.in_mounts('mount -t tmpfs -o mode=1777 tmpfs /run/lock; '
                                'mkdir /run/lock/holdfast-$(id -u); '
                                'chown 12345 /run/lock/holdfast-*; '
                                'exec "$0" doctor --json -S file:')
        self.assertCode(2, result)
        (finding,) = json.loads(result.out)["findings"]
        self.assertLevel("error", finding, "belongs to user 12345.*HOLDFAST_URL=file:///")

    def test_memory_is_for_trying_out(self):
        found = self.findings(0, "-S", "memory:")
        self.assertLevel("note", found["reach"], "one process")
        self.assertLevel("ok", found["locks"])


@on(None)
class OfRedis(Doctor):
    def test_all_is_well(self):
        self.own_redis("--appendonly", "yes", "--appendfsync", "always")
        found = self.findings(0)
        for check in ("reach", "version", "role", "replicas", "persistence", "eviction", "clients",
                      "clock", "rights", "latency", "locks"):
            self.assertLevel("ok", found[check])

    def test_persistence(self):
        self.own_redis("--appendonly", "yes")
        self.assertLevel("note", self.findings(0)["persistence"], "once a second")
        self.redis.command("CONFIG", "SET", "appendonly", "no")
        self.assertLevel("warning", self.findings(1)["persistence"], "nothing is written")
        self.redis.command("CONFIG", "SET", "save", "3600 1")
        self.assertLevel("warning", self.findings(1)["persistence"], "snapshots")

    def test_F26_a_policy_that_evicts_locks(self):
        self.own_redis("--appendonly", "yes", "--maxmemory", "100mb")
        for policy in ("allkeys-lru", "allkeys-random", "volatile-lru", "volatile-ttl"):
            self.redis.command("CONFIG", "SET", "maxmemory-policy", policy)
            finding = self.findings(2)["eviction"]
            self.assertLevel("error", finding, policy)
            self.assertIn("noeviction", finding["change"])
        self.redis.command("CONFIG", "SET", "maxmemory", "0")
        self.assertLevel("warning", self.findings(1)["eviction"])
        self.redis.command("CONFIG", "SET", "maxmemory-policy", "noeviction")
        self.assertLevel("ok", self.findings(0)["eviction"])

    def test_memory_that_is_almost_full(self):
        self.own_redis("--appendonly", "yes")
        self.redis.command("SET", "large", "x" * (32 << 20))
        used = re.search(rb"used_memory:(\d+)", self.redis.command("INFO", "memory")).group(1)
        self.redis.command("CONFIG", "SET", "maxmemory", str(int(used) * 106 // 100))
        self.assertLevel("warning", self.findings(1)["memory"], "are used")

    def test_a_replica_and_its_primary(self):
        primary = self.own_redis("--appendonly", "yes", "--repl-diskless-sync-delay", "0",
                                 port=kit.free_port())
        replica = self.own_redis("--appendonly", "yes", "--replicaof", "127.0.0.1",
                                 str(primary.port))
        kit.until(lambda: b"master_link_status:up" in replica.command("INFO", "replication"),
                  "the replica to follow")
        kit.until(lambda: b"aof_rewrite_in_progress:0" in replica.command("INFO", "persistence"),
                  "the replica to have saved its data in another process")
        found = self.findings(2)
        self.assertLevel("error", found["role"], "replica")
        self.assertIn("primary", found["role"]["change"])
        self.assertLevel("ok", found["rights"])
        self.assertLevel("error", found["locks"], "READONLY")
        found = self.findings(0, "-S", primary.url)
        self.assertLevel("note", found["replicas"], "1 connected")
        self.assertIn("token", found["replicas"]["change"])
        found = self.findings(0, "-S", primary.url + "?replicas=1")
        self.assertLevel("ok", found["replicas"], "1 connected; replicas=1")
        found = self.findings(2, "-S", primary.url + "?replicas=2&command_timeout=1s")
        self.assertLevel("error", found["replicas"], "1 connected; replicas=2")
        self.assertIn("replicas=", found["replicas"]["change"])

    def test_a_cluster(self):
        # the cluster bus uses the port plus 10000
        low = next(port for port in iter(kit.free_port, None) if port <= 55535)
        self.own_redis("--cluster-enabled", "yes", port=low)
        found = self.findings(2, "-S", self.url + "?command_timeout=1s&outage=500ms")
        self.assertLevel("error", found["role"], "cluster")

    def test_nothing_is_left_behind(self):
        self.own_redis()
        self.findings(1)
        self.redis.until_left(b"hf:{holdfast-doctor}:f")

    def test_keys_have_the_prefix(self):
        self.own_redis()
        self.findings(1, "-S", self.url + "?prefix=mine")
        self.redis.until_left(b"mine:{holdfast-doctor}:f")

    # -- Rights

    def least(self, *changes, without=None):
        """Gives the documented user its rights and the given ones, except one. Returns its URL."""
        line = next(line for line in PROTOCOL.read_text().splitlines()
                    if line.strip().startswith("ACL SETUSER"))
        user, *rights = line.split()[2:]
        given = [word for word in rights if word != f"+{without}"]
        self.redis.command("ACL", "SETUSER", user, "reset", *given, *changes)
        password = self.dir / "password"
        password.write_text("PASSWORD")
        self.rights = [word[1:] for word in rights if word.startswith("+")]
        return f"{self.url}?user={user}&password_file={password}"

    def test_the_least_rights_are_enough(self):
        self.own_redis()
        found = self.findings(0, "-S", self.least())
        self.assertLevel("note", found["rights"], r"holdfast lacks \+scan")
        self.assertLevel("ok", found["locks"])
        self.assertLevel("note", found["info"], "NOPERM")

    def test_each_missing_right_is_named(self):
        self.own_redis()
        self.least()
        for right in self.rights:
            result = self.hf("doctor", "-S", self.least(without=right), "--json")
            (found,) = [f["found"] for f in json.loads(result.out)["findings"]
                        if f["check"] == "rights" and f["level"] != "note"]
            self.assertEqual(f"holdfast lacks +{right}", found)
            self.assertIn(result.code, (1, 2))
            self.assertNotIn(b"holdfast-doctor:", b"".join(self.redis.command("KEYS", "*")))

    def test_other_keys_and_channels(self):
        self.own_redis()
        url = self.least("resetkeys", "~other:*")
        self.assertLevel("error", self.findings(2, "-S", url)["rights"], r"\+get")
        url = self.least("resetchannels", "&other:*")
        self.assertLevel("warning", self.findings(1, "-S", url)["rights"],
                         r"\+publish.*\+subscribe")

    # -- Not reached

    def test_no_server(self):
        found = self.findings(2, "-S", f"redis://127.0.0.1:{kit.free_port()}")
        self.assertLevel("error", found["reach"], "refused")
        self.assertEqual(["reach"], list(found))

    def test_a_password_is_never_shown(self):
        self.own_redis(password="se-cret", port=kit.free_port())
        result = self.hf("doctor", "-S", f"redis://:wrong-one@127.0.0.1:{self.redis.port}")
        self.assertCode(2, result)
        self.assertRegex(result.out, "WRONGPASS|invalid password")
        result = self.hf("doctor", "-S", f"redis://:se-cret@127.0.0.1:{self.redis.port}")
        self.assertCode(1, result)
        self.assertNotIn("cret", result.out + result.err)
        self.assertCode(2, self.hf("doctor", "-S", f"redis://127.0.0.1:{self.redis.port}"))

    def test_a_server_that_requires_a_password(self):
        """A refusal before the login is not reported as a missing right."""
        self.own_redis(password="se-cret", port=kit.free_port())
        found = self.findings(2, "-S", f"redis://127.0.0.1:{self.redis.port}")
        self.assertLevel("error", found["login"], "requires a password")
        self.assertIn("password_file", found["login"]["change"])
        self.assertEqual({"reach", "login"}, set(found))

    def test_a_server_that_does_not_answer(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            url = (f"redis://127.0.0.1:{listener.getsockname()[1]}"
                   "?command_timeout=100ms&connect_timeout=100ms")
            found = self.findings(2, "-S", url)
        self.assertLevel("error", found["reach"], "no answer in time")

    def test_a_server_that_is_not_redis(self):
        for answer in (b"HTTP/1.1 400 Bad Request\r\n\r\n", b"*99999999\r\n", b"$2147483647\r\n",
                       b"$9\r\nshort\r\n"):
            server = Fake(self, lambda words, a=answer: a)
            result = self.hf("doctor", "--json", "-S",
                             server.url + "?command_timeout=200ms&connect_timeout=1s")
            self.assertCode(2, result)
            self.assertIn("findings", json.loads(result.out))

    # -- Replies that only a fake server gives

    def test_an_old_version(self):
        server = Fake(self, lambda words: bulk("redis_version:6.0.16\r\nrole:master\r\n")
                      if words[0] == "INFO" else None)
        found = self.findings(2, "-S", server.url)
        self.assertLevel("error", found["version"], "6.0.16")

    def test_valkey(self):
        server = Fake(self, lambda words: bulk("redis_version:7.2.4\r\nvalkey_version:8.0.1\r\n")
                      if words[0] == "INFO" else None)
        self.assertLevel("ok", self.findings(2, "-S", server.url)["version"], "^Valkey 8.0.1$")

    def test_a_server_clock_that_differs(self):
        server = Fake(self, lambda words: b"*2\r\n$10\r\n%d\r\n$6\r\n%06d\r\n"
                      % divmod(time.time_ns() // 1000 + 10**15, 10**6) if words[0] == "TIME"
                      else None)
        self.assertLevel("note", self.findings(2, "-S", server.url)["clock"], "ahead of ours")

    def test_a_disk_that_fails(self):
        server = Fake(self, lambda words: bulk("rdb_last_bgsave_status:err\r\n")
                      if words[0] == "INFO" else None)
        self.assertLevel("error", self.findings(2, "-S", server.url)["persistence"], "failed")

    def test_text_of_a_server_is_escaped_on_the_terminal(self):
        server = Fake(self,
                      lambda words: bulk("redis_version:7.0\x1b[31m\r\n"
                                         "maxmemory_policy:\x1b]0;x\x07\r\n")
                      if words[0] == "INFO" else None)
        self.assertNotIn("\x1b", self.hf("doctor", "-S", server.url).out)

    # -- TLS

    @kit.needs("tls")
    def test_over_tls(self):
        where = pathlib.Path(tempfile.mkdtemp(dir=self.dir))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
                        "-keyout", where / "key", "-out", where / "cert"], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        port = kit.free_port()
        self.own_redis("--tls-port", str(port), "--tls-cert-file", str(where / "cert"),
                       "--tls-key-file", str(where / "key"), "--tls-auth-clients", "no",
                       "--appendonly", "yes")
        url = f"rediss://localhost:{port}"
        found = self.findings(0, "-S", f"{url}?tls_ca={where}/cert")
        self.assertLevel("ok", found["tls"], "verified")
        self.assertLevel("ok", found["rights"])
        self.assertLevel("ok", found["latency"])
        found = self.findings(1, "-S", f"{url}?tls_verify=none")
        self.assertLevel("warning", found["tls"], "not verified")
        self.assertLevel("error", self.findings(2, "-S", url)["reach"], "certificate")


def bulk(text):
    return b"$%d\r\n%s\r\n" % (len(text), text.encode())


@on(None)
class OfAQuorum(Doctor):
    def start_nodes(self, *config, age=0):
        """Three nodes that report an uptime of `age` seconds."""
        self.nodes = [self.own_redis(*config, port=kit.free_port()) for _ in range(3)]
        up = lambda n: int(re.search(rb"uptime_in_seconds:(\d+)", n.command("INFO", "server"))[1])
        kit.until(lambda: all(up(n) >= age for n in self.nodes), "the nodes to be old enough")

    def url_of(self, options, user=""):
        return f"redis+quorum://{user}" + ",".join(f"127.0.0.1:{n.port}"
                                                   for n in self.nodes) + "?" + options

    def of_nodes(self, code, *url):
        """The level and text of the finding of each node, in order."""
        result = self.hf("doctor", "--json", "-S", self.url_of(*url))
        self.assertCode(code, result)
        report = json.loads(result.out)["findings"]
        return [(f["level"], f["found"]) for f in report if f["check"] == "node"]

    def test_F24_a_node_that_does_not_vote_yet(self):
        self.start_nodes("--appendonly", "yes")
        for node, (level, found) in zip(self.nodes, self.of_nodes(2, "outage=100ms"), strict=True):
            self.assertEqual("warning", level)
            self.assertRegex(found,
                             rf"^127.0.0.1:{node.port} has been up for \d+ m?s and votes in \d+ s$")

    def test_nodes_that_vote(self):
        self.start_nodes("--appendonly", "yes", age=2)
        for level, found in self.of_nodes(0, "rejoin_delay=1ms"):
            self.assertEqual("ok", level)
            self.assertRegex(found, "and votes$")

    def test_a_lease_shorter_than_that_of_doctor(self):
        self.start_nodes(age=3)
        self.assertEqual(["ok"] * 3,
                         [level for level, _ in self.of_nodes(0, "lease=1s&rejoin_delay=1s")])
        self.assertLevel("note",
                         self.findings(0, "-S", self.url_of("lease=1s&rejoin_delay=1s"))["delay"],
                         "1000 ms")

    def test_F24_a_node_that_may_lose_data_it_should_keep(self):
        self.start_nodes("--appendonly", "yes", age=2)
        self.nodes[1].command("CONFIG", "SET", "appendonly", "no")
        found = self.of_nodes(1, "rejoin_delay=1ms")
        self.assertEqual(["ok", "ok", "warning", "ok"], [level for level, _ in found])
        self.assertRegex(found[2][1], f":{self.nodes[1].port} keeps no append-only file")

    def test_a_node_that_is_away_or_does_not_report_its_age(self):
        self.start_nodes("--appendonly", "yes")
        for node in self.nodes:
            node.command("ACL", "SETUSER", "shy", "on", ">pw", "~*", "&*", "+@all", "-info")
        self.nodes[0].process.kill()
        away, *others = self.of_nodes(2, "rejoin_delay=30s&outage=100ms", "shy:pw@")
        self.assertEqual("warning", away[0])
        self.assertIn(f":{self.nodes[0].port}", away[1])
        for level, found in others:
            self.assertEqual("warning", level)
            self.assertIn("does not report its uptime", found)


class Fake:
    """A server with scripted replies; other commands get an error."""

    def __init__(self, case, answer):
        self.answer = answer
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self.listener.getsockname()[1]}"
        case.addCleanup(self.listener.close)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.converse, args=(connection,), daemon=True).start()

    def converse(self, connection):
        with connection, connection.makefile("rb") as asked:
            try:
                while True:
                    words = kit.Redis.read(asked)
                    answer = self.answer([word.decode() for word in words])
                    connection.sendall(answer or b"-ERR not here\r\n")
            except (OSError, ValueError, IndexError, TypeError):
                pass


@on(None)
class InATerminal(Doctor):
    def screen_of(self, columns, line):
        terminal = Terminal(self, columns=columns, rows=100)
        code = terminal.run(line)
        colours = terminal.tmux("capture-pane", "-p", "-e")
        return code, terminal.screen(), colours

    def test_forty_columns(self):
        self.own_redis()
        code, screen, _ = self.screen_of(40, "$H doctor")
        self.assertEqual(1, code)
        self.assertIn("warning  persistence\n  nothing is written to disk\n", screen)
        lines = screen.splitlines()
        begin = next(i for i, line in enumerate(lines) if line.startswith("ok"))
        self.assertLessEqual(max(map(len, lines[begin:])), 40)

    def test_colours_and_none(self):
        self.own_redis()
        _, screen, coloured = self.screen_of(100, "$H doctor")
        self.assertRegex(screen, r"(?m)^warning  persistence  nothing is written to disk$")
        self.assertRegex(coloured, r"\x1b\[33mwarning")
        _, _, plain = self.screen_of(100, "NO_COLOR=1 $H doctor")
        self.assertNotRegex(plain, r"\x1b\[3\dm")


if __name__ == "__main__":
    kit.main()
