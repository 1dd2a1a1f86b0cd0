"""Contract: every way in is governed; agents, helpers and retrievers are told apart, and each is recorded once."""

from __future__ import annotations

from typing import Any

from ce_engine import EvidenceType, Message, Role, Scope
from ce_integrations.identity.session import ce_session
from ce_integrations.install.adapter import Way
from ce_integrations.testing.adapter_history import History
from ce_integrations.testing.answers import Answer, JsonObject, Script
from ce_integrations.testing.contract_case import QUESTIONS
from ce_integrations.testing.framework_apps import Page, needs
from ce_integrations.testing.side_by_side import SESSION, AppRun, Drive, SideBySide
from ce_integrations.testing.wire import Wire


RULE = "Never say more than the pages say. 只说书上有的。"
"""What the engine has to bring into every call that it may bring anything into."""

LINE = "A lane is a line. 一条线"

PAGES = (
    Page("A lane is a line of conversation.", "pages/lane.md", 0.9),
    Page("车道是一条对话线。", "pages/车道.md", 0.8),
    Page("A cut belongs to a lane.", "pages/cut.md", 0.7),
)


class Agents(History):
    """Who asks the model, and for what."""

    # Ways in

    @needs("surfaces")
    def test_whoever_asks_the_model_is_governed_once(self, trial: SideBySide, surface: str) -> None:
        _, ce_run = self.through(trial, surface)
        assert len(ce_run.inputs) == len(ce_run.raw) > 0
        assert [(turn.status, turn.attempt) for turn in trial.turns()] == [
            ("committed", 1) for _ in ce_run.raw
        ]
        assert len(trial.document().session.model_usage) == len(ce_run.raw)

    @needs("surfaces")
    def test_whoever_asks_the_model_sends_and_gets_the_same(
        self, trial: SideBySide, surface: str
    ) -> None:
        plain, ce_run = self.through(trial, surface)
        assert ce_run.result == plain.result
        assert ce_run.raw == plain.raw

    @needs("surfaces")
    def test_whoever_asks_the_model_sends_what_is_brought_in(
        self, trial: SideBySide, surface: str
    ) -> None:
        """Not into a text that somebody put together, nor into a framework's own calls."""
        trial.engine.sync.constraints.create(Scope(session_id="any"), RULE)
        _, ce_run = self.through(trial, surface)
        assert len(trial.told) == len(ce_run.bodies)
        for info, body in zip(trial.told, ce_run.bodies, strict=True):
            takes = info.purpose == "chat" and not info.opaque
            assert (RULE in str(body)) is takes, info.mode

    def through(self, trial: SideBySide, surface: str) -> tuple[AppRun, AppRun]:
        """One of the ways in, without us and with us."""
        way_in = self.surfaces[surface]

        def played(target: Any, ask: Any, wire: Wire, *, install: bool) -> AppRun:
            def drive(_: Any) -> Any:
                with ce_session(SESSION):
                    return trial.finished(ask(QUESTIONS[0]))

            if install:
                return trial.installed(wire, target, drive)
            return trial.played(wire, target, drive)

        with Wire(way_in.script) as wire:
            plain = played(*way_in.make(self, wire), wire, install=False)
        with Wire(way_in.script) as wire:
            return plain, played(*way_in.make(self, wire), wire, install=True)

    # Agents

    @needs("teams")
    def test_each_answer_of_a_team_has_its_author(self, trial: SideBySide, way: Way) -> None:
        """Also one that is nothing but calls of tools (B-16)."""
        self.team(trial, way)
        answers = [m for m in trial.document().session.messages if m.role == "assistant"]
        assert list(map(_author, answers)) == list(self.team_agents)

    @needs("groups")
    def test_what_agents_say_to_each_other_is_stored_once(
        self, trial: SideBySide, way: Way
    ) -> None:
        """Each hears the others; the store has one row of each word, with its author (B-16)."""
        plain, ce_run = self.group(trial, way)
        assert ce_run.result == plain.result
        assert ce_run.raw == plain.raw
        self.check_calls(trial, ce_run)
        session = trial.document().session
        answers = [m for m in session.messages if m.role == "assistant"]
        assert list(map(_author, answers)) == list(self.group_agents) * len(QUESTIONS)
        spoken = [m.content for m in answers if m.content]
        assert spoken == [answer for answer in self.group_answers() if isinstance(answer, str)]
        questions = [m.content for m in session.messages if m.role == "user"]
        assert questions == list(QUESTIONS)

    @needs("groups")
    def test_what_is_asked_of_a_group_was_seen_by_each_of_it(
        self, trial: SideBySide, way: Way
    ) -> None:
        self.group(trial, way)
        (first, *_) = trial.document().session.messages
        assert first.content == QUESTIONS[0]
        traced = trial.engine.sync.trace(Scope(session_id=SESSION), first.message_id or "")
        lanes = dict.fromkeys(turn.lane for turn in trial.turns())
        assert traced.seen_by == [lane for lane in lanes if lane]
        assert traced.seen_by

    def group(self, trial: SideBySide, way: Way) -> tuple[AppRun, AppRun]:
        """A group that is asked twice, without us and with us."""
        drive = trial.asking(QUESTIONS, way)
        return self.beside(trial, self.make_group, self.group_answers(), drive)

    def group_answers(self) -> list[str | Answer]:
        """What the model says to a group that is asked twice."""
        script = list(self.group_script) * len(QUESTIONS)
        return [f"{n}: {LINE}" if answer is None else answer for n, answer in enumerate(script)]

    # What a framework asks for itself

    @needs("helpers")
    def test_what_a_framework_asks_for_itself_is_no_part_of_the_talk(
        self, trial: SideBySide, way: Way
    ) -> None:
        """It is recorded as what it is, and nothing is brought into it."""
        trial.engine.sync.constraints.create(Scope(session_id="any"), RULE)
        asides: list[str | None] = []

        def answers(body: JsonObject) -> str:
            asides.append(self.aside(body))
            return asides[-1] or LINE

        with Wire(answers) as wire:
            target = self.make_helped(wire)
            ce_run = trial.installed(wire, target, trial.asking(QUESTIONS, way))
        assert {aside is None for aside in asides} == {True, False}
        helpers = [aside is not None for aside in asides]
        assert [turn.purpose == "helper" for turn in trial.turns()] == helpers
        assert [RULE not in str(body) for body in ce_run.bodies] == helpers
        session = trial.document().session
        assert len(session.model_usage) == len(ce_run.bodies)
        texts = [m.content for m in session.messages if m.role == "assistant"]
        assert texts == [LINE for is_helper in helpers if not is_helper]

    # Retrieval

    @needs("retrieval")
    def test_what_is_retrieved_is_evidence_once(self, trial: SideBySide, way: Way) -> None:
        """With where it is from; answers rest on it (A-03, A-29)."""
        drive = trial.asking(QUESTIONS, way)
        plain, ce_run = self.beside(
            trial, lambda wire: self.make_retrieving(wire, PAGES), LINE, drive
        )
        assert ce_run.result == plain.result
        assert ce_run.raw == plain.raw
        document = trial.document()
        hits = {key: e for key, e in document.evidences.items() if e.type is EvidenceType.RAG_DOC}
        pages = [Page(e.content, e.source.uri, e.metadata["score"]) for e in hits.values()]
        assert pages == list(PAGES)
        runs = [set(run.result_evidence_ids) for run in document.session.tool_state.tool_calls]
        assert runs == [set(hits)] * len(QUESTIONS), "each retrieval gave these"
        answers = [m for m in document.session.messages if m.role is Role.ASSISTANT]
        assert len(answers) == len(QUESTIONS)
        for answer in answers:
            assert {ref.evidence_id for ref in answer.refs or ()} == set(hits)

    def beside(
        self, trial: SideBySide, make: Any, script: Script, drive: Drive
    ) -> tuple[AppRun, AppRun]:
        """An app of a kind without us, and one with us."""
        with Wire(script) as wire:
            plain = trial.played(wire, make(wire), drive)
        with Wire(script) as wire:
            return plain, trial.installed(wire, make(wire), drive)


def _author(message: Message) -> str:
    return message.author.id if message.author is not None else ""
