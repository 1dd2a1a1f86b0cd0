"""The whole engine by hand, at random: the same calls on three stores, and a small model that judges them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from functools import reduce
from inspect import isawaitable
from itertools import count
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ce_engine import (
    CollectConfig,
    ContextEngine,
    ContextEngineError,
    Inspection,
    MemoryStore,
    ObservabilityConfig,
    Prepared,
    Replay,
    RuntimeConfig,
    StoreConfig,
    SummaryConfig,
    check_invariants,
    create_context_engine,
)
from ce_engine.ports.store import Store
from ce_engine.runtime.loop import LoopThread
from ce_engine.schema.call import TurnHandle
from ce_engine.schema.enums import TurnStatus
from ce_engine.schema.events import Verification
from ce_engine.stores.documents.file import FileStore
from ce_engine.stores.tables import SqlStore
from ce_engine.testing import MockLlmAdapter
from tests.property.by_hand_calls import Call, Turn
from tests.property.by_hand_model import PARALLEL, Model
from tests.property.by_hand_more import calls


CONFIG = RuntimeConfig(
    store=StoreConfig(deadline_s=30),  # a busy machine is no fault here
    collect=CollectConfig(deadline_s=30),
    observability=ObservabilityConfig(inspect=True),
    summary=SummaryConfig(enabled=False),  # on demand only: nobody knows when others are made
)
STEPS = 40


class Ticking:
    """Ids that count, and a clock that stands still within a step: however often it is asked."""

    def __init__(self) -> None:
        self.step = 0
        self._numbers = count(1)

    def now_iso(self) -> str:
        return f"2030-01-01T00:00:00.{self.step:06}Z"

    def generate(self) -> str:
        return f"00000000-0000-4000-8000-{next(self._numbers):012}"


class Kept(MemoryStore):
    """A memory store that outlives its engine, as a file does."""

    async def close(self) -> None:
        pass


@dataclass
class Side:
    """One store with its engine."""

    open_store: Callable[[Ticking], Store]
    clock: Ticking = field(default_factory=Ticking)

    def __post_init__(self) -> None:
        self.llm = MockLlmAdapter(["the first summary", OSError("no model")] * 2)
        self.open()

    def open(self) -> None:
        store = self.open_store(self.clock)
        self.engine: ContextEngine = create_context_engine(
            store,
            config=CONFIG,
            clock=self.clock,
            id_generator=self.clock,
            llm_adapter=self.llm,
        )

    def close(self) -> None:
        self.engine.sync.close()


def sides(folder: Path) -> list[Side]:
    clock = Ticking()
    memory = Kept(clock=clock)
    return [
        Side(lambda _: memory, clock),
        Side(lambda clock: FileStore((folder / "sessions").as_uri(), clock=clock)),
        Side(lambda clock: SqlStore(f"sqlite:///{folder / 'ce.db'}", clock=clock)),
    ]


class Callers:
    """Two event loops and a thread pool: whoever calls an engine."""

    def __init__(self) -> None:
        self._loops = [LoopThread("caller-1"), LoopThread("caller-2")]
        self._pool = ThreadPoolExecutor(1)

    def call(self, engine: ContextEngine, call: Call, by: int) -> Any:
        """Call by a thread (0) or from one of the loops (1, 2)."""
        if call.work is not None:
            return self._loops[by % 2].submit(call.work(engine)).result(60)
        args = [
            engine.open_turn(call.scope, arg.turn_id) if isinstance(arg, Turn) else arg
            for arg in call.args
        ]
        first = call.method.partition(".")[0]
        face: Any = engine.sync if by == 0 and hasattr(engine.sync, first) else engine
        method = reduce(getattr, call.method.split("."), face)
        if by == 0:
            return self._pool.submit(method, *args, **call.more).result(60)

        async def work() -> Any:
            answer = method(*args, **call.more)
            return await answer if isawaitable(answer) else answer

        return self._loops[by - 1].submit(work()).result(60)

    def close(self) -> None:
        self._pool.shutdown()
        for loop in self._loops:
            loop.close()


def plain(value: Any) -> Any:
    """An answer as it can be compared; hashes under a session's key, which is random, are not."""
    if isinstance(value, Replay):
        return value.equal
    if isinstance(value, Inspection):  # made with ids of its own
        layers = value.layers.items()
        return [
            value.tokens,
            [(n, [(p.action, p.content, p.tokens) for p in x.parts]) for n, x in layers],
        ]
    if isinstance(value, Verification):  # which rows have MACs is each store's own affair
        return asdict(replace(value, rows=0, anchor=""))
    if isinstance(value, Prepared):
        return [plain(value.assembled), plain(value.report), value.unchanged]
    if isinstance(value, TurnHandle):
        return [value.turn_id, value.lane, value.attempt]
    if isinstance(value, BaseModel):
        return value.model_dump()
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def differences(one: Any, other: Any, place: str = "") -> list[str]:
    """Where two plain values differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = sorted({*one, *other})
        found = [differences(one.get(key), other.get(key), f"{place}.{key}") for key in keys]
        return [line for lines in found for line in lines]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        found = [differences(*pair, f"{place}[{k}]") for k, pair in pairs]
        return [line for lines in found for line in lines]
    return [] if one == other else [f"{place}: {one!r} is not {other!r}"]


def told(callers: Callers, engine: ContextEngine, call: Call, by: int) -> tuple[str, Any]:
    """How a call ended: what it answered, or the type and code of our error. Any other one is a fault."""
    try:
        return "done", callers.call(engine, call, by)
    except ContextEngineError as error:
        return f"{type(error).__name__} {error.code}", None


class Run:
    """One random case."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.random = random.Random(seed)
        self.folder = folder
        self.sides = sides(folder)
        self.callers = Callers()
        self.model = Model()
        self.scopes = self.random.sample(self.model.scopes, 2)
        self.ended: Counter[str] = Counter()

    def close(self) -> None:
        for side in self.sides:
            side.close()
        self.callers.close()

    def go(self, steps: int = STEPS) -> Counter[str]:
        for step in range(1, steps + 1):
            for side in self.sides:
                side.clock.step = step
            if self.random.random() < 0.06:
                self._reopen()
            else:
                self.do(
                    calls(
                        self.random,
                        self.model,
                        self.random.choice([*self.scopes, *self.model.copies]),
                    )
                )
        for call in self.model.endings():
            self.do(call)
        self._judge_all()
        return self.ended

    def do(self, call: Call) -> None:
        by = self.random.randrange(3)
        answers = [told(self.callers, side.engine, call, by) for side in self.sides]
        for side in self.sides:
            assert side.engine.sync.flush()
        first = plain(list(answers[0]))
        for side, each in zip(self.sides, answers, strict=True):
            differ = differences(first, plain(list(each)))
            assert differ == [], (side.engine.store.url, call.method, call.args, differ)
        how, answer = answers[0]
        if call.good is not None:
            assert (how == "done") == call.good, (call, how)
        self.ended[f"{call.method} {how}"] += 1
        if how == "done":
            call.learn(answer)
            self.model.judge_input(call.scope, answer)
        if call.scope == PARALLEL:
            return
        reports = [plain(side.engine.last_report(call.scope)) for side in self.sides]
        assert reports == [reports[0]] * 3

    def _reopen(self) -> None:
        """Another engine on the same store: nobody holds the turns of the one before."""
        for call in self.model.endings():
            self.do(call)
        for side in self.sides:
            side.close()
            side.open()
        self.ended["(opened again)"] += 1

    def _judge_all(self) -> None:
        for scope in self.model.sessions:
            found = [
                side.engine.loop.run(side.engine.store.get_session(scope)) for side in self.sides
            ]
            for side, document in zip(self.sides, found, strict=True):
                if scope != PARALLEL:
                    differ = differences(plain(found[0]), plain(document))
                    assert differ == [], side.engine.store.url
                self.model.judge_session(scope, document)
            if found[0] is not None:
                assert check_invariants(found[0]) == []
            for side in self.sides:
                turns = side.engine.loop.run(side.engine.store.list_turns(scope))
                assert [t.turn_id for t in turns if t.status is TurnStatus.OPEN] == []
                if side.engine.loop.run(side.engine.store.chain(scope)) is not None:
                    assert side.engine.sync.verify(scope).status in {"intact", "deleted"}
        self._judge_deleted()

    def _judge_deleted(self) -> None:
        """What was deleted is in no byte of what is kept."""
        memory = repr(vars(self.sides[0].engine.store)).encode()
        kept = [memory, *(p.read_bytes() for p in self.folder.rglob("*") if p.is_file())]
        left = {text for text in self.model.deleted for data in kept if text.encode() in data}
        assert left == set()


def run_case(seed: int, folder: Path) -> Counter[str]:
    """Run a case in an empty folder; how its calls ended.

    Raises:
        AssertionError: something is not as it must be.
    """
    run = Run(seed, folder)
    try:
        return run.go()
    finally:
        run.close()
