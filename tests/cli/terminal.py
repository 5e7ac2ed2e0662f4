# SPDX-License-Identifier: Apache-2.0
"""cli-terminal: in a real terminal (tmux) with an interactive bash, as if there were no wrapper.

The prompt has a number and the last exit code, so that every wait is for a prompt or a text.
"""
import os
import pathlib
import re
import signal
import subprocess
import tempfile

import kit
from kit import Process, now, on, until


class Terminal:
    """A bash in its own tmux server."""

    def __init__(self, case, columns=80, rows=40):
        self.env = dict(case.env, TMUX_TMPDIR=tempfile.mkdtemp(dir=case.dir), TERM="xterm",
                        H=kit.HOLDFAST)
        self.server = kit.start_server(["tmux", "-L", "t", "-f", "/dev/null", "-D"], env=self.env,
                                       stdin=subprocess.DEVNULL)
        self.bash = None
        case.addCleanup(self.stop)  # now: what follows may fail
        socket = pathlib.Path(self.env["TMUX_TMPDIR"], f"tmux-{os.getuid()}", "t")
        until(socket.exists, "tmux to listen")
        self.tmux("new-session", "-d", "-x", str(columns), "-y", str(rows), "-c", str(case.dir),
                  "env", r"PS1=<\#:$?> ", "bash", "--norc", "--noprofile", "-i")
        self.bash = Process(self.tmux("display", "-p", "#{pane_pid}"))
        kit.KNOWN.add(self.bash.pid)
        self.prompts = 1
        self.see(r"^<1:0> $")

    def tmux(self, *words):
        done = subprocess.run(["tmux", "-L", "t", *words], env=self.env, timeout=kit.PATIENCE,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        if done.returncode:
            raise AssertionError(f"tmux {words}: {done.stderr.decode()}")
        return done.stdout.decode()

    def screen(self):
        lines = self.tmux("capture-pane", "-p", "-J").splitlines()
        return "\n".join(lines).rstrip("\n")

    def see(self, pattern, seconds=None):
        """Waits until the screen matches."""
        found = until(lambda: re.search(pattern.replace(" $", " ?$"), self.screen(), re.M),
                      lambda: f"{pattern} on the screen:\n{self.screen()}", seconds, 0.02)
        return found

    def key(self, *keys):
        self.tmux("send-keys", *keys)

    def type(self, text):
        self.tmux("send-keys", "-l", text)
        self.key("Enter")

    def run(self, text, seconds=None):
        """Runs a line in the shell up to the next prompt. Returns the exit code."""
        self.type(text)
        return self.prompt(seconds)

    def prompt(self, seconds=None):
        """Waits for the next prompt and returns the code that it shows."""
        self.prompts += 1
        return int(self.see(rf"<{self.prompts}:(\d+)> $", seconds).group(1))

    def out(self, text):
        """The one line that a shell command prints."""
        code = self.run(text)
        lines = self.screen().splitlines()
        assert code == 0, lines
        return lines[-2]

    def expect_hangup(self):
        """A hang-up brings SIGCONT, which undoes the SIGSTOP that a leak check uses.

        The check would then wait forever.
        """
        assert self.run("export ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0") == 0

    def stop(self):
        """Kills what still runs before the terminal hangs up; see expect_hangup."""
        for process in kit.family() if self.bash else []:
            if process.stat().get("session") == self.bash.pid and process.pid != self.bash.pid:
                process.kill()
        self.server.terminate()
        self.server.wait(kit.PATIENCE)
        kit.KNOWN.discard(self.server.pid)
        if self.bash:
            kit.KNOWN.discard(self.bash.pid)


class WithTerminal(kit.Case):
    def setUp(self):
        super().setUp()
        self.t = Terminal(self)


@on("file", "redis")
class InATerminal(WithTerminal):
    def foreground(self):
        return self.t.bash.stat()["foreground"]

    # -- In the foreground

    def test_the_child_reads_the_terminal(self):
        t = self.t
        t.type("$H run x cat")
        self.until_foreground_is_a_child()
        t.type("hello")
        t.see(r"^hello\nhello$")
        t.key("C-d")
        self.assertEqual(0, t.prompt())

    def test_the_child_s_group_is_in_the_foreground(self):
        t = self.t
        t.type("$H run x sh -c 'echo $$ >pid.new; mv pid.new pid; exec sleep 300'")
        until((self.dir / "pid").exists, "the child to run")
        pid = int((self.dir / "pid").read_text())
        until(lambda: self.foreground() == pid, "the child's group to have the terminal")
        t.key("C-c")
        t.prompt()
        self.assertEqual(self.t.bash.pid, self.foreground())

    def test_the_child_has_the_terminal_from_its_start(self):
        """A child that reads the terminal at once is not stopped."""
        for _ in range(10):
            self.assertEqual(0, self.t.run("$H run x sh -c 'stty -echo; stty echo'", 5))

    def test_ctrl_c(self):
        t = self.t
        t.type("$H run x sh -c 'echo in; exec sleep 300'")
        t.see("^in$")
        t.key("C-c")
        self.assertEqual(130, t.prompt())
        self.assertEqual(0, t.run("$H run -n x true"))

    def test_the_child_can_handle_ctrl_c(self):
        t = self.t
        t.type("""$H run x bash -c 'trap "echo caught; exit 9" INT; echo in; sleep 300'""")
        t.see("^in$")
        t.key("C-c")
        self.assertEqual(9, t.prompt())
        self.assertIn("caught", t.screen())

    def test_ctrl_backslash(self):
        t = self.t
        t.type("ulimit -c 0; $H run x sh -c 'echo in; exec sleep 300'")
        t.see("^in$")
        t.key("C-\\")
        self.assertEqual(131, t.prompt())

    def test_ctrl_z_and_fg(self):
        t = self.t
        t.type("$H run x cat")
        self.until_foreground_is_a_child()
        t.type("one")
        t.see(r"^one\none$")
        t.key("C-z")
        self.assertEqual(148, t.prompt())
        t.run("jobs")
        t.see(r"^\[1\]\+ +Stopped .*run x cat")
        self.assertEqual(1, t.run("$H run -n x true"), "it is held while it is stopped")
        t.type("fg")
        self.until_foreground_is_a_child()
        t.type("two")
        t.see(r"^two\ntwo$")
        t.key("C-z")
        self.assertEqual(148, t.prompt())
        t.type("fg")
        self.until_foreground_is_a_child()
        t.type("three")
        t.see(r"^three\nthree$")
        t.key("C-d")
        self.assertEqual(0, t.prompt())
        self.assertEqual("[]", t.out('echo "[$(jobs)]"'))

    def test_ctrl_z_fg_ctrl_c(self):
        t = self.t
        t.type("$H run x sh -c 'echo in; exec sleep 300'")
        t.see("^in$")
        t.key("C-z")
        t.prompt()
        t.type("fg")
        t.see(r"fg\n.*run x sh")
        self.until_foreground_is_a_child()
        t.key("C-c")
        self.assertEqual(130, t.prompt())

    def until_foreground_is_a_child(self):
        """Before that, the terminal may still have the settings of bash, where Enter differs."""
        until(self.foreground_is_a_child, "the child's group to have the terminal")

    def foreground_is_a_child(self):
        """A child of bash itself will become the wrapper. Until its exec it is called bash, too."""
        process = Process(self.foreground())
        return (process.pid in [p.pid for p in kit.family(self.t.bash.pid)]
                and process.stat().get("parent") != self.t.bash.pid
                and process.command().startswith(("sh", "sleep", "cat", "bash")))

    def test_bg(self):
        t = self.t
        os.mkfifo(self.dir / "gate")  # not a loop: a stop of sh during a fork is never seen
        t.type("$H run x sh -c 'echo in; read line <gate; echo done'")
        t.see("^in$")
        t.key("C-z")
        t.prompt()
        t.run("bg")
        t.run("jobs")
        t.see(r"^\[1\]\+ +Running ")
        self.assertEqual(self.t.bash.pid, self.foreground())
        (self.dir / "gate").write_text("\n")
        t.see("^done$|> done$")
        until(lambda: not [p for p in kit.family(t.bash.pid) if p.runs], "the job to end")
        self.assertEqual("code 0", t.out("wait %1; echo code $?"))

    def test_bg_and_fg_again(self):
        t = self.t
        t.type("$H run x sh -c 'echo in; exec sleep 300'")
        t.see("^in$")
        t.key("C-z")
        t.prompt()
        t.run("bg")
        t.type("fg")
        until(lambda: self.foreground() != t.bash.pid, "the job to be in the foreground")
        t.key("C-c")
        self.assertEqual(130, t.prompt())

    def test_a_background_job_that_reads_is_stopped_and_fg_lets_it_read(self):
        t = self.t
        t.run("$H run x cat &")
        until(lambda: any(p.stopped for p in kit.family(t.bash.pid)), "cat to be stopped")
        until(lambda: t.run("jobs") == 0 and "Stopped" in t.screen(), "the job to be stopped")
        t.type("fg")
        self.until_foreground_is_a_child()
        t.type("late")
        t.see(r"^late\nlate$")
        t.key("C-d")
        self.assertEqual(0, t.prompt())

    def test_a_background_job_leaves_the_terminal_alone(self):
        t = self.t
        t.run("$H run x sh -c 'while [ ! -e gate ]; do sleep 0.05; done' &")
        self.assertEqual("typed", t.out("echo typed"))
        self.assertEqual(self.t.bash.pid, self.foreground())
        (self.dir / "gate").touch()
        self.assertEqual("code 0", t.out("wait %1; echo code $?"))

    def test_kill_of_a_stopped_job(self):
        t = self.t
        t.type("$H run x cat")
        self.until_foreground_is_a_child()
        t.key("C-z")
        t.prompt()
        t.run("kill %1")
        until(lambda: not [p for p in kit.family(t.bash.pid) if p.runs], "the job to end")
        self.assertEqual("code 143", t.out("wait %1; echo code $?"))

    # -- The terminal's settings

    def settings(self):
        return self.t.out("stty -g")

    def test_settings_are_as_before(self):
        before = self.settings()
        self.t.run("$H run x true")
        self.assertEqual(before, self.settings())

    def test_settings_that_a_command_changes_stay_as_without_a_wrapper(self):
        found = []
        for wrapper in ("", "$H run x "):
            self.t.run("stty sane")
            self.t.run(wrapper + "sh -c 'stty -echo; exit 0'")
            found.append(self.settings())
        self.assertEqual(*found)

    def test_a_full_screen_program_gets_its_settings_back(self):
        """Stopped in raw mode and continued by fg: bash restores its settings, then the job's."""
        t = self.t
        before = self.settings()
        t.run("seq 200 >text")
        t.type("$H run x more text")
        t.see(r"--More--")
        t.key("C-z")
        t.prompt()
        self.assertEqual(before, self.settings())
        t.type("fg")
        until(lambda: Process(self.foreground()).command().startswith("more"),
              "more to be continued")
        t.key("Space")
        t.see(r"^70$")
        t.key("q")
        self.assertEqual(0, t.prompt())
        self.assertEqual(before, self.settings())

    # -- With others

    def test_an_interactive_shell_inside(self):
        t = self.t
        t.type("$H run x env PS1='inner> ' bash --norc --noprofile -i")
        t.see("^inner> ?$")
        t.type("sleep 300")
        until(lambda: Process(self.foreground()).command() == "sleep 300", "sleep to run")
        t.key("C-z")
        t.see(r"Stopped +sleep 300")
        t.type("jobs; fg")
        until(lambda: Process(self.foreground()).command() == "sleep 300", "sleep to be continued")
        t.key("C-c")
        t.type("exit 5")
        self.assertEqual(5, t.prompt())

    def test_a_wrapper_in_a_wrapper(self):
        t = self.t
        t.type("$H run x $H run y cat")
        self.until_foreground_is_a_child()
        t.type("one")
        t.see(r"^one\none$")
        t.key("C-z")
        self.assertEqual(148, t.prompt())
        t.type("fg")
        self.until_foreground_is_a_child()
        t.type("two")
        t.see(r"^two\ntwo$")
        t.key("C-c")
        self.assertEqual(130, t.prompt())

    def test_in_a_pipeline(self):
        t = self.t
        self.assertEqual("HELLO", t.out("echo hello | $H run x tr a-z A-Z | cat"))
        self.assertEqual("1000", t.out("$H run x seq 1000 | tail -1"))

    def test_ctrl_c_ends_a_whole_pipeline(self):
        t = self.t
        t.type("$H run x sh -c 'echo in; exec sleep 300' | cat")
        t.see("^in$")
        t.key("C-c")
        self.assertEqual(130, t.prompt())

    def test_a_pager_after_it_has_the_terminal(self):
        t = self.t
        t.type("$H run x seq 200 | more")
        t.see(r"--More--")
        t.key("Space")
        t.see(r"^70$")
        t.key("q")
        t.prompt()

    def test_ctrl_z_of_a_script_returns_to_the_shell(self):
        t = self.t
        (self.dir / "job").write_text("$H run x cat; echo cat ended with $?; exit 4\n")
        t.run("export H")
        t.type("bash job")
        self.until_foreground_is_a_child()
        t.type("one")
        t.see(r"^one\none$")
        t.key("C-z")
        self.assertEqual(148, t.prompt())
        t.type("fg")
        self.until_foreground_is_a_child()
        t.type("two")
        t.see(r"^two\ntwo$")
        t.key("C-d")
        self.assertEqual(4, t.prompt())

    def test_ctrl_c_ends_a_script(self):
        """Ctrl-C ends the script too, as in `for f in *; do holdfast run x ...; done`."""
        t = self.t
        (self.dir / "job").write_text("$H run x sh -c 'echo in; exec sleep 300'; echo went on\n")
        t.run("export H")
        t.type("bash job")
        t.see("^in$")
        t.key("C-c")
        self.assertEqual(130, t.prompt())
        self.assertNotIn("went on", t.screen())

    # -- While it waits for the lock

    def test_ctrl_c_while_waiting(self):
        self.holder("x")
        t = self.t
        t.type("$H run x true")
        self.until_it_waits()
        t.key("C-c")
        self.assertEqual(130, t.prompt())

    def test_ctrl_z_while_waiting(self):
        holder = self.holder("x")
        t = self.t
        t.type("$H run x echo mine")
        self.until_it_waits()
        t.key("C-z")
        self.assertEqual(148, t.prompt())
        t.type("fg")
        holder.signal(signal.SIGTERM)
        holder.wait()
        self.assertEqual(0, t.prompt())
        t.see("^mine$")

    def until_it_waits(self):
        def waits():
            return [p for p in kit.family(self.t.bash.pid)
                    if p.pid == self.foreground() and p.state == "S"
                    and p.command().startswith(kit.HOLDFAST)]
        until(waits, "the command to wait")

    # -- Other ends

    def test_kill_9_of_the_wrapper_gives_the_terminal_back(self):
        t = self.t
        t.type("$H run x sh -c 'echo in; exec sleep 300'")
        t.see("^in$")
        wrapper = next(p for p in kit.family(t.bash.pid) if p.command().startswith(kit.HOLDFAST))
        wrapper.kill()
        self.assertEqual(137, t.prompt())
        self.assertEqual("typed", t.out("echo typed"))
        until(lambda: not [p for p in kit.strays() if p.command().startswith("sleep")],
              "the child to be gone", 2)

    def test_lost_while_stopped(self):
        """F03: fg ends with 75, and the child did not continue."""
        t = self.t
        t.type("$H run --lease 1s x sh -c 'echo in; kill -TSTP $$; echo ran on >ran; sleep 300'")
        t.see("^in$")
        self.assertEqual(148, t.prompt())
        end = now() + 1.2
        until(lambda: now() > end, "the lease to be over")
        self.assertEqual(75, t.run("fg"))
        t.see("^holdfast: .*lost")
        self.assertFalse((self.dir / "ran").exists())
        self.assertEqual("typed", t.out("echo typed"))

    def test_a_hangup_of_the_terminal_ends_it(self):
        t = self.t
        t.expect_hangup()
        t.type("$H run x sh -c 'echo $$ >pid.new; mv pid.new pid; exec sleep 300'")
        until((self.dir / "pid").exists, "the child to run")
        child = Process((self.dir / "pid").read_text())
        t.tmux("kill-pane")
        until(lambda: not child.runs, "the child to be gone")
        self.assertCode(0, self.hf("run", "-w", "5", "x", "true"))


@on("redis")
class LosingTheServer(WithTerminal):
    def test_lost_in_the_foreground(self):
        t = self.t
        t.type("$H run --lease 1s x sh -c 'trap \"\" TERM; echo in; while :; do sleep 1; done'")
        t.see("^in$")
        self.redis.command("DEL", self.redis.key("x"))
        self.assertEqual(75, t.prompt())
        self.assertEqual("typed", t.out("echo typed"))


if __name__ == "__main__":
    kit.main()
