"""Runs random apps in small budgets: `python tests/property/tight_run.py --cases 1000 --framework autogen`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path


if __name__ == "__main__":  # as a plain script, from any folder
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.property import random_run, tight_cases
from tests.property.room_run import CASES


def main(arguments: Sequence[str] | None = None) -> int:
    judged = "Judge random apps in small budgets: nothing goes out over them but what is told."
    return random_run.main(judged, CASES, arguments, tight_cases.run)


if __name__ == "__main__":
    sys.exit(main())
