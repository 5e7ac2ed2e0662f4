# SPDX-License-Identifier: Apache-2.0
"""Manual pages of the library: holdfast(3), and one for each comment of the header."""
import re
from typing import Dict, List, Tuple

import roff
from header import Entry, Header, Section

MANUAL = "Library Functions"
RESULT = re.compile(r'^ +X\((HF_\w+), (\d+), "(.*)"\)', re.M)
LINK = "-> "  # in place of a text: a link to that file


def make(header: Header, date: str, version: str) -> Dict[str, str]:
    """File name → text. A name that shares its page with others is a link."""
    pages: Dict[str, str] = {}
    listed: List[Tuple[Section, List[Tuple[str, str]]]] = []
    for section in header.sections:
        in_section = []
        for entry in section.entries:
            names = page_names(entry, header)
            if not names:
                continue
            in_section.append((names[0], summary(entry, section)))
            pages[f"{names[0]}.3"] = page(entry, names, section, header, date, version)
            for alias in names[1:]:
                pages[f"{alias}.3"] = LINK + f"{names[0]}.3"
        if in_section:
            listed.append((section, in_section))
    pages["holdfast.3"] = overview(header, listed, date, version)
    return pages


def page_names(entry: Entry, header: Header) -> List[str]:
    """The name that a C programmer writes is first: hf_open, then hf_open_v."""
    names: List[str] = []
    for name in entry.functions:
        short = re.sub(r"_v$", "", name)
        names += [short, name] if name != short and short in header.inlines else [name]
    return names + entry.structs


def summary(entry: Entry, section: Section) -> str:
    """The first sentence or clause, or the title of the section."""
    text = " ".join(entry.comment.split("\n\n")[0].split())
    first = re.split(r"(?<=[a-z)`])[.:;] |[.:]$", text)[0].rstrip(".")
    first = re.sub(r"[`*]", "", first) or section.title
    return first if len(first) <= 110 else section.title


def page(entry: Entry, names: List[str], section: Section, header: Header, date: str,
         version: str) -> str:
    return roff.join([
        roff.title(names[0].upper(), 3, date, version, MANUAL),
        [".SH NAME", f"{', '.join(names)} \\- {roff.escape(lowered(summary(entry, section)))}"],
        synopsis(entry, names, header),
        [".SH DESCRIPTION", *(roff.document(entry.comment) or [roff.escape(section.title) + "."])],
        context(entry, section),
        see_also(entry, names, section, header)])


def see_also(entry: Entry, names: List[str], section: Section, header: Header) -> List[str]:
    """Pages that this one mentions, and pages of the same section."""
    first = {other: page_names(each, header)[0] for part in header.sections for each in part.entries
             for other in page_names(each, header)}
    named = [first[word] for word in re.findall(r"\bhf_\w+", entry.comment + entry.code)
             if word in first]
    siblings = [page_names(other, header)[0] for other in section.entries
                if page_names(other, header)]
    others = sorted({*named, *siblings} - set(names))
    return [".SH SEE ALSO", *(f".BR {other} (3)," for other in others), ".BR holdfast (3)"]


def lowered(text: str) -> str:
    return text[0].lower() + text[1:] if re.match(r"[A-Z][a-z ]", text) else text


def synopsis(entry: Entry, names: List[str], header: Header) -> List[str]:
    wrappers = [header.inlines[name] for name in names if name in header.inlines]
    code = re.sub(r"\bHF_(API|MUST_USE) ", "", entry.code)
    code = re.sub(r"\n +(?=\S)", "\n    ", code) if entry.functions else code
    lines = "\n".join(["#include <holdfast.h>", "", *map(folded, wrappers), code])
    return [".SH SYNOPSIS", ".nf", *(roff.escape(line) or ".sp" for line in lines.splitlines()),
            ".fi"]


def folded(declaration: str) -> str:
    """A declaration, folded into lines that fit."""
    out, line = [], ""
    for part in re.split(r"(?<=,) ", declaration):
        if len(line) + len(part) > 76:
            out.append(line)
            line = "    "
        line += (" " if line.strip() else "") + part
    return "\n".join(out + [line])


def context(entry: Entry, section: Section) -> List[str]:
    """The comments about the section as a whole, which have no code."""
    texts = [other.comment for other in section.entries if not other.code and other is not entry]
    if not texts:
        return []
    return [f".SH {roff.escape(section.title.upper())}", *roff.document("\n\n".join(texts))]


def overview(header: Header, listed: List[Tuple[Section, List[Tuple[str, str]]]], date: str,
             version: str) -> str:
    first, _, rest = header.introduction.partition("\n")
    what = first.split(":", 1)[1].strip().rstrip(".")
    example, _, chapters = rest.strip("\n").partition("\n\nTHE MODEL")
    chapters = re.sub(r"^([A-Z][A-Z, ]+)$", r"# \1", "THE MODEL" + chapters, flags=re.M)
    return roff.join([
        roff.title("HOLDFAST", 3, date, version, MANUAL),
        [".SH NAME", f"holdfast \\- {roff.escape(what)}"],
        [".SH SYNOPSIS", ".nf", "#include <holdfast.h>", ".sp",
         *map(roff.escape, re.sub(r"^    ", "", example, flags=re.M).splitlines()), ".fi"],
        [".SH DESCRIPTION", "Link with \\fB\\-lholdfast\\fR:", ".PP", ".nf",
         roff.escape("    cc -std=c11 app.c $(pkg-config --cflags --libs holdfast) -o app"), ".fi",
         ".PP",
         "If installed from a package, /usr/share/doc/libholdfast\\-dev has the pages called",
         "docs/NAME.md, and examples."],
        roff.document(chapters), index(listed), constants(header),
        [".SH SEE ALSO", ".BR holdfast (1)"]])


def index(listed: List[Tuple[Section, List[Tuple[str, str]]]]) -> List[str]:
    out = [".SH FUNCTIONS AND STRUCTS"]
    for section, names in listed:
        out.append(f".SS {roff.escape(re.sub(r' [(].*', '', section.title))}")
        for name, text in names:
            out += [".TP", f".BR {name} (3)", roff.marks(text)]
    return out


def constants(header: Header) -> List[str]:
    out = [".SH TYPES AND CONSTANTS"]
    for section in header.sections:
        for entry in section.entries:
            if entry.functions or entry.structs or not entry.code:
                continue
            results = RESULT.findall(entry.code)
            for part in (roff.document(entry.comment), [] if results else roff.literal(entry.code)):
                out += ([".PP"] if len(out) > 1 and part else []) + part
            for name, number, text in results:
                out += roff.tagged(f"\\fB{name}\\fR ({number})", text)
    return out
