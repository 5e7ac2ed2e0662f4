# SPDX-License-Identifier: Apache-2.0
"""Parses the output of `holdfast help`: usage, paragraphs, options, terms.

The help text is the only source about the options of the command; manual pages and completions are
made from it. It has a simple shape:

    Usage: …            the first lines
    paragraphs          at the margin
      -s, --long VALUE  text, in a column or on the next lines
      TERM   text       at least two spaces between
       1  text          exit codes, one or two per line
"""
import re
import subprocess
from dataclasses import dataclass, field
from typing import List, Optional, Tuple, Union

FLAG = r"-[A-Za-z0-9]|--[a-z][a-z0-9-]*"
VALUE = r"\[=[^\]\s]+\]|[ =](?:\S+ )*?\S+"
OPTION = re.compile(rf"^ {{2,6}}((?:{FLAG})(?:, (?:{FLAG}))*)({VALUE})?(?: {{2,}}(\S.*))?$")
TERM = re.compile(r"^ {2,}(\S+(?: \S+)*) {2,}(\S.*)$")
CODE = re.compile(r"(?<!\S)(\d{1,3})  (\S(?:.*?))(?= {2,}\d{1,3}  |$)")
OPTION_INDENT = 6  # at most; continuation lines are further right
WELL_KNOWN = {"--help": "show the help", "--version": "show the version"}
ALIAS = re.compile(r"\balso (--[a-z][a-z0-9-]*)")


@dataclass
class Option:
    flags: List[str]
    value: Optional[str]
    text: str

    @property
    def takes_next(self) -> bool:
        """True if the value may be the next word; not for an optional value."""
        return bool(self.value and not self.value.startswith("["))

    @property
    def aliases(self) -> List[str]:
        """Other names in its text: `also --timeout`."""
        return ALIAS.findall(self.text)


@dataclass
class Paragraph:
    text: str


@dataclass
class Literal:
    text: str


@dataclass
class Terms:
    items: List[Tuple[str, str]]


@dataclass
class Options:
    items: List[Option]


@dataclass
class Codes:
    items: List[Tuple[str, str]]


Block = Union[Paragraph, Literal, Terms, Options, Codes]


@dataclass
class Help:
    name: str  # "" is the command itself
    usage: List[str] = field(default_factory=list)
    blocks: List[Block] = field(default_factory=list)
    text: str = ""  # unchanged

    @property
    def options(self) -> List[Option]:
        return [o for block in self.blocks if isinstance(block, Options) for o in block.items]


def run_help(command: str, *words: str) -> str:
    ended = subprocess.run([command, *words], capture_output=True, text=True)
    if ended.returncode != 0:
        raise SystemExit(f"`{command} {' '.join(words)}` fails: {ended.stderr}")
    return ended.stdout


def read_all(command: str) -> List[Help]:
    """The help of the command, then of each subcommand it lists."""
    general = parse("", run_help(command, "help"))
    return [general] + [parse(word, run_help(command, "help", word))
                        for word, _ in subcommands(general) if word != "help"]


def subcommands(general: Help) -> List[Tuple[str, str]]:
    """The first list of terms in the general help."""
    for block in general.blocks:
        if isinstance(block, Terms):
            return block.items
    raise SystemExit("the help lists no subcommands")


def parse(name: str, text: str) -> Help:
    usage, *rest = re.split(r"\n\n+", text.rstrip("\n"))
    lines = [re.sub(r"^(Usage:)? *", "", line) for line in usage.splitlines()]
    return Help(name, lines, [parse_block(block) for block in rest], text)


def parse_block(block: str) -> Block:
    lines = block.splitlines()
    if not lines[0].startswith("  "):
        return parse_paragraph(block)
    if all(is_option(line) or indent(line) > OPTION_INDENT
           for line in lines) and is_option(lines[0]):
        return Options(parse_options(lines))
    if re.match(r"^ +\d{1,3}  ", lines[0]):
        pairs = [pair for line in lines for pair in CODE.findall(line)]
        return Codes(sorted(pairs, key=lambda pair: int(pair[0])))
    if TERM.match(lines[0]):
        return Terms(parse_terms(lines))
    return Literal(block)


def parse_paragraph(block: str) -> Block:
    """Text in columns is kept unchanged."""
    if re.search(r"\S {2,}\S", block.replace(".  ", ". ")):
        return Literal(block)
    return Paragraph(" ".join(line.strip() for line in block.splitlines()))


def indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def is_option(line: str) -> bool:
    match = OPTION.match(line)
    return bool(match and "," not in (match.group(2) or ""))


def parse_options(lines: List[str]) -> List[Option]:
    options: List[Option] = []
    for line in lines:
        match = OPTION.match(line) if is_option(line) else None
        if match:
            flags, value, text = match.groups()
            options.append(Option(flags.split(", "), (value or "").strip(" =") or None, text or ""))
        else:
            options[-1].text = f"{options[-1].text} {line.strip()}".strip()
    return [each for option in options for each in explained(option)]


def explained(option: Option) -> List[Option]:
    """`--help, --version` without a text are two options."""
    if option.text:
        return [option]
    return [Option([flag], option.value, WELL_KNOWN[flag]) for flag in option.flags]


def parse_terms(lines: List[str]) -> List[Tuple[str, str]]:
    items: List[Tuple[str, str]] = []
    for line in lines:
        match = TERM.match(line)
        if match and indent(line) == indent(lines[0]):
            items.append((match.group(1), match.group(2)))
        else:
            items[-1] = (items[-1][0], f"{items[-1][1]} {line.strip()}")
    return items
