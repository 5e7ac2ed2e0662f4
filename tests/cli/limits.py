# SPDX-License-Identifier: Apache-2.0
"""cli-limits: out of descriptors or processes (exit code 71), at every possible point.

F45: the command fails or succeeds, is never half done, and nothing is held afterwards.
"""
import os
import random
import resource
import shutil

import kit
from kit import on


@on("file", "redis")
class Limits(kit.Case):
    def test_71_when_descriptors_run_out(self):
        """F45: with every limit the command fails or succeeds, and is never half done."""
        codes = self.codes_under(resource.RLIMIT_NOFILE, range(self.least_to_be_loaded(), 40))
        self.assertEqual({0, 71}, set(codes), codes)
        self.assertEqual(sorted(codes, reverse=True), codes, "more descriptors cause no failure")

    def test_71_when_processes_run_out(self):
        """F45: as a user that the limit applies to; the first process is the wrapper itself."""
        options = self.as_a_user_of_its_own()
        codes = self.codes_under(resource.RLIMIT_NPROC, range(1, 8), **options)
        self.assertIn(71, codes)
        self.assertEqual(0, codes[-1], codes)
        self.assertLessEqual(set(codes), {0, 71})

    def least_to_be_loaded(self):
        """The number of descriptors that the dynamic loader needs to start the command."""
        for limit in range(3, 40):
            result = self.hf("--version", preexec_fn=lambda n=limit: resource.setrlimit(
                resource.RLIMIT_NOFILE, (n, n)))
            if result.code == 0:
                return limit
        raise AssertionError(result)

    def codes_under(self, limit, values, **options):
        codes = []
        holdfast = options.pop("holdfast", None)
        for value in values:
            hard = resource.getrlimit(limit)[1]
            def lower(value=value, hard=hard):
                resource.setrlimit(limit, (value, hard))
            done = self.dir / "done" / str(value)
            done.parent.mkdir(exist_ok=True)
            done.parent.chmod(0o777)
            result = self.hf("run", "--", self.name, "touch", done, holdfast=holdfast,
                             preexec_fn=lower, **options)
            codes.append(result.code)
            self.assertEqual(result.code == 0, done.exists(), result)
            if result.code:
                self.assertSays(result)
            self.assertFree_as(options, holdfast)
        return codes

    def assertFree_as(self, options, holdfast):
        result = self.hf("run", "-n", self.name, "true", holdfast=holdfast, **options)
        self.assertCode(0, result)

    def as_a_user_of_its_own(self):
        """RLIMIT_NPROC does not apply to root: use an unused uid, and a binary it can reach."""
        if os.geteuid() != 0:
            return {}
        copy = self.dir / "holdfast"
        shutil.copy(kit.HOLDFAST, copy)
        copy.chmod(0o755)
        uid = random.randrange(100000, 1000000)
        locks = self.dir / "locks"
        locks.mkdir(mode=0o700)
        os.chown(locks, uid, uid)
        if self.kind == "file":
            self.env["HOLDFAST_URL"] = f"file://{locks}"
        return {"holdfast": str(copy), "user": uid, "group": uid, "extra_groups": []}


if __name__ == "__main__":
    kit.main()
