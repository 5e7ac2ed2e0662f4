# SPDX-License-Identifier: Apache-2.0
"""What a Debian package needs: compressed pages, a changelog in its format, a copyright file."""
import datetime
import email.utils
import gzip
import re
from typing import Dict

COPYRIGHT = """Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: Holdfast

Files: *
Copyright: {year} {who}
License: Apache-2.0
 On Debian systems the whole of the Apache License, version 2.0, is in
 /usr/share/common-licenses/Apache-2.0.
"""


def compressed(text: str) -> bytes:
    """The same bytes at every build."""
    return gzip.compress(text.encode(), 9, mtime=0)


def documents(changes: str, contact: str, package_version: str) -> Dict[str, bytes]:
    """File name → contents, for /usr/share/doc/PACKAGE."""
    version, date, text = newest(changes)
    day = datetime.datetime.fromisoformat(date + "T00:00:00+00:00")
    items = [" ".join(item.split()) for item in re.findall(r"^- (.*(?:\n  .*)*)", text, re.M)]
    entry = [f"holdfast ({package_version}) unstable; urgency=medium", ""]
    entry += [f"  * {folded(item)}" for item in items or [f"Version {version}."]]
    entry += ["", f" -- {contact}  {email.utils.format_datetime(day)}", ""]
    who = re.sub(r" *<.*", "", contact)
    return {"changelog.Debian.gz": compressed("\n".join(entry)),
            "copyright": COPYRIGHT.format(year=day.year, who=who).encode()}


def folded(item: str) -> str:
    words, lines = item.replace("`", "").split(), [""]
    for word in words:
        if len(lines[-1]) + len(word) > 70:
            lines.append("   ")
        lines[-1] += (" " if lines[-1] else "") + word
    return "\n".join(lines)


def newest(changes: str):
    """Version, date and text of the first chapter of CHANGELOG.md."""
    match = re.search(r"^## (\S+) \((\d{4}-\d{2}-\d{2})\)\n(.*?)(?=^## |\Z)", changes, re.M | re.S)
    if not match:
        raise SystemExit("CHANGELOG.md has no heading `## VERSION (YYYY-MM-DD)`")
    return match.groups()
