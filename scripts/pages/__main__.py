"""Make manual pages and completions: pages OUT COMMAND

OUT/man/*.1, *.3, and OUT/completions. COMMAND is the command that was built: its help is what they are made
of, and the header for those of the library.
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
import header  # noqa: E402
import helptext  # noqa: E402


def release() -> str:
    """The day of the newest version, as CHANGELOG.md has it."""
    match = re.search(r"^## \S+ \((\d{4}-\d{2}-\d{2})\)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    if not match:
        raise SystemExit("CHANGELOG.md begins with no `## VERSION (YYYY-MM-DD)`")
    return match.group(1)


def write(directory: pathlib.Path, files: dict) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for old in directory.iterdir():
        old.unlink()
    for name, text in files.items():
        if text.startswith(api_pages.LINK):
            (directory / name).symlink_to(text[len(api_pages.LINK):])
        else:
            (directory / name).write_text(text)


def main() -> None:
    out, command = pathlib.Path(sys.argv[1]), sys.argv[2]
    text = (ROOT / "include" / "holdfast.h").read_text()
    version = ".".join(re.findall(r"#define HF_VERSION_\w+ (\d+)", text))
    helps = helptext.read_all(command)
    write(out / "man", {
        **command_pages.make(helps, ROOT / "docs" / "man", release(), version),
        **api_pages.make(header.parse(text), release(), version)})
    write(out / "completions", completions.make(helps))


main()
