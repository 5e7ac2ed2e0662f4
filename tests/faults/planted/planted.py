#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants bugs and checks that the tests find them.

    planted.py --source TREE --work FOLDER [--generator Ninja] [PATTERN]
    planted.py --source TREE --anchors

The library's sources are copied to FOLDER. There, one piece of text at a time is replaced (see
mutations.py). The test program of that bug is built again and run, and must fail. Before that, all
these tests must pass with nothing planted. Prints one line for each bug: caught, or MISSED.
FOLDER may be kept: the next run reuses its build.

With --anchors nothing is built: the text of each bug must still be in the sources, the names it
uses must occur there, and its test must exist.
"""

import argparse
import concurrent.futures
import fnmatch
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

sys.dont_write_bytecode = True  # write no files into the source tree
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))
import anchors  # noqa: E402
from mutations import MUTATIONS  # noqa: E402

IMPATIENT = dict(os.environ, HOLDFAST_TEST_PATIENCE="0")  # deadlines as they are written
RUN_SECONDS = 25  # a longer run has failed: each takes a few seconds at most
LEFT_OUT = {"src", "build", ".git", ".cache"}


def fail(text):
    sys.exit(f"planted: {text}")


def write_if_changed(path, text):
    """Does not touch an unchanged file, so that it is not compiled again."""
    if path.exists() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


class Tree:
    """A copy of the sources, with links to everything else, and its build folder."""

    def __init__(self, source, work, generator):
        self.source, self.tree, self.build = source, work / "tree", work / "build"
        self.runs = work / "runs"
        self.copy()
        shutil.rmtree(self.runs, ignore_errors=True)
        self.runs.mkdir(parents=True)
        if not (self.build / "CMakeCache.txt").exists():
            self.call("cmake", "-S", self.tree, "-B", self.build, "-G", generator,
                      "-DCMAKE_BUILD_TYPE=None", "-DHOLDFAST_BUILD_BENCH=OFF",
                      "-DHOLDFAST_BUILD_EXAMPLES=OFF", "-DHOLDFAST_INSTALL=OFF")

    def copy(self):
        self.tree.mkdir(parents=True, exist_ok=True)
        for old in self.tree.iterdir():
            if old.is_symlink():
                old.unlink()
        for entry in self.source.iterdir():
            if entry.name not in LEFT_OUT:
                (self.tree / entry.name).symlink_to(entry)
        files = [p for p in (self.source / "src").rglob("*") if p.is_file()]
        wanted = {p.relative_to(self.source) for p in files}
        for path in wanted:
            write_if_changed(self.tree / path, (self.source / path).read_text())
        for path in list((self.tree / "src").rglob("*")):
            if path.is_file() and path.relative_to(self.tree) not in wanted:
                path.unlink()

    def call(self, *command):
        done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode:
            fail(f"{' '.join(str(c) for c in command)}\n{done.stdout}")

    def make(self, targets, copy_to):
        """Builds programs, and copies them to where the next build does not replace them."""
        self.call("cmake", "--build", self.build, "--target", *targets)
        made = {}
        for target in targets:
            found = [p for p in self.build.rglob(target) if p.is_file() and os.access(p, os.X_OK)]
            if len(found) != 1:
                fail(f"no program {target} in {self.build}")
            made[target] = self.runs / f"{copy_to}-{target}"
            shutil.copy2(found[0], made[target])
        return made

    def plant(self, mutation):
        text = text_of(self.source, mutation)
        (begin, end), = anchors.places(mutation.old, text)
        (self.tree / "src" / mutation.file).write_text(text[:begin] + mutation.new + text[end:])

    def restore(self, mutation):
        (self.tree / "src" / mutation.file).write_text(text_of(self.source, mutation))


def text_of(source, mutation):
    path = source / "src" / mutation.file
    return path.read_text() if path.exists() else ""


def check_texts(source, mutations):
    """Each text of mutations.py must occur exactly once in its source file."""
    counts = [(m, len(anchors.places(m.old, text_of(source, m)))) for m in mutations]
    bad = [f"{m.name}: {n} times in src/{m.file}:\n{m.old}" for m, n in counts if n != 1]
    if bad:
        fail("these texts of mutations.py do not occur exactly once; adapt them to the sources:\n"
             + "\n".join(bad))


def code_words(text):
    """Names that a rename may change: those in lower case, outside of comments and strings."""
    return set(re.findall(r"\b[a-z_]\w*", re.sub(r'/\*.*?\*/|"[^"]*"', "", text, flags=re.S)))


def check_names(source, mutations):
    """A planted text with a name that the sources no longer have would not compile."""
    paths = [path for path in (source / "src").rglob("*") if path.suffix in {".c", ".h", ".lua"}]
    known = {word for path in paths for word in code_words(path.read_text())}
    bad = [f"{m.name}: {' '.join(sorted(code_words(m.new) - known))}" for m in mutations
           if code_words(m.new) - known]
    if bad:
        fail("these bugs use names that src/ does not have:\n" + "\n".join(bad))


def check_tests(source, mutations):
    """Each bug's test must exist. Otherwise it would be reported only after a long build."""
    tests = source / "tests"
    words = {word for path in tests.rglob("*.c") for word in re.findall(r"\w+", path.read_text())}
    patterns = {m.run[-1] for m in mutations if len(m.run) > 1}
    missing = {p for p in patterns if not fnmatch.filter(words, p)}
    bad = [f"{m.name}: {' '.join(m.run)}" for m in mutations if m.run[-1] in missing]
    if bad:
        fail("the tests of these bugs do not exist:\n" + "\n".join(bad))


def run(program, arguments, in_time):
    """Returns how many tests passed, or None if the program failed or hung; and its output."""
    process = subprocess.Popen([program, *arguments], env=IMPATIENT if in_time else None,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               errors="replace", start_new_session=True)
    try:
        output, _ = process.communicate(timeout=RUN_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return None, process.communicate()[0]
    passed = re.search(r"\[  PASSED  \] (\d+) test", output)
    return (int(passed[1]) if passed and process.returncode == 0 else None), output


def check_unplanted(tree, pool, mutations):
    """A test that fails without a bug, or does not exist, proves nothing."""
    made = tree.make(sorted({m.run[0] for m in mutations}), "unplanted")
    wanted = sorted({(m.run, m.in_time) for m in mutations})
    runs = [(r, pool.submit(run, made[r[0]], r[1:], in_time)) for r, in_time in wanted]
    bad = [" ".join(r) + "\n" + f.result()[1] for r, f in runs if not f.result()[0]]
    if bad:
        fail("these tests fail with nothing planted:\n" + "\n".join(bad))


def report(mutation, result):
    caught = result.result()[0] is None
    print(f"{'caught' if caught else 'MISSED'}: {mutation.name} ({' '.join(mutation.run)})",
          flush=True)
    return caught


def plant_each(tree, pool, mutations):
    """Builds the next program while the last one runs. Returns how many bugs were not caught."""
    running, broken = [], 0
    for number, mutation in enumerate(mutations):
        tree.plant(mutation)
        try:
            program = tree.make([mutation.run[0]], str(number))[mutation.run[0]]
        except SystemExit as error:
            print(f"MISSED: {mutation.name} does not compile\n{error}", flush=True)
            broken += 1
            continue
        finally:
            tree.restore(mutation)
        running.append((mutation, pool.submit(run, program, mutation.run[1:], mutation.in_time)))
    return broken + sum(not report(*each) for each in running)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path)
    parser.add_argument("--anchors", action="store_true")
    parser.add_argument("--generator", default="Ninja")
    parser.add_argument("pattern", nargs="?", default="*", help="pattern of names of bugs")
    options = parser.parse_args()
    mutations = [m for m in MUTATIONS if fnmatch.fnmatch(m.name, options.pattern)]
    if not mutations:
        fail(f"no bug is named like `{options.pattern}`")
    check_texts(options.source, mutations)
    check_names(options.source, mutations)
    check_tests(options.source, mutations)
    if options.anchors:
        return
    if not options.work:
        parser.error("--work is required, as the folder to build in")
    tree = Tree(options.source.resolve(), options.work.resolve(), options.generator)
    with concurrent.futures.ThreadPoolExecutor(max_workers=4) as pool:
        check_unplanted(tree, pool, mutations)
        missed = plant_each(tree, pool, mutations)
    print(f"{len(mutations) - missed} of {len(mutations)} caught")
    sys.exit(1 if missed else 0)


main()
