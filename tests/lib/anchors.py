# SPDX-License-Identifier: Apache-2.0
"""Find the text that a planted bug replaces; white space may differ, as formatters change it."""

import re


def pattern(text):
    """A pattern of the same tokens with any white space between them."""
    tokens = re.findall(r"\w+|[^\w\s]", text)
    parts = []
    for token, after in zip(tokens, tokens[1:] + [""]):
        both_words = re.match(r"\w", token) and re.match(r"\w", after)
        parts.append(re.escape(token) + (r"\s+" if both_words else r"\s*" if after else ""))
    return "".join(parts)


def places(anchor, text):
    """Each occurrence in the text: a list of (begin, end)."""
    return [match.span() for match in re.finditer(pattern(anchor), text)]
