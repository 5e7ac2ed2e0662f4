# SPDX-License-Identifier: Apache-2.0
"""Help texts of every shape that pages and completions are made from."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts" / "pages"))

import command_pages  # noqa: E402
import completions  # noqa: E402
import helptext  # noqa: E402
import roff  # noqa: E402

GENERAL = """Usage: holdfast walk [OPTION]... NAME
       holdfast look [OPTION]...

Do one thing or another. And more.

  walk     walk to NAME
  look     look around
  help     explain a subcommand: holdfast help walk

  --help, --version

Stores: file:  redis://HOST
        memory: (for trying out)
"""

WALK = """Usage: holdfast walk [OPTION]... NAME [--] COMMAND [ARG]...

Walk to NAME.

Pace:

  -s, --steps N       so many steps; 1 to
                      10: no more
      --on-fall SIGNAL|continue
                      what then; also --fall
      --json[=FD]     events
  -4, --ipv4          no other way

Other options:

  -o FILE, --output=FILE
  -q, --quiet         say nothing

N is a number. It counts.

COMMAND finds

  PLACE    where it is,
           more or less

Exit codes:

   0  there                        74  lost
   1  not there
"""

LOOK = """Usage: holdfast look [OPTION]...

Look around.

      --help          show this
"""


class Parser(unittest.TestCase):
    def setUp(self):
        self.general = helptext.parse("", GENERAL)
        self.walk = helptext.parse("walk", WALK)
        self.look = helptext.parse("look", LOOK)
        self.helps = [self.general, self.walk, self.look]

    def test_subcommands(self):
        self.assertEqual(["walk", "look", "help"],
                         [w for w, _ in helptext.subcommands(self.general)])
        self.assertEqual([["--help"], ["--version"]], [o.flags for o in self.general.options])

    def test_options(self):
        found = [(o.flags, o.value, o.text) for o in self.walk.options]
        self.assertEqual([
            (["-s", "--steps"], "N", "so many steps; 1 to 10: no more"),
            (["--on-fall"], "SIGNAL|continue", "what then; also --fall"),
            (["--json"], "[=FD]", "events"),
            (["-4", "--ipv4"], None, "no other way")], found[:4])
        self.assertEqual(["--fall"], self.walk.options[1].aliases)

    def test_text_that_is_not_an_option_list_stays_unchanged(self):
        literal = [b for b in self.walk.blocks if isinstance(b, helptext.Literal)]
        self.assertEqual(1, len(literal))
        self.assertIn("-o FILE", literal[0].text)

    def test_codes_and_terms(self):
        codes = next(b for b in self.walk.blocks if isinstance(b, helptext.Codes))
        self.assertEqual([("0", "there"), ("1", "not there"), ("74", "lost")], codes.items)
        terms = next(b for b in self.walk.blocks if isinstance(b, helptext.Terms))
        self.assertEqual([("PLACE", "where it is, more or less")], terms.items)

    def test_pages(self):
        pages = command_pages.make(self.helps, pathlib.Path("/nowhere"), "2026-01-01", "9.9.9")
        self.assertEqual({"holdfast.1", "holdfast-walk.1", "holdfast-look.1"}, set(pages))
        self.assertIn("holdfast \\- do one thing or another\n", pages["holdfast.1"])
        walk = pages["holdfast-walk.1"]
        sections = {part.split("\n")[0]: part for part in walk.split(".SH ")[1:]}
        self.assertIn("Pace:", sections["OPTIONS"])
        self.assertIn("N is a number.", sections["OPTIONS"])
        self.assertIn("PLACE", sections["DESCRIPTION"])
        self.assertIn("\\fB74\\fR", sections["EXIT STATUS"])
        self.assertNotIn("EXIT STATUS", pages["holdfast-look.1"])

    def test_an_item_with_a_long_term_keeps_its_text(self):
        made = roff.document("A    one\n     two\nA_LONG_TERM, ANOTHER  three\n"
                             "                     four\nfive")
        self.assertEqual([".TP", "\\fBA\\fR", "one two", ".TP", "\\fBA_LONG_TERM, ANOTHER\\fR",
                          "three four", ".PP", "five"], made)
        made = roff.document("HF_OK     one\nHF_A, HF_B, HF_C  two\n          three\nfour")
        self.assertEqual(["two three", ".PP", "four"], made[-3:])

    def test_completions(self):
        made = completions.make(self.helps)
        self.assertEqual(["file:", "memory:", "redis://"], completions.stores(self.general))
        self.assertIn("taking='-s --steps --on-fall --fall'", made["holdfast"])
        self.assertIn("lock name", made["_holdfast"].split("    look)")[0])
        self.assertNotIn("lock name", made["_holdfast"].split("    look)")[1])
        self.assertIn(" -s 4 -l ipv4 -d 'no other way'", made["holdfast.fish"])


if __name__ == "__main__":
    unittest.main()
