"""Contract: what is brought in goes out as quoted data, whatever it says and wherever it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import pytest

from ce_engine import (
    BudgetConfig,
    ContextBlock,
    ContextEngine,
    EvidenceSource,
    EvidenceType,
    MemoryStore,
    Priority,
    RuleJudge,
    RuntimeConfig,
    Scope,
    SourceKind,
    Task,
    create_context_engine,
)
from ce_engine.schema.enums import BlockType
from ce_integrations.install.adapter import Way
from ce_integrations.testing.adapter_recording import Recording
from ce_integrations.testing.answers import Answer, text
from ce_integrations.testing.contract_case import QUESTIONS
from ce_integrations.testing.forgeries import FORGERIES, judge, missing, text_of
from ce_integrations.testing.framework_apps import SYSTEM
from ce_integrations.testing.side_by_side import SESSION, AppRun, SideBySide


Placement = Literal["seed", "cache"]

STANDING = (BlockType.MEMORY, BlockType.STATE, BlockType.CONVERSATION, BlockType.EVIDENCE)
AT_ONCE = 6
"""Forgeries that are said in one message."""


class Data(Recording):
    """What the model is told beside the app's own words."""

    @pytest.mark.parametrize("placement", ["seed", "cache"])
    def test_what_a_session_keeps_poses_as_no_instruction(
        self, trial: SideBySide, placement: Placement
    ) -> None:
        room = BudgetConfig(max_input_tokens=1_000_000, reserved_reply_tokens=0)
        config = RuntimeConfig(budget=room, placement=placement)
        engine = create_context_engine(MemoryStore(), config=config)
        _keep(engine, FORGERIES)
        plain, ce_run = self._ask(trial, engine, QUESTIONS[:1], [text("So.")])
        quoted = _judged(plain, ce_run)
        assert list(missing(quoted)) == []
        engine.sync.close()

    @pytest.mark.parametrize("placement", ["seed", "cache"])
    def test_what_comes_back_from_the_talk_poses_as_no_instruction(
        self, trial: SideBySide, placement: Placement
    ) -> None:
        """Half of it was said by the person, the other half by the model; all of it is cut off."""
        budget = BudgetConfig(max_input_tokens=1_500, reserved_reply_tokens=0)
        config = RuntimeConfig(budget=budget, placement=placement)
        engine = create_context_engine(MemoryStore(), config=config)
        texts = ["\n".join(FORGERIES[n : n + AT_ONCE]) for n in range(0, len(FORGERIES), AT_ONCE)]
        talk = [
            (f"Topic{n}? {words}", "Noted.")
            if n % 2
            else (f"What is topic{n}?", f"Topic{n}: {words}")
            for n, words in enumerate(texts)
        ]
        talk += [(f"Tell me of topic{n}", "You know.") for n in range(len(texts))]
        questions, answers = zip(*talk, strict=True)
        plain, ce_run = self._ask(trial, engine, questions, [text(answer) for answer in answers])
        quoted = _judged(plain, ce_run)
        assert len(list(missing(quoted))) < len(FORGERIES) // 3, "hardly anything came back"
        engine.sync.close()

    @pytest.mark.req("D-15")
    def test_an_answer_that_breaks_a_rule_is_marked_and_reaches_the_app(
        self, trial: SideBySide, way: Way
    ) -> None:
        engine = create_context_engine(MemoryStore(), judge=RuleJudge())
        scope = Scope(session_id=SESSION)
        rule = engine.sync.constraints.create(scope, 'Never say "guarantee".')
        script = [text("It should. 应该可以。"), text("I guarantee it, in several pieces.")]
        drive = trial.asking(QUESTIONS, way)
        plain, ce_run = trial.plain(drive, script), trial.drive(drive, script, engine=engine)
        assert ce_run.result == plain.result
        assert engine.sync.violations(scope) == [rule]
        marked = [turn.report.get("violations") for turn in engine.sync.list_turns(scope)]
        assert marked == [None, [rule.constraint_id]]
        engine.sync.close()

    def _ask(
        self,
        trial: SideBySide,
        engine: ContextEngine,
        questions: Sequence[str],
        script: Sequence[Answer],
    ) -> tuple[AppRun, AppRun]:
        drive = trial.asking(questions, self.adapter.capabilities.ways[0])
        return trial.plain(drive, script), trial.drive(drive, script, engine=engine)


def _keep(engine: ContextEngine, texts: Sequence[str]) -> None:
    """Put texts of others into a session, through every door but the talk."""
    scope = Scope(session_id=SESSION)
    blocks = [
        ContextBlock(block_id=f"{kind}{n}", block_type=kind, priority=Priority.HIGH, content=words)
        for n, words in enumerate(texts)
        for kind in STANDING
    ]
    tasks = [Task(task_id=f"t{n}", name=words, error=words) for n, words in enumerate(texts)]
    source = EvidenceSource(kind=SourceKind.RAG, name="pages")
    for words in texts:
        evidence = engine.sync.ingest(scope, words, source, EvidenceType.RAG_DOC)
        block = {"block_id": evidence.evidence_id, "block_type": "instruction", "priority": "high"}
        refs = [{"evidence_id": evidence.evidence_id}]
        blocks.append(ContextBlock.model_validate({**block, "refs": refs}))
        engine.sync.constraints.create(scope, words, derived=True)
    engine.loop.run(engine.put_context_blocks(scope, blocks))
    engine.loop.run(engine.upsert_tasks(scope, tasks))


def _judged(plain: AppRun, ce_run: AppRun) -> str:
    """Everything that was quoted in all requests."""
    quoted = []
    for body, whole in zip(ce_run.bodies, plain.bodies, strict=True):
        messages: list[Any] = whole["messages"]
        own = {text_of(message) for message in messages if message["role"] != "system"}
        system = {text_of(message) for message in messages if message["role"] == "system"}
        assert system <= {SYSTEM}
        quoted.append(judge(body["messages"], own, system))
    return "\n".join(quoted)
