# SPDX-License-Identifier: Apache-2.0
"""Print the abilities that $HOLDFAST_TEST_SERVER does not have, for $HOLDFAST_TEST_LACKS:

    probe_server.py STEPPED        the library of tests/faults/stepped.c

`tls`: it was built without TLS.
`preload`: it is linked statically, so a library that steps its clock cannot be loaded into it.
"""
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS / "cli"))
import kit  # noqa: E402

HOUR_S = 3600


def has_tls(directory):
    """Start it with TLS: some servers know the options, and fail only when they have to listen."""
    subprocess.run([TESTS / "tls" / "certificates", directory], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    log, port = directory / "log", kit.free_port()
    with open(log, "wb") as out:
        server = kit.start_server(
            [kit.SERVER, "--port", "0", "--tls-port", str(port), "--bind", "127.0.0.1",
             "--dir", str(directory), "--tls-cert-file", str(directory / "good.crt"),
             "--tls-key-file", str(directory / "good.key"),
             "--tls-ca-cert-file", str(directory / "ca.crt")],
            stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    ready = b"eady to accept connections"
    kit.until(lambda: server.poll() is not None or ready in log.read_bytes(),
              lambda: f"{kit.SERVER}: {log.read_text()[-2000:]}")
    ended = server.poll() is not None
    server.kill()
    server.wait()
    return not ended


def can_be_stepped(directory, stepped):
    step = directory / "step"
    step.write_bytes(struct.pack("=q", HOUR_S))
    os.environ |= {"LD_PRELOAD": stepped, "HOLDFAST_TEST_STEP": str(step)}
    redis = kit.Redis(directory)
    try:
        return int(redis.command("TIME")[0]) > time.time() + HOUR_S / 2
    finally:
        redis.stop()


def main(stepped):
    # In /tmp, because the path of a socket must be short.
    with tempfile.TemporaryDirectory(prefix="hf-", dir="/tmp") as name:
        able = {"tls": has_tls(pathlib.Path(name)),
                "preload": can_be_stepped(pathlib.Path(name), stepped)}
    print(*(ability for ability in able if not able[ability]))


main(*sys.argv[1:])
