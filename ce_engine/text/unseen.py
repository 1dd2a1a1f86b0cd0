"""Signs that nobody sees: what a quote leaves out, and what the redactor and the reader of placeholders see through."""

from __future__ import annotations


CONTROLS = "\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\ufff0-\ufffb"
"""Control signs, those of terminals too; as part of a class of `re`, as the others are."""

WITHOUT_WIDTH = (
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0"  # no width, or another direction
    "\U000e0000-\U000e0fff"  # tags, and variants that can carry any text
)

JOINERS = "\u200c\u200d\ufe00-\ufe0f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
"""They have their place in scripts, emoji, shorthand and scores, where a quote keeps them."""

SIGNS = f"[{CONTROLS}{WITHOUT_WIDTH}{JOINERS}]"
"""One of all these, as a pattern."""

SEQUENCE = r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
"""What steers a terminal, as a pattern."""
