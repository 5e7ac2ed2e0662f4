# SPDX-License-Identifier: Apache-2.0
"""Converts text to the macros of man(7)."""
import re
import textwrap
from typing import Iterable, List

WRAP = textwrap.TextWrapper(width=78, break_long_words=False, break_on_hyphens=False)
TERM = re.compile(r"^(\S+(?:,? \S+)*?) {2,}(\S.*)$")
CONTINUED = 8  # this indent continues an item, even if its term is wider than the column of texts


def escape(text: str) -> str:
    """Escapes text; hyphens stay hyphens that can be copied."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    text = text.replace("~", "\\(ti").replace("^", "\\(ha")
    return re.sub(r"^\.", r"\\&.", text)


def marks(text: str) -> str:
    """Escaped, with `code` in bold and *words* in italics."""
    text = escape(text)
    text = re.sub(r"\\\(ga([^\s`][^`]*?)\\\(ga", r"\\fB\1\\fR", text)
    return re.sub(r"(?<![\w*])\*(\w[\w ]*)\*(?![\w*])", r"\\fI\1\\fR", text)


def paragraph(text: str) -> List[str]:
    """Begins every sentence on a new line, as usual in man pages."""
    sentences = re.sub(r"(?<=[a-z0-9)`][.:]) +(?=[A-Z])", "\n", " ".join(text.split())).split("\n")
    lines = [line for sentence in sentences for line in WRAP.wrap(marks(sentence))]
    return [re.sub(r"^\.", r"\\&.", line) for line in lines]


def literal(text: str) -> List[str]:
    lines = text.splitlines()
    indent = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
    return [".RS 4", ".EX", *(escape(line[indent:]) or "\\&" for line in lines), ".EE", ".RE"]


def tagged(term: str, text: str) -> List[str]:
    return [".TP", term, *paragraph(text)]


def title(name: str, section: int, date: str, version: str, manual: str) -> List[str]:
    return [f'.TH {name} {section} "{date}" "Holdfast {version}" "{manual}"']


def heading(text: str) -> List[str]:
    return [f".SH {escape(text)}"]


def document(text: str) -> List[str]:
    """Paragraphs at the margin, deeper text unchanged, and lists of `TERM  text`.

    A line with - at the margin is an item of a list.
    """
    out: List[str] = []
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        out += document_block(block, first=not out or out[-1].startswith(".SH"))
    return out


def document_block(block: str, first: bool) -> List[str]:
    lines = [line.rstrip() for line in block.splitlines() if line.strip()]
    if not lines:
        return []
    if lines[0].startswith("    "):
        return ([] if first else [".PP"]) + literal("\n".join(lines))
    if lines[0].startswith("# "):
        return heading(lines[0][2:].upper()) + document_block("\n".join(lines[1:]), True)
    if lines[0].startswith("- "):
        items = re.split(r"\n- ", "\n" + "\n".join(lines))[1:]
        return [line for item in items for line in [".IP \\(bu 3", *paragraph(item)]]
    return mixed(lines, first)


def mixed(lines: List[str], first: bool) -> List[str]:
    """A block in which text and a list of terms may follow each other without a blank line."""
    out: List[str] = []
    text: List[str] = []
    item: List[str] = []
    column = 0

    def flush() -> None:
        nonlocal text, item
        if item:
            out.extend(tagged(f"\\fB{escape(item[0])}\\fR", " ".join(item[1:])))
        if text:
            out.extend(([] if first and not out else [".PP"]) + paragraph(" ".join(text)))
        text, item = [], []

    for line in lines:
        match = TERM.match(line)
        indent = len(line) - len(line.lstrip())
        if match:
            flush()
            item, column = [match.group(1), match.group(2)], match.start(2)
        elif item and (indent == column or indent >= CONTINUED):
            item.append(line.strip())
        else:
            if item:
                flush()
            text.append(line.strip())
    flush()
    return out


def join(parts: Iterable[List[str]]) -> str:
    return "\n".join(line for part in parts for line in part) + "\n"
