"""Random apps for replays: they resend, cut or keep nothing, run tools, retrieve, fail, restart, name secrets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random

from ce_engine import (
    Answer,
    BudgetConfig,
    CharBasedEstimator,
    ContextEngine,
    EvidenceSource,
    EvidenceType,
    HostMessage,
    MemoryStore,
    ModelCall,
    ObservabilityConfig,
    Prepared,
    Retrieval,
    RetrievedDoc,
    RuntimeConfig,
    Scope,
    SourceKind,
    Store,
    StoreConfig,
    ToolRun,
    Usage,
    create_context_engine,
    open_store,
)
from ce_engine.testing import IdsInOrder
from ce_engine.testing.host import assistant, system, tool_calls, tool_result, user


SCOPE = Scope(session_id="s", user_id="张伟", account_id="acme")
SYSTEM = "You help 客户 with their orders."
WORDS = (
    "order",
    "shipped",
    "Berlin",
    "Monday",
    "订单",
    "北京",
    "退款",
    "lamp",
    "gate",
    "code",
    "7391",
    "ann@example.com",
    "13800138000",
    '{"status": "ok"}',
    "warehouse\n",
    "客户。",
)


class Ticks:
    """A clock that moves an hour a look."""

    def __init__(self) -> None:
        self.n = 0

    def now_iso(self) -> str:
        self.n += 1
        return f"{datetime(2026, 3, 1, tzinfo=UTC) + timedelta(hours=self.n):%Y-%m-%dT%H:%M:%SZ}"


def config_of(rng: Random) -> RuntimeConfig:
    """Some budget, most of them tight."""
    tokens = rng.choice((400, 700, 1200, 4000))
    budget = BudgetConfig(max_input_tokens=tokens, reserved_reply_tokens=0)
    config = RuntimeConfig(
        budget=budget, placement=rng.choice(("seed", "cache")), locale=rng.choice(("en", "zh"))
    )
    return RuntimeConfig() if rng.random() < 0.1 else config


@dataclass
class Talk:
    """One app at work; `kind` is `resend`, `window`, `stateless` or `hand`.

    `configs` may give the call of a number another configuration; `before` is called before each call.
    """

    seed: int
    kind: str
    store: Store
    configs: Callable[[int, RuntimeConfig], RuntimeConfig] = lambda _, config: config
    restarts: bool = False
    words_of: Sequence[str] = WORDS
    before: Callable[[ContextEngine, ModelCall], None] = lambda _engine, _call: None
    sent: list[Prepared] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = Random(self.seed)
        self.ids, self.clock = IdsInOrder(), Ticks()
        self.config = config_of(self.rng)
        self.messages: list[HostMessage] = []
        self.requests = 0
        self.engine = self.start()

    def start(self) -> ContextEngine:
        return create_context_engine(
            self.store,
            token_estimator=CharBasedEstimator(),
            config=RuntimeConfig(
                observability=ObservabilityConfig(inspect=True), store=StoreConfig(deadline_s=30)
            ),
            clock=self.clock,
            id_generator=self.ids,
        )

    def words(self, most: int) -> str:
        return " ".join(self.rng.choices(self.words_of, k=self.rng.randint(1, most)))

    def run(self, turns: int) -> None:
        for _ in range(turns):
            if self.restarts and self.rng.random() < 0.2:
                self.engine.sync.flush()
                self.engine = self.start()
            if self.rng.random() < 0.1:
                self.config = config_of(self.rng)
            self.turn()
        self.engine.sync.flush()

    def turn(self) -> None:
        self.requests += 1
        if self.rng.random() < 0.3:
            self.learn()
        new = [user(f"{self.requests}: {self.words(40)}")]
        if self.rng.random() < 0.2:
            self.retrieve(new)
        for _ in range(self.rng.choice((0, 0, 1, 3))):
            prepared = self.prepare(new)
            ids = [f"call_{n}" for n in range(self.rng.randint(1, 2))]
            asked = tool_calls(*((i, "lookup", {"q": self.words(3)}) for i in ids))
            self.commit(prepared, asked)
            results = [tool_result(i, self.words(self.rng.choice((5, 60, 200)))) for i in ids]
            if self.rng.random() < 0.3:
                run = ToolRun("lookup", {}, results[0].message.content, self.ids.generate(), ids[0])
                self.engine.post_tool_run(SCOPE, run, request_id=f"r{self.requests}")
            new = results if self.kind == "hand" else [*new, asked, *results]
        prepared = self.prepare(new)
        while self.rng.random() < 0.1:
            self.engine.sync.fail(prepared.turn, "timeout")
            prepared = self.prepare(new)
        answer = assistant(self.words(40))
        self.commit(prepared, answer)
        self.messages += [*new, answer]

    def learn(self) -> None:
        """Evidence that the app records itself."""
        source = EvidenceSource(kind=SourceKind.RAG, name="kb")
        self.engine.sync.record_evidence(SCOPE, self.words(60), source, EvidenceType.RAG_DOC)

    def retrieve(self, new: list[HostMessage]) -> None:
        """Documents that the app puts into its question."""
        texts = [f"Document {n}: {self.words(50)}" for n in range(2)]
        hit = Retrieval("library", "?", [RetrievedDoc(t) for t in texts], f"run-{self.requests}")
        self.engine.post_retrieval(SCOPE, hit, request_id=f"r{self.requests}")
        new[0] = user("Use:\n" + "\n\n".join(texts) + f"\nQuestion: {self.words(5)}")

    def listed(self, new: list[HostMessage]) -> list[HostMessage]:
        kept = {"resend": len(self.messages), "window": 4}.get(self.kind, 0)
        return [system(SYSTEM), *(self.messages[-kept:] if kept else ()), *new]

    def prepare(self, new: list[HostMessage]) -> Prepared:
        call = ModelCall(
            SCOPE,
            self.listed(new),
            request_id=f"r{self.requests}",
            config=self.configs(len(self.sent), self.config),
            by_hand=self.kind == "hand",
            tools=[{"name": "lookup", "description": "Look up."}],
        )
        self.before(self.engine, call)
        self.sent.append(self.engine.sync.prepare(call))
        return self.sent[-1]

    def commit(self, prepared: Prepared, answer: HostMessage) -> None:
        used = prepared.report.token_used + self.rng.choice((0, 0, 90))
        self.engine.sync.commit(
            prepared.turn, Answer(answer.message), usage=Usage(used, 5, used + 5)
        )


def store_at(kind: str, path: object) -> Store:
    """A store of its own."""
    if kind == "memory":
        return MemoryStore()
    return open_store(f"file:{path}/{kind}" if kind == "file" else f"sqlite:///{path}/ce.db")
