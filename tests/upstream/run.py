"""Runs frameworks' own tests, without us and with us in front of every model, and compares test by test.

`python tests/upstream/run.py --folder upstream` takes some minutes and needs a package index.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import venv
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree as ET

from frameworks import FRAMEWORKS, Framework


HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
OPTIONS = (
    "-q",
    "-o",
    "junit_family=xunit1",  # which names the file
    "--tb=no",  # with tracebacks pytest itself fails on CPython 3.11 while it shows some
    "--continue-on-collection-errors",
    "--disable-socket",
    "--allow-unix-socket",
    "-p",
    "no:cacheprovider",
)


def main() -> int:
    parser = argparse.ArgumentParser(description="Frameworks' own tests, without us and with us.")
    parser.add_argument("--framework", choices=FRAMEWORKS, nargs="+", default=[*FRAMEWORKS])
    parser.add_argument("--release", help="of the one framework; else the one that is installed")
    parser.add_argument(
        "--source",
        type=Path,
        help="a checkout that has the tests, in the place of what is published",
    )
    parser.add_argument("--tests", nargs="+", help="of these folders and files only")
    parser.add_argument("--folder", type=Path, help="where to keep sources and environments")
    parser.add_argument("--jobs", default="2", help="how many processes")
    parser.add_argument("--timeout", type=int, default=900, help="seconds for each of the two runs")
    options = parser.parse_args()
    if len(options.framework) > 1 and (options.release or options.source or options.tests):
        parser.error("--release, --source and --tests are of one --framework")
    wrong = 0
    with TemporaryDirectory() as scratch:
        for name in options.framework:
            folder = (options.folder or Path(scratch)).resolve() / name
            folder.mkdir(parents=True, exist_ok=True)
            wrong += compared(name, folder, options)
    return 1 if wrong else 0


def compared(name: str, folder: Path, options: argparse.Namespace) -> int:
    """Run one framework's tests; how much is wrong."""
    framework = FRAMEWORKS[name]
    release = options.release or version(next(iter(framework.tests)))
    python, found = environment(folder), sources(folder, framework, release)
    needs = [each.format(source=next(iter(found)), release=release) for each in framework.needs]
    pinned = [f"{each}=={release}" for each in framework.tests]
    ours = [f"{ROOT}[{name}]", "pytest-xdist", "pytest-socket"]
    pip(python, "install", *needs, *pinned, *ours)
    wrong, notes = 0, []
    if options.source:
        found = {options.source: options.tests or ["tests"]}
    for source, tests in found.items():
        run = Run(name, folder, python, source.resolve(), options.jobs, options.timeout)
        wrong += run.differences(options.tests or tests)
        notes += run.notes
    return wrong + noted(framework, notes)


def environment(folder: Path) -> Path:
    """A virtual environment of its own: with `langchain` in it snapshots of core would differ."""
    if not (folder / "venv").exists():
        venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    pip(python, "install", "--upgrade", "pip>=25.1")
    return python


def sources(folder: Path, framework: Framework, release: str) -> dict[Path, Sequence[str]]:
    """The folders of the release's source distributions, with the tests in each."""
    python, found = folder / "venv" / "bin" / "python", dict[Path, Sequence[str]]()
    for name, tests in framework.tests.items():
        source = folder / f"{name.replace('-', '_')}-{release}"
        if not source.exists():
            wanted = ("--no-binary", name, f"{name}=={release}")
            pip(python, "download", "--no-deps", *wanted, "-d", str(folder))
            with tarfile.open(folder / f"{source.name}.tar.gz") as archive:
                archive.extractall(folder, filter="data")
        found[source] = tests
    return found


def pip(python: Path, *arguments: str) -> None:
    subprocess.run([python, "-m", "pip", "--quiet", *arguments], check=True)


class Run:
    """Runs tests of one source in their environment, without us and with us."""

    def __init__(
        self, framework: str, folder: Path, python: Path, source: Path, jobs: str, timeout: int
    ) -> None:
        self.framework = framework
        self.folder = folder
        self.python = python
        self.source = source
        self.jobs = jobs
        self.timeout = timeout
        self.notes: list[str] = []
        """What the plugin noted in all processes: each input, and each fault of ours."""

    def differences(self, tests: Sequence[str]) -> int:
        """Run them and print what differs; how much of it may not."""
        bare, ours = self.outcomes("bare", tests), self.outcomes("ours", tests)
        print(f"{self.source.name}: {told(bare)} without us, {told(ours)} with us")
        again = [name for name in ours if ours[name] != bare.get(name)]
        if again:  # alone: some tests look at the clock, and fail on a busy machine
            print(f"{len(again)} differ, and run again one by one")
            jobs, self.jobs = self.jobs, "0"
            bare |= self.outcomes("bare-again", again)
            ours |= self.outcomes("ours-again", again)
            self.jobs = jobs
        wrong = differences(bare, ours, FRAMEWORKS[self.framework].may_differ)
        return wrong + ("passed" not in bare.values())

    def outcomes(self, name: str, tests: Sequence[str]) -> dict[str, str]:
        """Run tests, with us if `name` says so; the outcome of each."""
        foreign = ("OPENAI_", "LANGSMITH_", "LANGCHAIN_", "PYTHONPATH", "CE_")
        env = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
        report, notes = (self.folder / f"{name}.{kind}" for kind in ("xml", "txt"))
        report.unlink(missing_ok=True)
        notes.unlink(missing_ok=True)
        command = [str(self.python), "-m", "pytest", *tests, *OPTIONS, "-n", self.jobs]
        command.append(f"--junitxml={report}")
        env["PYTHONPATH"] = str(HERE / "standins")
        env["PYTEST_PLUGINS"] = FRAMEWORKS[self.framework].plugin
        if name.startswith("ours"):
            env["PYTHONPATH"] += f"{os.pathsep}{HERE}"
            env |= {"CE_UPSTREAM_NOTES": str(notes), "CE_UPSTREAM_FRAMEWORK": self.framework}
            command += ["-p", "plugin"]
        subprocess.run(command, cwd=self.source, env=env, timeout=self.timeout, check=False)
        if name == "ours":
            self.notes = notes.read_text(encoding="utf-8").splitlines()
        return {node(case): outcome(case) for case in ET.parse(report).iter("testcase")}


def node(case: ET.Element) -> str:
    """The test's name as pytest takes it."""
    file, owner = case.get("file", ""), case.get("classname", "")
    classes = owner.removeprefix(file.removesuffix(".py").replace("/", ".")).strip(".")
    return "::".join([file, *filter(None, classes.split(".")), case.get("name", "")])


def outcome(case: ET.Element) -> str:
    found = {child.tag for child in case} & {"failure", "error", "skipped"}
    return min(found) if found else "passed"


def short(name: str) -> str:
    """A test's name without its file, its parameters, and what pytest says of its stage."""
    return name.rsplit("::", 1)[-1].split("[", maxsplit=1)[0].partition(" ")[0]


def told(found: Mapping[str, str]) -> str:
    kinds = sorted(set(found.values()))
    return ", ".join(f"{list(found.values()).count(kind)} {kind}" for kind in kinds)


def differences(
    bare: Mapping[str, str], ours: Mapping[str, str], may_differ: Mapping[str, str]
) -> int:
    """Print what differs; how much of it may not."""
    wrong = 0
    for name in sorted({*bare, *ours}):
        before, after = bare.get(name, "not run"), ours.get(name, "not run")
        if before == after:
            continue
        reason = may_differ.get(short(name))
        wrong += reason is None
        print(f"{'DIFFERS' if reason is None else 'may differ'}: {name}: {before}, with us {after}")
        if reason is not None:
            print(f"    {reason}")
    return wrong


def noted(framework: Framework, notes: Sequence[str]) -> int:
    """Print what was changed and what failed; how much of it may not, or whether nothing was governed."""
    kinds = Counter(note.split()[0] for note in notes)
    print(
        f"{kinds['kept']} inputs of models kept, {kinds['changed']} changed; {kinds['heard']} spans"
    )
    wrong = int(not kinds[framework.proof])
    for note in notes:
        kind, _, test = note.partition(" ")
        if kind not in {"kept", "heard"}:
            reasons = framework.may_note
            reason = reasons.get(f"{kind} {short(test)}") or reasons.get(kind)
            wrong += reason is None
            print(f"    {note}: {reason or 'WRONG'}")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
