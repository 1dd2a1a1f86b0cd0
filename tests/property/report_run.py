"""Judges reports of random calls by hand: `python tests/property/report_run.py --cases 1100` makes some 10,000 calls."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path


if __name__ == "__main__":  # as a plain script, from any folder
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.property import random_run


CASES = {"by_hand": "tests.property.report_cases"}


def main(arguments: Sequence[str] | None = None) -> int:
    judged = "Judge reports: tokens, decisions and texts are those of the input that they are of."
    return random_run.main(judged, CASES, ["--framework", "by_hand", *(arguments or sys.argv[1:])])


if __name__ == "__main__":
    sys.exit(main())
