"""Forked and spawned workers, notebooks, many event loops: `python tests/faults/workers_run.py --help`."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ce_engine import Scope, create_context_engine, open_store


ROOT = Path(__file__).parents[2]
APP = Path(__file__).with_name("worker_apps.py")
APPS = ("prefork", "spawn", "notebook", "loops", "locks")
WAYS = ("by hand", "LangChain")
WATCHDOG_S = 100.0
"""A process that takes longer hangs."""

UNNAMED = ("run-", "nobody's")
"""Beginnings of ids of sessions that no app names."""

FOREIGN_LOOP = ("different loop", "different event loop", "Event loop is closed")


@dataclass
class Result:
    """What an app asked, what of it was compared with the store, and what was wrong."""

    wrong: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=10, help="each app on each way")
    parser.add_argument("--workers", type=int, default=4, help="processes, threads or tasks")
    parser.add_argument("--calls", type=int, default=10, help="of each of them, in each session")
    parser.add_argument("--only", choices=APPS, help="one app")
    options = parser.parse_args(arguments)
    failed = 0
    for app in [options.only] if options.only else APPS:
        for way in WAYS:
            counts: Counter[str] = Counter()
            for _ in range(options.times):
                result = run([(app, way)], options.workers, options.calls)
                counts += result.counts
                failed += len(result.wrong)
                for each in result.wrong:
                    print(f"FAILED {app}, {way}: {each}", flush=True)
            told = ", ".join(f"{count} {name}" for name, count in counts.items())
            print(f"{app}, {way}: {options.times} times, {told}", flush=True)
    print(f"{failed} failed")
    return 1 if failed else 0


def run(apps: Sequence[tuple[str, str]], workers: int, calls: int) -> Result:
    """Run (app, way) in a process of their own, and compare what they were answered with what is stored."""
    result = Result()
    with tempfile.TemporaryDirectory() as folder:
        # Python 3.12 warns of forks while threads run: that is what is tried here.
        command = [sys.executable, "-W", "ignore::DeprecationWarning", str(APP)]
        command += [str(workers), str(calls)]
        folders = [Path(folder, str(n)) for n in range(len(apps))]
        for (app, way), each in zip(apps, folders, strict=True):
            each.mkdir()
            command += [app, way, str(each)]
        result.wrong += _ended(command)
        for each in folders:
            _compare(each, result)
    return result


def _ended(command: Sequence[str]) -> Iterator[str]:
    """Run a process; what is wrong with its end and with what it said."""
    environment = {**os.environ, "CE_GUARD": "raise"}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=WATCHDOG_S,
            check=False,
            env=environment,
        )
    except subprocess.TimeoutExpired as error:
        yield f"it hung: {str(error.stderr)[-300:]}"
        return
    if done.returncode:
        yield f"it ended with {done.returncode}: {done.stderr[-600:]}"
    yield from (f"it said {each!r}" for each in FOREIGN_LOOP if each in done.stderr)


def _compare(folder: Path, result: Result) -> None:
    lines = [
        json.loads(line)
        for path in sorted(folder.glob("told-*.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    sessions: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        sessions[line["session"]].append(line)
    engine = create_context_engine(open_store(f"sqlite:///{folder}/ce.db"))
    try:
        rows = engine.loop.run(engine.store.list_sessions(user_id=None, ephemeral=True))
        for row in rows:
            if row.session_id not in sessions and not row.session_id.startswith(UNNAMED):
                result.wrong.append(f"a session {row.session_id!r} of which nobody told")
        for session, told in sessions.items():
            scope = Scope(session_id=session)
            found = engine.loop.run(engine.store.get_session(scope))
            texts = [message.content for message in found.session.messages] if found else []
            result.wrong += [f"{session}: {wrong}" for wrong in _differing(texts, told)]
            if engine.sync.verify(scope).tampered_seq is not None:
                result.wrong.append(f"{session}: the chain does not verify")
            ran = len(found.session.tool_state.tool_calls) if found else 0
            if ran != sum(line.get("tools", 0) for line in told):
                result.wrong.append(f"{session}: {ran} runs of tools are stored")
            result.counts["sessions compared"] += 1
            result.counts["runs of tools"] += ran
        result.counts["turns answered"] += sum(bool(line.get("answer")) for line in lines)
        result.counts["turns left"] += sum(line.get("answer", "") is None for line in lines)
    finally:
        engine.sync.close()


def _differing(texts: list[str], told: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Each turn that was answered is stored once, the answer after its question; of the others at most once."""
    stored = Counter(texts)
    allowed: set[str] = set()
    for line in told:
        question, answer = line.get("question"), line.get("answer")
        if question is None:
            continue
        allowed |= {question, answer or f"answer to {question}"}
        if answer is None:
            if stored[question] > 1 or stored[f"answer to {question}"] > 1:
                yield f"{question!r} was left, and is stored {stored[question]} times"
        elif stored[question] != 1 or stored[answer] != 1:
            yield f"{question!r} is stored {stored[question]} times, its answer {stored[answer]} times"
        elif texts.index(answer) < texts.index(question):
            yield f"{answer!r} is stored before its question"
    for text in sorted(stored.keys() - allowed):
        yield f"{text!r} is stored, of which nobody told"


if __name__ == "__main__":
    sys.exit(main())
