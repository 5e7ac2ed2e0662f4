# SPDX-License-Identifier: Apache-2.0
"""Manual pages of the command and its subcommands, made from their help.

docs/man/PAGE.md, if it exists, adds sections that are too long for the help.
"""
import pathlib
import re
from typing import Dict, List, Tuple

import roff
from helptext import Block, Codes, Help, Literal, Option, Options, Paragraph, Terms, subcommands

MANUAL = "User Commands"


def make(helps: List[Help], extra: pathlib.Path, date: str, version: str) -> Dict[str, str]:
    """File name → text."""
    general = helps[0]
    about = {word: text for word, text in subcommands(general)}
    names = ["holdfast" if not h.name else f"holdfast-{h.name}" for h in helps]
    pages = {}
    for name, each in zip(names, helps):
        summary = about[each.name] if each.name else first_sentence(general)
        others = [other for other in names if other != name]
        pages[f"{name}.1"] = roff.join([
            roff.title(name.upper(), 1, date, version, MANUAL),
            [".SH NAME", f"{roff.escape(name)} \\- {roff.escape(summary)}"],
            synopsis(each), body(each), supplement(extra / f"{name}.md"), see_also(others)])
    return pages


def first_sentence(page: Help) -> str:
    text = next(block.text for block in page.blocks if isinstance(block, Paragraph)).split(". ")[0]
    return text[0].lower() + text[1:].rstrip(".")


def synopsis(page: Help) -> List[str]:
    out = [".SH SYNOPSIS"]
    for number, line in enumerate(page.usage):
        out += ([".br"] if number else []) + [usage(line)]
    return out


def usage(line: str) -> str:
    """Literal words are bold, placeholders are italic."""
    words = []
    for word in re.findall(r"[A-Z]+|[^A-Z]+", line):
        font = "I" if word.isupper() and len(word) > 1 else "B" if re.search(r"[a-z]|--",
                                                                             word) else "R"
        words.append(f"\\f{font}{roff.escape(word)}\\fR")
    return "".join(words)


def body(page: Help) -> List[str]:
    description, options, codes, examples = sort_blocks(page)
    out = [".SH DESCRIPTION", *render(description)]
    if options:
        out += [".SH OPTIONS", *render(options)]
    if codes:
        out += [".SH EXIT STATUS", *render(codes)]
    if examples:
        out += [".SH EXAMPLES", *render(examples)]
    return out


def sort_blocks(page: Help) -> Tuple[List[Block], List[Block], List[Block], List[Block]]:
    """Sorts blocks into sections. An indented block belongs to the text before it."""
    values = {o.value for o in page.options if o.value}
    description: List[Block] = []
    options: List[Block] = []
    codes: List[Block] = []
    examples: List[Block] = []
    current = description
    for block, after in zip(page.blocks, [*page.blocks[1:], None]):
        text = block.text if isinstance(block, Paragraph) else ""
        if isinstance(block, Options):
            current = options
        elif text.startswith("Exit codes:"):
            current = codes
            block = Paragraph(text.split(":", 1)[1].strip() or "The command exits with")
        elif text.startswith("Example"):
            current = examples
            block = Literal(text.split(": ", 1)[1])
        elif text.endswith(":") and isinstance(after, Options):
            current = options  # a heading for these options
        elif text:
            current = options if text.split()[0] in values else description
        current.append(block)
    return description, options, codes, examples


def render(blocks: List[Block]) -> List[str]:
    out: List[str] = []
    for block in blocks:
        if isinstance(block, Paragraph):
            out += ([".PP"] if out else []) + roff.paragraph(block.text)
        elif isinstance(block, Literal):
            out += ([".PP"] if out else []) + roff.literal(block.text)
        elif isinstance(block, Options):
            out += [line for o in block.items for line in option(o)]
        else:
            assert isinstance(block, (Terms, Codes))
            out += [line for term, text in block.items
                    for line in roff.tagged(f"\\fB{roff.escape(term)}\\fR", text)]
    return out


def option(each: Option) -> List[str]:
    blank = " " if each.takes_next else ""
    value = f"{blank}\\fI{roff.escape(each.value)}\\fR" if each.value else ""
    flags = ", ".join(f"\\fB{roff.escape(flag)}\\fR" for flag in each.flags)
    return roff.tagged(flags + value, each.text)


def supplement(path: pathlib.Path) -> List[str]:
    return roff.document(path.read_text()) if path.exists() else []


def see_also(others: List[str]) -> List[str]:
    links = [f".BR {roff.escape(other)} (1)," for other in sorted(others)] + [".BR holdfast (3)"]
    return [".SH SEE ALSO", *links]
