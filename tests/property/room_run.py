"""Runs random apps bare and with us: `python tests/property/room_run.py --cases 1000 --framework autogen`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path


if __name__ == "__main__":  # as a plain script, from any folder
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.property import random_run


CASES = {
    "autogen": "tests.property.room_autogen",
    "crewai": "tests.property.room_crewai",
    "haystack": "tests.property.room_haystack",
    "langchain": "tests.property.room_langchain",
    "llamaindex": "tests.property.room_llamaindex",
    "semantic_kernel": "tests.property.room_semantic_kernel",
}


def main(arguments: Sequence[str] | None = None) -> int:
    judged = "Judge random apps with room to spare: with us they send the same bytes as without."
    return random_run.main(judged, CASES, arguments)


if __name__ == "__main__":
    sys.exit(main())
