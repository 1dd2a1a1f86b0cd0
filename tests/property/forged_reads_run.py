"""Reads of other people's sessions through every door of every store: `python tests/property/forged_reads_run.py --cases 10000`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any


if __name__ == "__main__":  # as a plain script, from any folder
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from ce_engine import (
    AuditRecord,
    ContextEngine,
    ContextEngineError,
    MemoryStore,
    ModelCall,
    Scope,
    acting_as,
    create_context_engine,
    open_store,
)
from ce_engine.audit.access import MAX_ID_CHARS
from ce_engine.testing.host import HostApp, user


CANARY = "canary-7f3a"
OWNER = Scope(session_id="s", user_id="li", account_id="acme", project_id="web")
PARTS = ("session_id", "user_id", "account_id", "project_id")
ODD = (
    "",
    "*",
    "%",
    "_",
    "li ",
    "LI",
    "li\x00",
    "../li",
    "'; --",
    "l%69",
    "ｌｉ",
    "s/",
    "acme",
    "web",
    "李",
    "s" * 300,
)


class Log(list[AuditRecord]):
    """Every access, in memory."""

    def write(self, record: AuditRecord) -> None:
        self.append(record)


def forged(rng: Random) -> Scope:
    """A scope that is not the owner's: at least one part is another one."""
    parts = {part: getattr(OWNER, part) for part in PARTS}
    while True:
        for part in rng.sample(PARTS, rng.randint(1, 3)):
            own = parts[part]
            odd = [*ODD, own + rng.choice(" .\t/"), own[:-1], own.upper(), own * 2]
            parts[part] = rng.choice(odd)
        if parts["session_id"] and any(parts[p] != getattr(OWNER, p) for p in PARTS):
            return Scope(**parts)


def doors(engine: ContextEngine, scope: Scope, ids: Sequence[str], rng: Random) -> Iterator[Any]:
    """Every way to read in a scope, with ids that are there in the owner's session."""
    sync, piece = engine.sync, rng.choice(ids)
    yield lambda: sync.get_session(scope)
    yield lambda: sync.get_evidence(scope, piece)
    yield lambda: sync.list_evidences(scope)
    yield lambda: sync.list_turns(scope)
    yield lambda: sync.list_reports(scope)
    yield lambda: sync.list_events(scope)
    yield lambda: sync.fetch_evidence(scope, piece)
    yield lambda: sync.trace(scope, piece)
    yield lambda: sync.replay(scope)
    yield lambda: sync.explain(scope)
    yield lambda: sync.handover(scope)
    yield lambda: sync.recorded_call(scope)
    yield lambda: sync.compact(scope)
    yield lambda: sync.verify(scope)
    yield lambda: sync.inspect((scope, f"{piece}?"), actor=scope.user_id)
    yield lambda: sync.original(scope, piece, actor="eve")
    yield lambda: sync.preview(ModelCall(scope, [user("what was said?")]))
    yield lambda: sync._run(engine.resolver(scope).resolve(piece))
    yield lambda: sync.list_sessions(account_id=scope.account_id, user_id=scope.user_id)


def leaks(answer: object, scope: Scope) -> bool:
    """Whether an answer has what the owner said, or names the owner's session."""
    is_owner = scope.key[:2] == OWNER.key[:2]
    if isinstance(answer, list) and is_owner and answer and hasattr(answer[0], "messages"):
        return (
            False  # a list of the user's own sessions: only the project or the session was forged
        )
    return CANARY in repr(answer)


def run(cases: int, seed: int, stores: Sequence[str]) -> tuple[Counter[str], list[str]]:
    """Read `cases` times; how they ended, and what was wrong."""
    ended, faults, rng = Counter[str](), [], Random(seed)
    for url in stores:
        log = Log()
        store = MemoryStore() if url == "memory" else open_store(url)
        engine = create_context_engine(store, audit=log)
        HostApp(engine, OWNER).ask(f"Keep {CANARY} for me.", f"I keep {CANARY}.")
        engine.sync.flush()
        document = engine.sync.get_session(OWNER)
        assert document is not None
        ids = [*document.evidences, *(m.message_id or "" for m in document.session.messages)]
        log.clear()
        mine, done = cases // len(stores), 0
        while done < mine:
            scope = forged(rng)
            for read in doors(engine, scope, ids, rng):
                before, done = len(log), done + 1
                answer: object = None
                try:
                    with acting_as(rng.choice(["", "eve", scope.user_id])):
                        answer = read()
                except ContextEngineError as error:
                    answer = str(error)
                    ended[error.code] += 1
                else:
                    ended["nothing" if not answer else type(answer).__name__] += 1
                if leaks(answer, scope):
                    faults.append(f"{url.partition(':')[0]}: leak to {scope}: {answer!r:.200}")
                told = log[before:]
                if len(told) != 1 or told[0].session_id not in (
                    scope.session_id[:MAX_ID_CHARS],
                    "*",
                ):
                    faults.append(
                        f"{url.partition(':')[0]}: {len(told)} records of a read by {scope}"
                    )
        engine.sync.close()
    return ended, faults


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Read other people's sessions through every door.")
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", action="append", help="a URL; else memory, files and SQLite")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        stores = options.store or ["memory", f"file://{folder}/files", f"sqlite:///{folder}/ce.db"]
        ended, faults = run(options.cases, options.seed, stores)
    for name, count in sorted(ended.items()):
        print(f"{count:7}  {name}")
    for fault in faults[:20]:
        print("FAILED", fault)
    print(f"seed {options.seed}: {sum(ended.values())} reads, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
