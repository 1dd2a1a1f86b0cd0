"""Contract: with room the app sends and gets the same; without room, what goes out fits and is whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from ce_engine import BudgetConfig, Extend, Insert, Layer, Role, RuntimeConfig, Shorten, Step
from ce_integrations.install.adapter import Way
from ce_integrations.testing.answers import JsonObject, text
from ce_integrations.testing.contract_case import (
    ANSWERS,
    QUESTIONS,
    ContractCase,
    count,
    questions_in,
    read,
    turning,
)
from ce_integrations.testing.forgeries import split, text_of
from ce_integrations.testing.framework_apps import SYSTEM, needs
from ce_integrations.testing.side_by_side import SESSION, AppRun, SideBySide
from ce_integrations.testing.wire import Wire


PAGES = 6
TALK = 12

ANSWER_IN_WORDS = (
    "an answer in words is to be the app's answer, as it is, at once: "
    "where the framework wants more of its models, `make_target` gives one that adds it"
)
SYSTEM_FIRST = "the first message is to be the system's, and to say `SYSTEM` alone"
WORD_FOR_WORD = (
    "what the user says is to go out word for word, each text a message of role `user` of its own, "
    "and nothing else in that role: where the framework frames it, joins messages, or sends results "
    "as the user's, `make_target` gives a model that sends them plainly"
)
NOT_THE_APP_S = (
    "a message is not the app's: the hooks are given the very objects that the framework hands to its "
    "model, and with room these go on"
)


class Transparency(ContractCase):
    """What the app and its provider notice of us."""

    def test_the_suite_can_read_what_an_app_sends(self, trial: SideBySide, way: Way) -> None:
        """Of an app without us: what fails here makes others fail, in other words."""
        script, tools = self.talk()
        plain = trial.plain(trial.asking(QUESTIONS, way), script, tools)
        assert plain.result == list(ANSWERS), ANSWER_IN_WORDS
        assert len(plain.bodies) == len(script), ANSWER_IN_WORDS
        for n, body in enumerate(plain.bodies):
            first = body["messages"][0]
            assert (first["role"], text_of(first)) == ("system", SYSTEM), SYSTEM_FIRST
            question_count = 1 + n * len(QUESTIONS) // len(script)
            assert questions_in(body) == list(QUESTIONS[:question_count]), WORD_FOR_WORD

    def test_with_room_the_provider_gets_the_same_bytes(self, trial: SideBySide, way: Way) -> None:
        plain, ce_run = self.both(trial, trial.asking(QUESTIONS, way))
        assert len(plain.raw) == len(self.talk()[0])
        assert ce_run.result == plain.result
        assert ce_run.raw == plain.raw

    def test_with_room_no_message_is_rebuilt(self, trial: SideBySide, way: Way) -> None:
        _, ce_run = self.both(trial, trial.asking(QUESTIONS, way))
        assert len(ce_run.received) == len(ce_run.inputs) == len(self.talk()[0])
        for received, natives in zip(ce_run.received, ce_run.inputs, strict=True):
            same = [native for native in natives if any(native is other for other in received)]
            assert list(map(id, same)) == list(map(id, received)), NOT_THE_APP_S
            # A system prompt that is no message of the framework's is made one for us.
            new = [native for native in natives if all(native is not other for other in received)]
            assert {self.adapter.map_message(native).role for native in new} <= {Role.SYSTEM}

    @needs("teams")
    def test_a_team_sends_the_same_bytes(self, trial: SideBySide, way: Way) -> None:
        plain, ce_run = self.team(trial, way)
        assert len(plain.raw) == len(self.team_script) > 2
        assert ce_run.result == plain.result
        assert ce_run.raw == plain.raw

    @needs("tools")
    @pytest.mark.parametrize("budget", [900, 2500])
    def test_over_budget_what_goes_out_fits_and_is_whole(
        self, trial: SideBySide, way: Way, budget: int
    ) -> None:
        """And the app's own messages stay as they are."""
        plain, ce_run = self.reading(trial, way, budget)
        assert len(ce_run.bodies) == len(plain.bodies) == 2 * (PAGES + 1)
        assert ce_run.result == plain.result
        for n, (body, whole) in enumerate(zip(ce_run.bodies, plain.bodies, strict=True)):
            assert count(body) <= budget
            assert text_of(body["messages"][0]).startswith(SYSTEM)
            assert questions_in(body)[-1].endswith(QUESTIONS[n // (PAGES + 1)])
            assert _unpaired(body) == []
            assert _is_subsequence(_ids(body), _ids(whole))
        assert len(ce_run.bodies[-1]["messages"]) < len(plain.bodies[-1]["messages"])
        for natives, received in zip(ce_run.inputs, plain.received, strict=True):
            self.check_texts(natives, received)

    def test_over_budget_a_long_talk_fits(self, trial: SideBySide, way: Way) -> None:
        questions = [f"lane and turn {n} 车道" * (1 + n % 3) for n in range(TALK)]
        budget = BudgetConfig(max_input_tokens=150, reserved_reply_tokens=0)
        drive, script = trial.asking(questions, way), [text(f"So {topic}") for topic in questions]
        plain = trial.plain(drive, script)
        ce_run = trial.drive(drive, script, budget=budget)
        assert ce_run.result == plain.result
        for question, body, whole in zip(questions, ce_run.bodies, plain.bodies, strict=True):
            assert count(body) <= 150
            first, *others = body["messages"]
            assert (first["role"], text_of(first)[: len(SYSTEM)]) == ("system", SYSTEM)
            assert text_of(others[-1]).endswith(question)
            rests = [split(text_of(other)).rest for other in others if other["role"] != "system"]
            assert _is_subsequence(rests[:-1], list(map(text_of, whole["messages"])))
        assert len(ce_run.bodies[-1]["messages"]) < len(plain.bodies[-1]["messages"])
        for natives, received in zip(ce_run.inputs, plain.received, strict=True):
            self.check_texts(natives, received)

    def test_a_message_of_a_plan_has_another_text_and_nothing_else(self, trial: SideBySide) -> None:
        """What the engine asks an adapter to make, of each kind of message that the app has."""
        _, ce_run = self.both(trial, trial.asking(QUESTIONS, self.adapter.capabilities.ways[0]))
        for native in self._parts(native for natives in ce_run.inputs for native in natives):
            before = repr(self.adapter.to_schema(native))
            own = self.adapter.map_message(native)
            steps: list[tuple[Step, str]] = [
                (Shorten(0, "短 short"), "短 short"),
                (Extend(0, " more 更多"), f"{own.content} more 更多"),
                (Extend(0, "before 之前 ", before=True), f"before 之前 {own.content}"),
            ]
            for step, text_ in steps:
                new = self.adapter.map_message(self.adapter.to_native(step, native))
                assert new == own.model_copy(update={"content": text_}), f"{step} of a {own.role}"
            assert repr(self.adapter.to_schema(native)) == before, "to_native changed the app's"
        for role in (Role.SYSTEM, Role.USER):
            step = Insert("A fact. 事实", Layer.RETRIEVED, role=role)
            fact = self.adapter.map_message(self.adapter.to_native(step, None))
            assert (fact.role, fact.content) == (role, "A fact. 事实")

    def check_texts(self, messages: list[Any], whole: list[Any]) -> None:
        """The app's messages are what they would be without us; `messages` may begin with a system prompt."""
        before = len(messages) - len(whole)
        assert self._lines(messages[before:]) == self._lines(whole)

    def team(self, trial: SideBySide, way: Way) -> tuple[AppRun, AppRun]:
        """A team without us and with us."""
        drive = trial.asking(QUESTIONS[:1], way)
        with Wire(self.team_script) as wire:
            plain = trial.played(wire, self.make_team(wire), drive)
        with Wire(self.team_script) as wire:
            return plain, trial.installed(wire, self.make_team(wire), drive)

    def reading(self, trial: SideBySide, way: Way, budget: int) -> tuple[AppRun, AppRun]:
        """A conversation that outgrows its budget, without us and with us."""
        pages = [turning(page) for page in range(1, PAGES + 1)]
        script = [*pages, text("Read."), *pages, text("And read again.")]
        drive = trial.asking(QUESTIONS, way)
        config = RuntimeConfig(
            budget=BudgetConfig(max_input_tokens=budget, reserved_reply_tokens=0)
        )
        plain = trial.plain(drive, script, (read,))
        ce_run = trial.drive(drive, script, (read,), config=config)
        assert ce_run.installation is not None
        report = ce_run.installation.last_report(SESSION)
        assert report is not None
        assert report.dropped + report.shortened > 0
        return plain, ce_run

    def _lines(self, natives: list[Any]) -> list[str]:
        """What they say, however it is split: only where it heard tools may an adapter tell results apart."""
        parts = map(self.adapter.to_schema, self._parts(natives))
        return "\n".join(part.message.content for part in parts).split("\n")

    def _parts(self, natives: Iterable[Any]) -> Iterator[Any]:
        return (part for native in natives for part in self.adapter.split(native))


def _ids(body: JsonObject) -> list[str]:
    """The ids of calls and of results, in the order in which they go out."""
    ids = []
    for message in body["messages"]:
        ids += [f"call {call['id']}" for call in message.get("tool_calls") or ()]
        ids += [f"result {message['tool_call_id']}"] if message["role"] == "tool" else []
    return ids


def _unpaired(body: JsonObject) -> list[str]:
    ids = [entry.split(" ", 1) for entry in _ids(body)]
    calls = sorted(call_id for kind, call_id in ids if kind == "call")
    results = sorted(call_id for kind, call_id in ids if kind == "result")
    return [] if calls == results else [*calls, *results]


def _is_subsequence(some: list[str], every: list[str]) -> bool:
    remaining = iter(every)
    return all(item in remaining for item in some)
