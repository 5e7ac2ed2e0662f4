# SPDX-License-Identifier: Apache-2.0
"""cli-store-choice: which store is used, and which configuration files are refused."""
import os
import shutil
import time

import kit
from kit import on

MINE = "memory:mine"


@on(None)
class StoreChoice(kit.Case):
    """The stores are memory:NAME, which need no server; HOLDFAST_STORE tells which one was used."""

    def setUp(self):
        super().setUp()
        self.config = self.dir / ".config" / "holdfast"
        self.config.parent.mkdir()

    def write(self, text, mode=0o600):
        self.config.write_bytes(text if isinstance(text, bytes) else text.encode())
        self.config.chmod(mode)

    def chosen(self, *options):
        result = self.hf("run", *options, self.unique(), "printenv", "HOLDFAST_STORE")
        self.assertCode(0, result)
        return result.out.strip()

    def unique(self):
        """The default store is shared by the whole machine, so the name must be unique."""
        return f"{self.name}-{os.getpid()}-{time.time_ns()}"

    def refused(self, *patterns, code=64):
        result = self.hf("run", self.unique(), "echo", "no")
        self.assertCode(code, result)
        self.assertSays(result, *patterns)
        self.assertEqual("", result.out)
        self.assertCode(code, self.hf("status", self.unique()))
        return result

    # -- The order

    def test_the_option_comes_first(self):
        self.env["HOLDFAST_URL"] = "memory:environment"
        self.write("store = memory:config\n")
        for words in (["-S", MINE], [f"-S{MINE}"], ["--store", MINE], [f"--store={MINE}"]):
            self.assertEqual(MINE, self.chosen(*words))

    def test_then_the_environment(self):
        self.env["HOLDFAST_URL"] = "memory:environment"
        self.write("store = memory:config\n")
        self.assertEqual("memory:environment", self.chosen())

    def test_then_the_user_s_file(self):
        self.write("store = memory:config\n")
        self.assertEqual("memory:config", self.chosen())
        self.assertIn("memory:config", self.hf("run", "--verbose", "x", "true").err)
        self.assertIn("memory:config", self.hf("status", "x").out)

    def test_then_the_file_store(self):
        if os.path.exists("/etc/holdfast.conf"):
            return  # a configuration of this machine that is used
        self.assertRegex(self.chosen(), r"\Afile:")
        self.config.parent.rmdir()
        self.assertRegex(self.chosen(), r"\Afile:")

    def test_the_default_store_is_the_same_without_HOME(self):
        """In a shell and in cron."""
        if os.path.exists("/etc/holdfast.conf"):
            return
        holder = self.holder(self.unique())
        name = holder.argv[2]
        self.env = {"PATH": "/usr/bin:/bin", "HOME": "/", **{k: v for k, v in self.env.items()
                                                             if k in kit.SANITIZERS}}
        self.assertBusy(name)
        self.env["TMPDIR"] = str(self.dir)
        self.env["XDG_RUNTIME_DIR"] = str(self.dir)
        self.assertBusy(name)

    # -- The directory of the file store

    def in_places(self, script):
        """As another user with an empty /run/lock and /var/tmp; $1: a name, $hf: the command."""
        if os.path.exists("/etc/holdfast.conf"):
            self.skipTest("/etc/holdfast.conf names the store that is to be used")
        copy = self.dir / "holdfast"
        shutil.copy(kit.HOLDFAST, copy)
        copy.chmod(0o755)
        return self.in_mounts(
            'mount -t tmpfs -o mode=1777 tmpfs /run/lock; '
            'mount -t tmpfs -o mode=1777 tmpfs /var/tmp\n'
            'hf="setpriv --reuid=12346 --regid=12346 --clear-groups env HOME=/nonexistent $0"\n'
            + script,
            self.unique(), holdfast=str(copy))

    READ_ONLY = "mount -o remount,bind,ro /run/lock; "

    def test_processes_that_see_the_directory_differently_never_both_enter(self):
        free = "$hf run -n $name echo free"
        confined = f"unshare -m sh -ec '{self.READ_ONLY} $hf run -n $name echo confined' || echo $?"
        for first, second in ((free, confined), (confined, free)):
            result = self.in_places(f"export hf name=$1\n{first}\n{second}")
            self.assertCode(0, result)
            self.assertEqual(["77", "free"], sorted(result.out.split()))
            self.assertRegex(result.err, "(?i)/run/lock/holdfast-12346.*read-only")

    def test_an_unusable_default_directory_is_refused_with_advice(self):
        for spoil, why in ((self.READ_ONLY, "Read-only"),
                           ("chmod 755 /run/lock", "Permission denied"),
                           ("mount -t tmpfs tmpfs /run", "missing"),
                           ("mkdir -m 700 /run/lock/holdfast-12346; "
                            "chown 12347 /run/lock/holdfast-12346",
                            "belongs to user 12347")):
            with self.subTest(why):
                result = self.in_places(f"{spoil}\nexec $hf run -n $1 echo no")
                self.assertCode(77, result)
                self.assertEqual("", result.out)
                self.assertSays(result, "/run/lock/holdfast-12346", why, "HOLDFAST_URL=file:///",
                                "-S")
                way_out = ("mkdir -m 700 /var/tmp/mine; chown 12346 /var/tmp/mine; "
                           "export HOLDFAST_URL=file:///var/tmp/mine")
                self.assertCode(0, self.in_places(f"{spoil}\n{way_out}\nexec $hf run -n $1 true"))

    def test_no_file_is_read_unless_needed(self):
        self.write("nonsense")
        self.assertEqual(MINE, self.chosen("-S", MINE))
        self.env["HOLDFAST_URL"] = MINE
        self.assertEqual(MINE, self.chosen())

    def test_without_HOME_the_home_of_the_user_is_used(self):
        self.write("nonsense")
        del self.env["HOME"]
        result = self.hf("run", self.unique(), "true")
        self.assertNotIn(str(self.config), result.err)

    # -- What a file may say

    def test_comments_blanks_and_spaces(self):
        for text in ("store = memory:config\n", "store=memory:config\n", "store = memory:config",
                     "# a comment\n\n  # another\n\t\nstore = memory:config\n# end",
                     "  store\t=\tmemory:config  \n"):
            with self.subTest(text):
                self.write(text)
                self.assertEqual("memory:config", self.chosen())

    def test_modes_that_only_the_owner_may_write(self):
        for mode in (0o600, 0o644, 0o400, 0o640):
            self.write("store = memory:config\n", mode)
            self.assertEqual("memory:config", self.chosen())

    def test_after_a_file_without_a_store_the_next_one_is_used(self):
        if os.path.exists("/etc/holdfast.conf"):
            return  # a configuration of this machine that is used
        for text in ("", "# nothing\n"):
            self.write(text)
            self.assertRegex(self.chosen(), r"\Afile:")

    def test_a_link_to_a_file_is_followed(self):
        (self.dir / "real").write_text("store = memory:config\n")
        (self.dir / "real").chmod(0o600)
        self.config.symlink_to(self.dir / "real")
        self.assertEqual("memory:config", self.chosen())

    # -- Files that are refused

    def test_a_file_that_others_may_write_is_refused(self):
        for mode in (0o666, 0o664, 0o620, 0o602, 0o777):
            with self.subTest(oct(mode)):
                self.write("store = memory:config\n", mode)
                self.refused(str(self.config))

    def test_a_file_of_another_user_is_refused(self):
        self.write("store = memory:config\n", 0o644)
        if os.geteuid() != 0:
            return  # only root can give a file away
        os.chown(self.config, 54321, 54321)
        self.refused(str(self.config))

    def test_garbage_is_an_error_with_file_and_line(self):
        for line, text in ((1, "nonsense\n"), (2, "# c\nshop = memory:\n"), (1, "store\n"),
                           (1, "store memory:x\n"), (1, "= memory:x\n"), (1, "store =\n"),
                           (3, "\n\nSTORE = memory:x\n"), (1, "[section]\n"),
                           (2, "store = memory:x\nlease = 5s\n"), (1, "storeroom = memory:x\n"),
                           (2, "store = memory:x\nstore = memory:y\n")):
            with self.subTest(text[:40]):
                self.write(text)
                self.refused(rf"{self.config}(:|.*\bline ){line}\b")

    def test_a_file_that_is_not_text_is_an_error_with_its_name(self):
        for text in (b"\xff\xfes\0t\0", b"store = memory:x\0y\n", "x" * 100000,
                     "store = memory:" + "x" * 100000):
            with self.subTest(text[:40]):
                self.write(text)
                self.refused(str(self.config))

    def test_an_error_in_a_file_does_not_show_a_secret(self):
        for text in ("stor = redis://u:s3kr1t@host\n", "redis://u:s3kr1t@host\n",
                     "store redis://u:s3kr1t@host\n", "store = redis://u:s3kr1t@host:port\n",
                     "store = redis://u:s3kr1t@host trailing\n",
                     "store = redis://u:s3kr1t@\0host\n"):
            with self.subTest(text):
                self.write(text)
                result = self.hf("run", "--verbose", self.unique(), "true")
                self.assertCode(64, result)
                self.assertNotIn("s3kr1t", result.err)

    def test_a_bad_URL_in_a_file_is_refused(self):
        for url in ("nonsense", "http://x", "redis://h:99999", "memory:?walk=1"):
            self.write(f"store = {url}\n")
            self.refused()

    def test_a_path_that_is_not_a_file_is_refused_without_waiting(self):
        os.mkfifo(self.config, 0o600)
        self.refused(str(self.config))
        self.config.unlink()
        self.config.mkdir()
        self.refused("is a directory; .*store = URL")
        self.config.rmdir()
        self.config.symlink_to("/dev/zero")
        self.refused(str(self.config))

    def test_a_file_that_cannot_be_read_is_an_error(self):
        self.config.symlink_to(self.config)  # a loop: not even root can read it
        self.refused(str(self.config))

    def test_a_file_in_place_of_the_config_folder(self):
        """~/.config is a file: treated as if the configuration were missing."""
        self.config.parent.rmdir()
        self.config.parent.write_text("a file\n")
        result = self.hf("run", self.unique(), "true")
        self.assertIn(result.code, (0, 64), result)


if __name__ == "__main__":
    kit.main()
