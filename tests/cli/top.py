# SPDX-License-Identifier: Apache-2.0
"""cli-top: what the screen shows of locks, and that the terminal is restored."""
import re
import signal

import kit
from kit import Process, on, until
from terminal import Terminal


class Screen(Terminal):
    def screen(self):
        """Without blanks at the end of lines, which cannot be seen."""
        return "\n".join(line.rstrip() for line in super().screen().splitlines())


class Top(kit.Case):
    columns, rows = 100, 24

    def setUp(self):
        super().setUp()
        self.t = None

    def terminal(self, **env):
        self.env.update(env)
        self.t = Screen(self, columns=self.columns, rows=self.rows)
        self.before = self.t.out("stty -g")
        return self.t

    def top(self, *words):
        """Starts top in a terminal and waits until it has drawn."""
        t = self.t or self.terminal()
        t.type(" ".join(["$H top", "--interval 100ms", *words]))
        t.see(r"^\d+ locks?, \d+ waiting, sorted by ")
        return t

    def row(self, name, pattern=""):
        return rf"(?m)^{re.escape(name)} +{pattern}"

    def start_waiters(self, name, count):
        """Starts this many waiters, in order."""
        waiting = []
        for i in range(count):
            waiting.append(self.start("run", name, "--", "true"))
            until(lambda n=i + 1: self.waiting(name) == n, f"{i + 1} to wait")
        return waiting

    def waiting(self, name):
        rows = [line.split("\t") for line in self.hf("list").out.splitlines()]
        return next((int(row[-1]) for row in rows if row[0] == name), 0)

    def assertLeft(self, code):
        """Checks the exit code, and that the terminal is restored."""
        t = self.t
        self.assertEqual(code, t.prompt())
        self.assertEqual(self.before, t.out("stty -g"))
        self.assertEqual("0 1", t.tmux("display", "-p", "#{alternate_on} #{cursor_flag}").strip())
        t.key("C-l")
        self.assertEqual(0, t.run("true"))

    def process(self):
        return Process(self.t.bash.stat()["foreground"])


@on("file", "redis")
class OnTheScreen(Top):
    def test_locks_with_waiters_come_first(self):
        self.holder("aside")
        self.holder("busy")
        self.start_waiters("busy", 3)
        t = self.top()
        t.see(r"^2 locks, 3 waiting, sorted by waiting$")
        t.see(r"^NAME .*\nbusy +held +holdfast, pid \d+ on .* 3 *\naside +held .* 0 *$")

    def test_clients_that_compete(self):
        """Four clients compete for one lock: the hand-overs are shown."""
        loop = 'until [ -e stop ]; do "$0" run -q fought -- true; done'
        for _ in range(4):
            self.jobs.append(kit.Job(self, ["sh", "-c", loop, kit.HOLDFAST], env=self.env,
                                     cwd=self.dir))
        self.holder("calm")
        t = self.top("--sort handovers")
        t.see(r"^NAME .*\nfought .* \d+\.\d\+?\ncalm ")
        self.assertNotRegex(t.screen(), r"(?m)^calm .*\d\.\d")
        (self.dir / "stop").touch()
        t.see(r"^1 lock, 0 waiting")

    def test_the_details_of_one_lock(self):
        holder = self.holder("busy")
        waiting = self.start_waiters("busy", 3)
        t = self.top()
        t.see(self.row("busy"))
        t.key("Enter")
        t.see(rf"^holder +holdfast, pid {holder.pid} on ")
        t.see(rf"^token +{holder.fence}$")
        t.see(r"^3 waiting, in this order:\n" + r"\n".join(
            rf" +{i + 1}  holdfast, pid {job.pid} on .*" for i, job in enumerate(waiting)) + "$")
        holder.signal(signal.SIGTERM)
        t.see(r"^state +free$")
        t.key("Escape")
        t.see(r"^No lock is in use\.$")

    def test_order_and_filter(self):
        for name in ("alpha", "beta", "gamma-ray"):
            self.holder(name)
        t = self.top("--sort name")
        t.see(r"^alpha .*\nbeta .*\ngamma-ray ")
        t.key("r")
        t.see(r"^gamma-ray .*\nbeta .*\nalpha ")
        t.key("s")
        t.see(r"sorted by waiting, reversed$")
        t.key("r", "/")
        t.tmux("send-keys", "-l", "ET")
        t.see(r"^/ET_")
        t.see(r"^NAME .*\nbeta .*\n *$")
        t.key("Enter", "Escape")
        t.see(r"^3 locks, 0 waiting, sorted by waiting$")
        t.key("q")
        self.assertLeft(0)

    def test_the_selected_lock_stays_selected(self):
        for name in ("alpha", "beta", "gamma"):
            self.holder(name)
        t = self.top("--sort name")
        t.see(self.row("gamma"))
        t.key("Down", "Down", "r")
        t.see(r"^gamma .*\nbeta .*\nalpha ")
        t.key("Enter")
        t.see(r"^gamma\nstate +held$")

    def test_a_pattern(self):
        self.holder("alpha")
        self.holder("beta")
        t = self.top("'b*'")
        t.see(r"^1 lock, ")
        t.see(self.row("beta"))

    def test_a_pattern_that_nothing_matches(self):
        self.holder("nightly")
        self.top("night").see(r"^No lock in use matches the pattern\.$")

    def test_the_terminal_changes_its_size(self):
        self.holder("busy")
        self.start_waiters("busy", 1)
        t = self.top()
        t.see(r"^NAME +STATE +HOLDER +HELD +WAITING +HANDED/S$")
        t.tmux("resize-window", "-x", "40", "-y", "6")
        t.see(r"^NAME +HELD +WAITING +HANDED/S$")
        t.see(self.row("busy", r"\d+ \w+ +1\b"))
        self.assertLessEqual(max(map(len, t.screen().splitlines())), 40)
        t.tmux("resize-window", "-x", "200", "-y", "50")
        t.see(r"^NAME +STATE +HOLDER +HELD +WAITING +HANDED/S$")
        t.tmux("resize-window", "-x", "10", "-y", "2")
        t.tmux("resize-window", "-x", "100", "-y", "24")
        t.see(self.row("busy", "held"))
        t.key("q")
        self.assertLeft(0)

    def test_more_locks_than_lines(self):
        for i in range(30):
            self.start("run", f"lock-{i:02}")
        until(lambda: len(self.hf("list").out.splitlines()) == 30, "all to be held")
        t = self.top("--sort name")
        t.see(self.row("lock-00"))
        t.key("End")
        t.see(self.row("lock-29"))
        t.key("PPage", "PPage")
        t.see(self.row("lock-00"))

    def test_paused(self):
        self.holder("first")
        t = self.top()
        t.key("Space")
        t.see(", paused$")
        self.holder("second")
        t.key("s")
        t.see(r"^1 lock, 0 waiting, sorted by held, paused$")
        t.key("Space")
        t.see(r"^2 locks, ")

    def test_help(self):
        t = self.top()
        t.key("?")
        t.see(r"^Enter +show its holder")
        t.key("?")
        t.see(r"^No lock is in use\.$")

    def test_names_of_others_are_escaped_on_the_terminal(self):
        self.holder("e\x1b[31mvil\u009b7m\x07")
        t = self.top()
        t.see(r"^e \[31mvil 7m +held")
        t.key("Enter")
        t.see(r"^e \[31mvil 7m *\nstate +held")


@on("file", "redis")
class AtTheEnd(Top):
    def test_keys(self):
        for keys in (["q"], ["Escape"], ["?", "q"]):
            t = self.top()
            t.key(*keys)
            self.assertLeft(0)

    def test_signals(self):
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGSEGV,
                       signal.SIGABRT):
            self.top()
            self.process().kill(number)
            self.assertLeft(128 + number)

    def test_interrupted_by_key(self):
        t = self.top()
        t.key("C-c")
        self.assertLeft(130)

    def test_suspended_and_continued(self):
        self.holder("busy")
        t = self.top()
        t.see(self.row("busy"))
        t.key("C-z")
        self.assertEqual(148, t.prompt())
        self.assertEqual("0", t.tmux("display", "-p", "#{alternate_on}").strip())
        t.type("fg")
        t.see(self.row("busy"))
        t.key("q")
        self.assertLeft(0)

    def test_the_terminal_goes_away(self):
        self.terminal().expect_hangup()
        t = self.top()
        process = self.process()
        t.tmux("kill-session")
        until(lambda: not process.runs, "it to end")


@on(None)
class InTrouble(Top):
    def test_a_store_that_goes_away_and_comes_back(self):
        self.own_redis()
        self.env["HOLDFAST_URL"] += "?command_timeout=300ms&connect_timeout=300ms"
        t = self.top()
        self.redis.stop()
        t.see(r"^.*(redis\.sock|connection).*$")
        t.key("?")
        t.see(r"^Enter +show its holder")
        t.key("?")
        self.redis.start()
        t.see(r"^0 locks, 0 waiting, sorted by waiting$")
        t.key("q")
        self.assertLeft(0)

    def test_a_store_that_hangs_does_not_delay_the_exit(self):
        self.own_redis()
        t = self.top()
        self.redis.freeze()
        self.addCleanup(self.redis.thaw)
        t.key("?")
        t.see(r"^Enter +show its holder")
        t.key("q")
        self.assertLeft(0)

    def test_a_store_that_is_not_there(self):
        t = self.terminal()
        self.assertEqual(74, t.run(f"$H top -S redis://127.0.0.1:{kit.free_port()}"))
        self.assertIn("refused", t.screen())

    def test_a_user_that_may_not_list(self):
        self.own_redis()
        self.redis.command("ACL", "SETUSER", "default", "-scan")
        t = self.terminal()
        t.type("$H top")
        t.see("the command scan")  # the end of a long line
        self.assertNotIn("No lock is in use", t.screen())
        t.key("q")
        self.assertLeft(0)

    def test_no_terminal(self):
        result = self.hf("top", "-S", "memory:")
        self.assertCode(64, result)
        self.assertIn("needs a terminal", result.err)

    def test_a_terminal_that_cannot_be_drawn_on(self):
        t = self.terminal()
        for term in ("dumb", "no-such-terminal"):
            self.assertEqual(71, t.run(f"TERM={term} $H top -S memory:"))
            self.assertIn("cannot be used", t.screen())
            self.assertEqual(self.before, t.out("stty -g"))

    def test_usage(self):
        for args in (["a", "b"], ["--unknown"], ["--interval", "1ms"], ["--interval", "x"],
                     ["--sort", "size"], ["-S"]):
            result = self.hf("top", *args)
            self.assertCode(64, result)
            self.assertIn("holdfast top --help", result.err)
        self.assertIn("Usage: holdfast top", self.hf("top", "--help").out)

    def colours(self, **env):
        self.own_redis()
        self.holder("busy")
        self.start_waiters("busy", 1)
        self.terminal(**env)
        t = self.top()
        t.see(self.row("busy"))
        return t.tmux("capture-pane", "-p", "-e")

    def test_colours(self):
        self.assertRegex(self.colours(), r"\x1b\[[0-9;]*3[1-6]m")

    def test_no_colours(self):
        self.assertNotRegex(self.colours(NO_COLOR="1"), r"\x1b\[[0-9;]*3[0-7]m")


if __name__ == "__main__":
    kit.main()
