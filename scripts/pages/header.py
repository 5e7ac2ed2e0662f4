# SPDX-License-Identifier: Apache-2.0
"""Parses include/holdfast.h: introduction, sections, and the declarations under each comment.

The header is the manual. The pages are made from it, so the two cannot differ.
"""
import re
from dataclasses import dataclass, field
from typing import Dict, List

SECTION = re.compile(r"^/\* ---- (.*?) -+ \*/$")
FUNCTION = re.compile(r"\bHF_API\s+(?:HF_MUST_USE\s+)?[^;(]*?\b(hf_\w+)\(")
STRUCT = re.compile(r"^(?:typedef )?struct (hf_\w+) \{", re.M)
INLINE = re.compile(r"^static inline (?:HF_MUST_USE )?([^{]*?\b(hf_\w+)\([^{]*\)) \{", re.M)


@dataclass
class Entry:
    """A comment and the code below it."""

    comment: str
    code: str

    @property
    def functions(self) -> List[str]:
        return FUNCTION.findall(self.code)

    @property
    def structs(self) -> List[str]:
        return STRUCT.findall(self.code)


@dataclass
class Section:
    title: str
    entries: List[Entry] = field(default_factory=list)


@dataclass
class Header:
    introduction: str
    sections: List[Section]
    inlines: Dict[str, str]  # name → declaration


def plain(comment: str) -> str:
    """The text of a comment without its stars, with its indentation."""
    text = re.sub(r"^/\*+\s?|\s*\*/$", "", comment.strip())
    lines = [re.sub(r"^ \* ?|^ \*$|^   (?=\S)", "", line) for line in text.splitlines()]
    return "\n".join(lines).strip("\n")


def parse(text: str) -> Header:
    introduction = re.match(r"/\*.*?\*/", text, re.S)
    if not introduction:
        raise SystemExit("the header has no introduction")
    sections = [Section(match.group(1)) for match in map(SECTION.match, text.splitlines()) if match]
    parts = re.split(r"^/\* ---- .*? -+ \*/$", text, flags=re.M)[1:]
    for section, part in zip(sections, parts):
        section.entries = entries(part)
    inlines = {match.group(2): " ".join(match.group(1).split()) + ";"
               for match in INLINE.finditer(text)}
    return Header(plain(introduction.group(0)), sections, inlines)


def entries(part: str) -> List[Entry]:
    found = []
    # A comment at the margin, and the code up to the next one or the end.
    for match in re.finditer(r"^(/\*.*?\*/)\n(.*?)(?=^/\*|\Z)", part, re.M | re.S):
        found.append(Entry(plain(match.group(1)), declarations(match.group(2))))
    before = part[:part.find("\n/*")] if "\n/*" in part else part
    if before.strip():
        found.insert(0, Entry("", declarations(before)))
    return found


def declarations(code: str) -> str:
    """Without inline functions, code for the compiler, and blank lines."""
    code = re.split(r"^static inline|^#ifdef __cplusplus", code, maxsplit=1, flags=re.M)[0]
    return "\n".join(line for line in code.splitlines() if line.strip())
