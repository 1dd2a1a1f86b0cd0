"""Turns a second of several processes on one store, each with sessions of its own, and all in one session.

    python benchmarks/processes.py [--store sqlite|postgresql|redis] [--processes 8] [--turns 200]

The model answers at once. A turn counts when it is stored; what is stored is counted afterwards. PostgreSQL and
Redis are the servers that the tests start (`tests/postgres_server.py`, `tests/hosts/redis_host.py`).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ce_engine import (
    Answer,
    ContextEngine,
    Message,
    ModelCall,
    Role,
    RuntimeConfig,
    Scope,
    StoreConfig,
    create_context_engine,
)
from ce_engine.testing.host import user


sys.path.insert(0, str(Path(__file__).parents[1]))

os.environ.setdefault(
    "CE_SECRET", "a secret that the processes of this run share"
)  # servers need one

PATIENT = RuntimeConfig(store=StoreConfig(deadline_s=30))
KINDS = ("sqlite", "postgresql", "redis")
SHARED = "shared"


def work(url: str, name: str, *, shared: bool, turns: int) -> None:
    """Talk in one session of this process, or in the one of all; each question is a call by itself."""
    engine = create_context_engine(url, config=PATIENT)
    scope = Scope(session_id=SHARED if shared else name)
    engine.sync.check()
    turn(engine, Scope(session_id=f"warm-{name}"), name, 0)
    print("ready", flush=True)
    sys.stdin.readline()
    began = time.monotonic()
    for n in range(turns):
        turn(engine, scope, name, n)
    assert engine.sync.flush(60)
    print(began, time.monotonic(), flush=True)
    engine.sync.close()


def turn(engine: ContextEngine, scope: Scope, name: str, n: int) -> None:
    call = ModelCall(scope, [user(f"{name} asks {n}")], lane_key=name, framework="bench")
    prepared = engine.sync.prepare(call)
    answer = Message(role=Role.ASSISTANT, content=f"{name} is told {n}")
    engine.sync.commit(prepared.turn, Answer(answer))


@contextmanager
def store_at(kind: str, folder: Path) -> Iterator[str]:
    """A new store of this kind."""
    if kind == "sqlite":
        yield f"sqlite:///{folder / 'ce.db'}"
    elif kind == "postgresql":
        from tests.postgres_server import new_schema

        with new_schema() as url:
            yield url
    else:
        from tests.hosts.redis_host import own_server

        server = own_server(folder, "--appendonly", "yes", "--save", "")
        try:
            yield server.url
        finally:
            server.kill()


def measured(kind: str, processes: int, turns: int, *, shared: bool) -> str:
    with tempfile.TemporaryDirectory() as folder, store_at(kind, Path(folder)) as url:
        create_context_engine(url, config=PATIENT).sync.close()
        asked = [sys.executable, __file__, "--worker", url, "--turns", str(turns)]
        asked += ["--shared"] if shared else []
        names = [f"p{n}" for n in range(processes)]
        running = [
            subprocess.Popen(
                [*asked, "--name", name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            for name in names
        ]
        for each in running:
            assert each.stdout is not None
            assert each.stdout.readline() == "ready\n"
        for each in running:
            assert each.stdin is not None
            each.stdin.write("go\n")
            each.stdin.flush()
        lines = [each.communicate()[0].split() for each in running]
        assert all(each.returncode == 0 for each in running)
        seconds = max(float(end) for _, end in lines) - min(float(began) for began, _ in lines)
        rate = processes * turns / seconds
        words = "one session of all" if shared else "a session a process"
        return f"{kind:11} {words:20} {rate:7.0f} turns a second; {judged(url, names, turns, shared=shared)}"


def judged(url: str, names: list[str], turns: int, *, shared: bool) -> str:
    """How much of what was said is there once, twice, not at all, and elsewhere."""
    engine = create_context_engine(url, config=PATIENT)
    lost = doubled = mixed = 0
    for session in [SHARED] if shared else names:
        document = engine.sync.get_session(session)
        assert document is not None
        said = Counter(message.content for message in document.session.messages)
        own = names if shared else [session]
        wanted = [
            f"{name} {verb} {n}"
            for name in own
            for verb in ("asks", "is told")
            for n in range(turns)
        ]
        lost += sum(said[text] == 0 for text in wanted)
        doubled += sum(said[text] > 1 for text in wanted)
        mixed += len(said.keys() - set(wanted))
        assert engine.sync.verify(session).status == "intact"
    engine.sync.close()
    return f"{lost} lost, {doubled} doubled, {mixed} mixed, chains intact"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--store", choices=KINDS, action="append")
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--name", default="", help=argparse.SUPPRESS)
    parser.add_argument("--shared", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.worker:
        work(asked.worker, asked.name, shared=asked.shared, turns=asked.turns)
        return
    for kind in asked.store or KINDS:
        for shared in (False, True):
            print(measured(kind, asked.processes, asked.turns, shared=shared), flush=True)


if __name__ == "__main__":
    main()
