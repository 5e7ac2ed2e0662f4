# SPDX-License-Identifier: Apache-2.0
"""Run a program with the URL of a redis-server of its own as its last argument:

    with_redis.py PROGRAM [ARG]...
"""
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
import kit  # noqa: E402


def main():
    # In /tmp, because the path of a socket must be short.
    with tempfile.TemporaryDirectory(prefix="hf-", dir="/tmp") as directory:
        redis = kit.Redis(directory)
        try:
            return subprocess.run([*sys.argv[1:], redis.url]).returncode
        finally:
            redis.stop()


code = main()
sys.exit(code if code >= 0 else 128 - code)
