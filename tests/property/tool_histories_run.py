"""Sends many random tool histories through an adapter: `python tests/property/tool_histories_run.py --cases 10000 --seed 1`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path


if __name__ == "__main__":  # as a plain script, from any folder
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.property import random_run


CASES = {
    "autogen": "tests.property.tool_autogen",
    "haystack": "tests.property.tool_haystack",
    "crewai": "tests.property.tool_crewai",
    "langchain": "tests.property.tool_langchain",
    "llamaindex": "tests.property.tool_llamaindex",
    "semantic_kernel": "tests.property.tool_semantic_kernel",
}


def main(arguments: Sequence[str] | None = None) -> int:
    judged = "Judge random tool histories in random budgets by what reaches the model."
    return random_run.main(judged, CASES, arguments)


if __name__ == "__main__":
    sys.exit(main())
