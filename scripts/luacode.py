# SPDX-License-Identifier: Apache-2.0
"""The instructions of a Lua script, without the names of its variables and its line numbers."""

import re
import subprocess
import tempfile


def instructions(text):
    """A listing by luac5.1 (of Debian's package lua5.1)."""
    with tempfile.NamedTemporaryFile() as compiled:
        subprocess.run(["luac5.1", "-s", "-o", compiled.name, "-"], input=text, check=True)
        listing = subprocess.run(["luac5.1", "-l", "-l", "-p", compiled.name], check=True,
                                 stdout=subprocess.PIPE).stdout.decode(errors="replace")
    listing = re.sub(r"<[^>\n]*>", "", listing)  # the line numbers of a function
    return re.sub(r"0x[0-9a-f]+", "", listing)
