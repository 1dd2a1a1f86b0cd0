"""Contract: nothing goes out over the budget but what is told, with its cause; retrieved text and helpers' calls too."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from ce_engine import BudgetConfig, RuntimeConfig
from ce_engine.schema.rows import TurnRow
from ce_integrations.identity.session import ce_session
from ce_integrations.install.adapter import Way
from ce_integrations.testing.adapter_agents import Agents
from ce_integrations.testing.answers import JsonObject, text
from ce_integrations.testing.body_tokens import PRIMING
from ce_integrations.testing.contract_case import QUESTIONS, count
from ce_integrations.testing.framework_apps import SYSTEM, Page, needs
from ce_integrations.testing.side_by_side import SESSION, AppRun, SideBySide
from ce_integrations.testing.wire import Wire


def _prose(name: str, sentences: int) -> str:
    statements = (
        f"Of {name} we know {n * 37 % 101} things, 其中第{n}件是{n * 53 % 97}"
        for n in range(sentences)
    )
    return "。 ".join(statements) + "。"


LONG_PAGES = tuple(Page(_prose(f"page {n}", 12), f"pages/{n}.md", 0.9 - n / 10) for n in range(4))
LONG_QUESTIONS = tuple(f"{_prose(f'question {n}', 3)} What of it? 那又怎样？" for n in range(4))
LONG_ANSWER = _prose("the answer", 3)
MARGIN, FRAME = 1.6, 24
"""How much more our count may find than a second one: a share, and tokens a message."""
RETRIEVED_BUDGET, HELPED_BUDGET, TINY_BUDGET = 450, 400, 12


def budget_of(tokens: int) -> RuntimeConfig:
    """A configuration with nothing but a budget."""
    return RuntimeConfig(budget=BudgetConfig(max_input_tokens=tokens, reserved_reply_tokens=0))


@contextmanager
def warnings_of_the_engine() -> Iterator[list[str]]:
    """The engine's warnings as they are logged."""
    log_lines: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: log_lines.append(record.getMessage())  # type: ignore[method-assign] # a list is all
    logger = logging.getLogger("ce_engine")
    logger.addHandler(handler)
    try:
        yield log_lines
    finally:
        logger.removeHandler(handler)


class Budgets(Agents):
    """What goes out, within a budget for less than the app sends."""

    @needs("retrieval")
    def test_over_budget_what_was_retrieved_is_shortened_where_it_stands(
        self, trial: SideBySide, way: Way
    ) -> None:
        """In the system's message, too: the best page stays, and nothing of the app's own goes."""
        drive = trial.asking(QUESTIONS, way)
        with Wire("So it is.") as wire:
            plain = trial.played(wire, self.make_retrieving(wire, LONG_PAGES), drive)
        with Wire("So it is.") as wire:
            target, config = self.make_retrieving(wire, LONG_PAGES), budget_of(RETRIEVED_BUDGET)
            ce_run = trial.installed(wire, target, drive, config=config)
        assert ce_run.result == plain.result
        assert min(map(count, plain.bodies)) > RETRIEVED_BUDGET
        for question, body in zip(QUESTIONS, ce_run.bodies, strict=True):
            assert count(body) <= RETRIEVED_BUDGET
            words = _texts(body)
            assert LONG_PAGES[0].text[:40] in words
            assert LONG_PAGES[-1].text[:40] not in words
            assert "[… " in words
            assert question in words
        assert _over(trial.turns()) == []

    @needs("helpers")
    def test_over_budget_a_framework_s_own_call_loses_the_oldest_of_the_talk(
        self, trial: SideBySide, way: Way
    ) -> None:
        """Its task stays, and the newest of what it is about."""
        asides: list[bool] = []

        def answers(body: JsonObject) -> str:
            aside = self.aside(body)
            asides.append(aside is not None)
            return aside or LONG_ANSWER

        drive = trial.asking(LONG_QUESTIONS, way)
        with Wire(answers) as wire:
            plain = trial.played(wire, self.make_helped(wire), drive)
        with Wire(answers) as wire:
            target, config = self.make_helped(wire), budget_of(HELPED_BUDGET)
            ce_run = trial.installed(wire, target, drive, config=config)
        asides = asides[: len(plain.bodies)]
        helped = [n for n, aside in enumerate(asides) if aside]
        assert count(plain.bodies[helped[-1]]) > HELPED_BUDGET
        assert [count(body) for body in ce_run.bodies if count(body) > HELPED_BUDGET] == []
        assert _over(trial.turns()) == []
        newest = ce_run.bodies[helped[-1]]
        assert self.aside(newest) is not None, "its task is gone"
        assert LONG_QUESTIONS[0] not in _texts(newest)
        assert LONG_QUESTIONS[-1] in _texts(newest)

    def test_with_room_a_call_costs_what_it_costs_without_us(
        self, trial: SideBySide, way: Way
    ) -> None:
        """As many tokens, of which as many begin like the call before; and the bodies say how many."""
        script, tools = self.talk()
        ce_run = trial.drive(trial.asking(QUESTIONS, way), script, tools)
        reports = [turn.report for turn in trial.turns()]
        for report in reports:
            sent_counts = report["token_used"], report.get("prefix_tokens_unchanged")
            assert (report["untouched"]["tokens"], report["untouched"].get("prefix")) == sent_counts
        _check_prefixes(ce_run.bodies, [report["untouched"] for report in reports])

    def test_over_budget_what_it_costs_without_us_is_what_the_app_sends_then(
        self, trial: SideBySide, way: Way
    ) -> None:
        drive = trial.asking(LONG_QUESTIONS, way)
        script = [text(LONG_ANSWER) for _ in LONG_QUESTIONS]
        plain = trial.plain(drive, script)
        ce_run = trial.drive(drive, script, config=budget_of(HELPED_BUDGET))
        assert count(ce_run.bodies[-1]) < count(plain.bodies[-1])
        _check_prefixes(plain.bodies, [turn.report["untouched"] for turn in trial.turns()])

    def test_what_goes_out_over_its_budget_is_told(self, trial: SideBySide, way: Way) -> None:
        """What never goes is more than the budget: the report says what, and the log, once."""
        with warnings_of_the_engine() as log_lines:
            drive, (script, tools) = trial.asking(QUESTIONS, way), self.talk()
            ce_run = trial.drive(drive, script, tools, config=budget_of(TINY_BUDGET))
        assert min(map(count, ce_run.bodies)) > TINY_BUDGET
        self.check_told(trial, ce_run, log_lines, TINY_BUDGET)

    @needs("surfaces")
    def test_whoever_asks_the_model_stays_within_the_budget_or_is_told(
        self, trial: SideBySide, surface: str
    ) -> None:
        way_in = self.surfaces[surface]
        for n, budget in enumerate((TINY_BUDGET, 60, 300)):
            with Wire(way_in.script) as wire, warnings_of_the_engine() as log_lines:
                target, ask = way_in.make(self, wire)

                def drive(_: Any, ask: Any = ask, session: str = f"{SESSION} {n}") -> Any:
                    with ce_session(session):
                        return trial.finished(ask(QUESTIONS[0]))

                ce_run = trial.installed(wire, target, drive, config=budget_of(budget))
            self.check_told(trial, ce_run, log_lines, budget, f"{SESSION} {n}")

    @needs("teams")
    def test_what_a_team_sends_stays_within_the_budget_or_is_told(
        self, trial: SideBySide, way: Way
    ) -> None:
        self.check_agents(trial, self.make_team, self.team_script, way)

    @needs("groups")
    def test_what_a_group_sends_stays_within_the_budget_or_is_told(
        self, trial: SideBySide, way: Way
    ) -> None:
        self.check_agents(trial, self.make_group, self.group_answers(), way)

    def check_agents(self, trial: SideBySide, make: Any, script: Any, way: Way) -> None:
        """Agents that work together, in budgets for nothing, and for some."""
        questions = QUESTIONS[: 1 if make == self.make_team else None]
        for budget in (TINY_BUDGET, 90):
            session = f"{SESSION} {budget}"
            with Wire(script) as wire, warnings_of_the_engine() as log_lines:
                drive = trial.asking(questions, way, session)
                ce_run = trial.installed(wire, make(wire), drive, config=budget_of(budget))
            assert len(ce_run.bodies) >= len(questions)
            self.check_told(trial, ce_run, log_lines, budget, session)

    def check_told(
        self,
        trial: SideBySide,
        run: AppRun,
        warnings: Sequence[str],
        budget: int,
        session: str = SESSION,
    ) -> None:
        """Each body over the budget is one that a report names, with the cause, and the log its session, once."""
        over_turns = _over(trial.turns(session))
        over = [count(body) for body in run.bodies if count(body) > budget]
        assert len(over) <= len(over_turns)
        for turn in over_turns:
            causes = turn.report.get("over_budget_causes") or {}
            assert causes, "no cause"
            assert sum(causes.values()) <= turn.report["token_used"]
        lines = Counter(line.partition(":")[0] for line in warnings if "its budget has" in line)
        assert lines == Counter([f"session {session}"] if over_turns else [])
        for line in warnings:
            assert SYSTEM not in line
            assert not any(question in line for question in QUESTIONS)


def _check_prefixes(bodies: Sequence[JsonObject], figures: Sequence[JsonObject]) -> None:
    """The tokens that are told are those of the bodies, and each begins like the one before as far as is told.

    Ours is an upper bound, by at most `MARGIN` of it and `FRAME` a message.
    """
    assert len(bodies) == len(figures) > 1
    for body, figure in zip(bodies, figures, strict=True):
        _check_count(body, figure["tokens"], 0)
    for (last, body), figure in zip(pairwise(bodies), figures[1:], strict=True):
        old, new = last["messages"], body["messages"]
        same = next(
            (n for n, pair in enumerate(zip(old, new, strict=False)) if len({*map(str, pair)}) > 1),
            len(old),
        )
        _check_count({**body, "messages": new[:same]}, figure.get("prefix") or 0, PRIMING)


def _check_count(body: JsonObject, tokens: int, less: int) -> None:
    least = count(body) - less
    assert least <= tokens <= least * MARGIN + FRAME * (len(body["messages"]) + 2)


def _over(turns: Sequence[TurnRow]) -> list[TurnRow]:
    return [turn for turn in turns if turn.report.get("over_budget")]


def _texts(body: JsonObject) -> str:
    """What a body says."""
    contents = (message.get("content") or "" for message in body["messages"])
    return "\n".join(
        content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
        for content in contents
    )
