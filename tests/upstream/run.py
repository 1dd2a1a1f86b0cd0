"""Runs langchain-core's own tests, without us and with us in front of every model, and compares test by test.

`python tests/upstream/run.py --folder /tmp/upstream` takes some minutes and needs a package index.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import venv
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree as ET


ROOT = Path(__file__).resolve().parents[2]
CORE = "langchain-core"
MAY_DIFFER = {
    "test_benchmark_model": "asserts that 500 calls take less than a second",
}
"""Tests whose outcome may be another one with us, by name, and why."""
MAY_FAIL = {
    "BlockingError": "the test calls a sync method on an event loop, and forbids to wait there",
}
"""Faults of ours that the guard may keep from a test, by kind, and why."""
TESTS = ("tests/unit_tests",)
OPTIONS = (
    "-q",
    "-o",
    "junit_family=xunit1",  # which names the file
    "--tb=no",  # with tracebacks pytest itself fails on CPython 3.11 while it shows some
    "--disable-socket",
    "--allow-unix-socket",
    "-p",
    "no:cacheprovider",
)


def main() -> int:
    parser = argparse.ArgumentParser(description="LangChain's own tests, without us and with us.")
    parser.add_argument("--release", default=version(CORE), help=f"of {CORE}")
    parser.add_argument("--folder", type=Path, help="where to keep sources and environment")
    parser.add_argument("--jobs", default="2", help="how many processes")
    parser.add_argument("--timeout", type=int, default=900, help="seconds for each of the two runs")
    options = parser.parse_args()
    with TemporaryDirectory() as scratch:
        folder = (options.folder or Path(scratch)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        python = environment(folder)
        source = sources(folder, python, options.release)
        run = Run(folder, python, source, options.jobs, options.timeout)
        bare, ours = run.outcomes("bare"), run.outcomes("ours")
        notes = run.notes("ours")
        print(f"{CORE} {options.release}: {told(bare)} without us, {told(ours)} with us")
        again = [name for name in ours if ours[name] != bare.get(name)]
        if again:  # alone: some tests look at the clock, and fail on a busy machine
            print(f"{len(again)} differ, and run again one by one")
            run.jobs = "0"
            bare |= run.outcomes("bare-again", again)
            ours |= run.outcomes("ours-again", again)
    wrong = differences(bare, ours) + noted(notes)
    return 1 if wrong or "passed" not in bare.values() else 0


def environment(folder: Path) -> Path:
    """A virtual environment of its own: with `langchain` in it snapshots of core would differ."""
    if not (folder / "venv").exists():
        venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    pip(python, "install", "--upgrade", "pip>=25.1")
    return python


def sources(folder: Path, python: Path, release: str) -> Path:
    """The release's tests, from its source distribution, with what they need installed."""
    source = folder / f"{CORE.replace('-', '_')}-{release}"
    wanted = f"{CORE}=={release}"
    if not source.exists():
        pip(python, "download", "--no-deps", "--no-binary", CORE, wanted, "-d", str(folder))
        with tarfile.open(folder / f"{source.name}.tar.gz") as archive:
            archive.extractall(folder, filter="data")
    group = f"{source / 'pyproject.toml'}:test"
    pip(python, "install", "--group", group, wanted, str(ROOT), "pytest-xdist", "pytest-socket")
    return source


def pip(python: Path, *arguments: str) -> None:
    subprocess.run([python, "-m", "pip", "--quiet", *arguments], check=True)


@dataclass
class Run:
    """Runs tests of the release in their environment."""

    folder: Path
    python: Path
    source: Path
    jobs: str
    timeout: int

    def outcomes(self, name: str, tests: Sequence[str] = TESTS) -> dict[str, str]:
        """Run some tests, all if not told otherwise, with us if `name` says so; the outcome of each."""
        foreign = ("OPENAI_", "LANGSMITH_", "LANGCHAIN_", "PYTHONPATH", "CE_")
        env = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
        report = self.folder / f"{name}.xml"
        report.unlink(missing_ok=True)
        command = [str(self.python), "-m", "pytest", *tests, *OPTIONS, "-n", self.jobs]
        command.append(f"--junitxml={report}")
        if name.startswith("ours"):
            notes = self.folder / f"{name}.txt"
            notes.unlink(missing_ok=True)
            env |= {"CE_UPSTREAM_NOTES": str(notes), "PYTHONPATH": str(Path(__file__).parent)}
            command += ["-p", "plugin"]
        subprocess.run(command, cwd=self.source, env=env, timeout=self.timeout, check=False)
        return {node(case): outcome(case) for case in ET.parse(report).iter("testcase")}

    def notes(self, name: str) -> list[str]:
        """What the plugin noted in all processes of a run: each input, and each fault of ours."""
        return (self.folder / f"{name}.txt").read_text(encoding="utf-8").splitlines()


def node(case: ET.Element) -> str:
    """The test's name as pytest takes it."""
    file, owner = case.get("file", ""), case.get("classname", "")
    classes = owner.removeprefix(file.removesuffix(".py").replace("/", ".")).strip(".")
    return "::".join([file, *filter(None, classes.split(".")), case.get("name", "")])


def outcome(case: ET.Element) -> str:
    found = {child.tag for child in case} & {"failure", "error", "skipped"}
    return min(found) if found else "passed"


def told(found: dict[str, str]) -> str:
    kinds = sorted(set(found.values()))
    return ", ".join(f"{list(found.values()).count(kind)} {kind}" for kind in kinds)


def differences(bare: dict[str, str], ours: dict[str, str]) -> int:
    """Print what differs; how much of it may not."""
    wrong = 0
    for name in sorted({*bare, *ours}):
        before, after = bare.get(name, "not run"), ours.get(name, "not run")
        if before == after:
            continue
        short = name.rsplit("::", 1)[-1].split("[")[0]
        reason = MAY_DIFFER.get(short)
        wrong += reason is None
        print(f"{'DIFFERS' if reason is None else 'may differ'}: {name}: {before}, with us {after}")
        if reason is not None:
            print(f"    {reason}")
    return wrong


def noted(notes: list[str]) -> int:
    """Print what was changed and what failed; how much of it may not."""
    kinds = Counter(note.split()[0] for note in notes)
    print(f"{kinds['kept']} inputs of models kept, {kinds['changed']} changed")
    faults = [note for note in notes if note.split()[0] not in {"kept", "changed"}]
    for note in (*(note for note in notes if note.startswith("changed")), *faults):
        print(f"    {note}")
    for kind in kinds.keys() & MAY_FAIL.keys():
        print(f"    {kind} is no fault: {MAY_FAIL[kind]}")
    return sum(note.split()[0] not in MAY_FAIL for note in faults) + (not kinds["kept"])


if __name__ == "__main__":
    sys.exit(main())
