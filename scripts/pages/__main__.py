# SPDX-License-Identifier: Apache-2.0
"""Make manual pages and completions: pages OUT COMMAND [CONTACT VERSION]

Writes OUT/man/*.1, *.3, and OUT/completions. With a contact and the version of a Debian package,
the pages are compressed, and OUT/doc has the other files that such a package needs. The pages are
made from the help of COMMAND, which was just built, and from the header of the library.
"""
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

import api_pages  # noqa: E402
import command_pages  # noqa: E402
import completions  # noqa: E402
import debian  # noqa: E402
import header  # noqa: E402
import helptext  # noqa: E402


def write(directory: pathlib.Path, files: dict, compress: bool = False) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for old in directory.iterdir():
        old.unlink()
    suffix = ".gz" if compress else ""
    for name, text in files.items():
        path = directory / (name + suffix)
        if isinstance(text, bytes):
            path.write_bytes(text)
        elif text.startswith(api_pages.LINK):
            path.symlink_to(text[len(api_pages.LINK):] + suffix)
        elif compress:
            path.write_bytes(debian.compressed(text))
        else:
            path.write_text(text)


def main() -> None:
    out, command, *packed = sys.argv[1:]
    text = (ROOT / "include" / "holdfast.h").read_text()
    changes = (ROOT / "CHANGELOG.md").read_text()
    version = ".".join(re.findall(r"#define HF_VERSION_\w+ (\d+)", text))
    _, date, _ = debian.newest(changes)
    helps = helptext.read_all(command)
    directory = pathlib.Path(out)
    write(directory / "man", {
        **command_pages.make(helps, ROOT / "docs" / "man", date, version),
        **api_pages.make(header.parse(text), date, version)}, compress=bool(packed))
    write(directory / "completions", completions.make(helps))
    if packed:
        write(directory / "doc", debian.documents(changes, *packed))


main()
