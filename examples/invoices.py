#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hold a lock during some steps of work, and stop if it is lost.

    invoices.py [URL [NAME]]        invoices.py redis://localhost invoices
"""
import pathlib
import sys

try:
    import holdfast
except ImportError:  # not installed: use the source tree
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bindings" / "python"))
    import holdfast


def send_invoices(hold):
    for batch in range(1, 4):
        hold.check()  # raises if the lock was lost; no round trip
        print(f"batch {batch}, under token {hold.fence}")


def main():
    url = sys.argv[1] if len(sys.argv) > 1 else "memory:"
    name = sys.argv[2] if len(sys.argv) > 2 else "invoices"
    try:
        with holdfast.Client(url) as client:
            with client.acquire(name, timeout=5) as hold:
                send_invoices(hold)
    except holdfast.HoldfastError as error:
        sys.exit(f"invoices: {error} ({type(error).__name__})")


main()
