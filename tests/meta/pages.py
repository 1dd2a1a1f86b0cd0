"""The code blocks of the project's pages."""

from __future__ import annotations

import re
from pathlib import Path


ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: str, language: str) -> list[str]:
    """Give the fenced blocks of a page, each moved to its line, so that a traceback points there."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [
        "\n" * text.count("\n", 0, found.start(2)) + found.group(2)
        for found in BLOCK.finditer(text)
        if found.group(1) == language
    ]
