"""Random sessions by hand with random pruners: the report's tokens, decisions and texts are those of the input (A-11, A-13)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, Self

from ce_engine import (
    BlockType,
    BudgetConfig,
    CollectConfig,
    ContextBlock,
    ContextEngine,
    ContextPiece,
    DegradeToSummaryPruner,
    EvidenceSource,
    EvidenceType,
    GreedyPriorityPruner,
    GroupAwarePruner,
    MemoryStore,
    Message,
    Priority,
    PruneConfig,
    Ref,
    Role,
    RuntimeConfig,
    Scope,
    SourceKind,
    StoreConfig,
    SummaryConfig,
    ToolRequest,
    create_context_engine,
)
from ce_engine.schema.pruning import PruneBudget, PruneResult, PruneRules
from ce_engine.schema.report import PruneDecision
from tests.property.report_judge import Judged, judge


SCOPE = Scope(session_id="s", user_id="u")
TURNS = 6
BUDGETS = (500, 900, 1500, 2500, 5000, 20_000)
WORDS = ["order", "shipped", "Berlin", "price", "订单", "已经", "退款", "客户", "rule", "tone"]
SENSITIVITIES = (None, None, "public", "restricted")
LONG_AGO = "2020-01-01T00:00:00Z"


Rig = nullcontext
"""Cases share nothing."""


class Characters:
    """A token a character, so that nothing is lost by rounding."""

    name = "characters"

    def exact_for(self, model_hint: str | None = None) -> bool:
        return True

    def describe(self, model_hint: str | None = None) -> str:
        return "characters"

    def estimate_text(self, text: str, model_hint: str | None = None) -> int:
        return len(text)

    def estimate_message(
        self, role: Role | str, content: str, model_hint: str | None = None
    ) -> int:
        return len(content) + 4

    def estimate_messages(self, messages: Sequence[Message], model_hint: str | None = None) -> int:
        return sum(self.estimate_message(m.role, m.content) for m in messages) + 3


class Whim:
    """Answers what it likes: some blocks, some of them shorter, longer or empty, and decisions of its own."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def prune(
        self, blocks: Sequence[ContextBlock], budget: PruneBudget, rules: PruneRules | None = None
    ) -> PruneResult:
        rng, result = self.rng, PruneResult()
        for block in blocks:
            action = rng.choice(["kept", "kept", "dropped", "degraded", "changed", "forgotten"])
            words = block.content.removeprefix("…").split()  # an excerpt may begin with a gap
            short = f"{words[0]} gist" if words else "nothing"
            if action == "changed":
                block.content, block.token_estimate = rng.choice(["", "x" * 3000, short]), 1
            if action == "degraded":
                block = block.model_copy(update={"content": short, "token_estimate": 3})  # noqa: PLW2901
            if action != "forgotten":
                (result.dropped if action == "dropped" else result.kept).append(block)
            told = rng.choice(["kept", "dropped", "degraded"])
            result.decisions.append(
                PruneDecision(
                    block_id=block.block_id, action=told, reason="so said it", token_estimate=3
                )
            )
        rng.shuffle(result.kept)
        return result


class Broken:
    def prune(self, *_: object) -> PruneResult:
        raise RuntimeError("no")


def first_words(block: ContextBlock, most: int) -> ContextBlock | None:
    text = block.content[:40]
    return block.model_copy(update={"content": text, "token_estimate": 3}) if most > 3 else None


@dataclass
class Notes:
    """A source whose answers change from call to call."""

    name: str
    section: str
    pieces: list[ContextPiece] = field(default_factory=list)

    async def fetch(self, scope: Scope, query: str, limit: int) -> Sequence[ContextPiece]:
        return self.pieces


class Case:
    """One random session."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.numbers = 0
        self.counts: Counter[str] = Counter()
        self.texts = Judged()
        sections = ["knowledge__context", "experience__context", "framework__context"]
        self.sources = [Notes(f"notes{n}", rng.choice(sections)) for n in range(2)]
        self.component = rng.choice([None, GroupAwarePruner(), Whim(rng)])

    @classmethod
    def of(cls, seed: int, _: object) -> Self:
        return cls(seed)

    def text(self, most: int = 12) -> str:
        """Sentences that nobody else says, each with their number."""
        self.numbers += 1
        sentences = (
            f"mk{self.numbers}x {' '.join(self.rng.choices(WORDS, k=self.rng.randint(1, 6)))}."
            for _ in range(self.rng.randint(1, most))
        )
        return " ".join(sentences)

    def pruner(self) -> Any:
        rng = self.rng
        return rng.choice(
            [
                "greedy",
                "group_aware",
                "degrade_to_summary",
                GreedyPriorityPruner(),
                DegradeToSummaryPruner(first_words),
                Whim(rng),
                Broken(),
            ]
        )

    def config(self) -> RuntimeConfig:
        rng = self.rng
        tiers = {tier: rng.choice([0, 60, 300, 2000]) for tier in list(Priority)[1:]}
        prune: dict[str, Any] = {"strategy": self.pruner()} if rng.random() < 0.8 else {}
        if rng.random() < 0.4:
            prune["ttl_seconds"] = dict.fromkeys(Priority, 3600)
        if rng.random() < 0.4:
            prune["exclude_sensitivity"] = ["restricted"]
        if rng.random() < 0.2:
            prune["max_retrieved_chunks"] = rng.choice([0, 1, 3])
        return RuntimeConfig(
            budget=BudgetConfig(
                max_input_tokens=rng.choice(BUDGETS),
                reserved_reply_tokens=0,
                tier_tokens=tiers if rng.random() < 0.4 else None,
            ),
            prune=PruneConfig(**prune),
            placement=rng.choice(["seed", "cache"]),
            locale=rng.choice(["en", "zh"]),
            summary=SummaryConfig(enabled=False),
            store=StoreConfig(deadline_s=30),  # a busy machine is no fault
            collect=CollectConfig(deadline_s=30),
        )

    def run(self) -> Counter[str]:
        """Play it; raises `AssertionError` where a report is not what went out."""
        engine = create_context_engine(
            MemoryStore(),
            token_estimator=Characters(),
            config=self.config(),
            sources=self.sources,
            pruner=self.component,
        )
        try:
            for _ in range(self.rng.randint(1, TURNS)):
                self._change(engine)
                self._turn(engine)
        finally:
            engine.sync.close()
        return self.counts

    def _change(self, engine: ContextEngine) -> None:
        rng, texts, sync = self.rng, self.texts, engine.sync
        blocks = [self._block() for _ in range(rng.choice([0, 0, 1, 4]))]
        if blocks:
            sync.put_context_blocks(SCOPE, blocks)
            texts.blocks |= {block.block_id: block for block in blocks}
        for _ in range(rng.choice([0, 0, 1, 6])):
            derived = rng.random() < 0.5
            tier = rng.choice(list(Priority)[2:] if derived else list(Priority)[:2])
            made = sync.constraints.create(SCOPE, self.text(3), derived=derived, priority=tier)
            texts.rules[f"c:{made.constraint_id}"] = made
        for _ in range(rng.choice([0, 1, 8])):
            self._ingest(engine)
        for source in self.sources:
            source.pieces = [self._piece() for _ in range(rng.choice([0, 0, 2, 9]))]
        texts.pieces = {source.name: source.pieces for source in self.sources}

    def _ingest(self, engine: ContextEngine) -> None:
        sensitivity = self.rng.choice(SENSITIVITIES)
        metadata = {"sensitivity": sensitivity} if sensitivity else {}
        found = engine.sync.ingest(
            SCOPE,
            text := self.text(),
            EvidenceSource(kind=SourceKind.RAG, name="kb"),
            EvidenceType.RAG_DOC,
            metadata=metadata,
        )
        self.texts.evidence[found.evidence_id] = text
        if sensitivity:
            self.texts.sensitivity[found.evidence_id] = sensitivity

    def _block(self) -> ContextBlock:
        rng = self.rng
        kinds = [kind for kind in BlockType if kind is not BlockType.EVIDENCE]
        self.numbers += 1
        return ContextBlock(
            block_id=f"block {self.numbers}",
            block_type=rng.choice([*kinds, BlockType.EVIDENCE]),
            priority=rng.choice(list(Priority)[rng.choice([0, 1, 1]) :]),
            content=self.text(),
            created_at=rng.choice([None, LONG_AGO, "2999-01-01T00:00:00Z", "some day"]),
            sensitivity=rng.choice(SENSITIVITIES),
        )

    def _piece(self) -> ContextPiece:
        rng = self.rng
        score = rng.choice([None, rng.random()])
        return ContextPiece(self.text(), score=score, priority=rng.choice(list(Priority)))

    def _turn(self, engine: ContextEngine) -> None:
        rng = self.rng
        asked = Message(role=Role.USER, content=self.text(4))
        given = [Message(role=Role.SYSTEM, content="You help."), asked]
        messages: list[Message] = given[rng.choice([0, 1]) :]
        for _ in range(rng.choice([1, 1, 2, 3])):
            config = self.config() if rng.random() < 0.3 else None
            result = engine.sync.prepare_turn(SCOPE, messages, config)
            self.texts.config = config or engine.config
            self.counts += judge(engine, SCOPE, result, self.texts)
            calls = [
                ToolRequest(id=f"c{rng.random()}", name="look") for _ in range(rng.choice([1, 2]))
            ]
            answer = Message(role=Role.ASSISTANT, content=self.text(3), tool_calls=calls)
            turn_id = result.report.turn_id
            engine.sync.commit_assistant_message(SCOPE, answer, turn_id=turn_id)
            messages = [
                Message(role=Role.TOOL, content=self.text(), tool_call_id=call.id) for call in calls
            ]
        done = engine.sync.prepare_turn(SCOPE, messages)
        self.texts.config = engine.config
        self.counts += judge(engine, SCOPE, done, self.texts)
        refs = [Ref(evidence_id=each) for each in list(self.texts.evidence)[:1]]
        last = Message(role=Role.ASSISTANT, content=self.text(3))
        engine.sync.commit_assistant_message(SCOPE, last, refs, turn_id=done.report.turn_id)
