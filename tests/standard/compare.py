"""Runs LangChain's standard tests on a bare model and on an installed one, and tells the differences.

    python tests/standard/compare.py

What counts, test by test: passed, failed, skipped or an expected failure; why; the warnings; the bytes
of every request; and that we recorded what an installed model was asked. Other arguments go to pytest.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any


HERE = Path(__file__).resolve().parent
Outcomes = dict[str, dict[str, Any]]


def run(into: Path, *options: str) -> None:
    command = ["-m", "pytest", "-c", "pytest.ini", f"--into={into}", "-q", *options, "."]
    subprocess.run([sys.executable, *command], cwd=HERE, check=False)


def differences(bare: Outcomes, installed: Outcomes) -> Iterator[str]:
    for test in sorted(bare.keys() | installed.keys()):
        if test not in bare or test not in installed:
            yield f"{test}: ran in one of two runs"
            continue
        before, after = dict(bare[test]), dict(installed[test])
        recorded = after.pop("recorded", 0)
        yield from (
            f"{test}: {key} is {after.get(key)!r}, bare {before.get(key)!r}"
            for key in sorted(before.keys() | after.keys())
            if before.get(key) != after.get(key)
        )
        if before.get("sent") and not recorded:
            yield f"{test}: sent {len(before['sent'])} requests, none was recorded"


def main(options: Sequence[str]) -> int:
    with TemporaryDirectory() as folder:
        into = Path(folder)
        run(into, "--snapshot-update", *options)
        run(into, "--installed", *options)
        bare, installed = (
            json.loads((into / f"{name}.json").read_text("utf-8")) for name in ("bare", "installed")
        )
    found = list(differences(bare, installed))
    counts = Counter(each["outcome"] for each in installed.values())
    sent = sum(len(each.get("sent", ())) for each in installed.values())
    recorded = sum(each.get("recorded", 0) for each in installed.values())
    print(*found, sep="\n")
    print(f"{dict(counts)}; {sent} requests, {recorded} recorded; {len(found)} differences")
    return 1 if found or counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
