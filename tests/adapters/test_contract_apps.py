"""The contract suite says of an app what it cannot read, before other tests fail by it in other words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ce_integrations.testing.answers import JsonObject
from ce_integrations.testing.side_by_side import SideBySide
from ce_integrations.testing.wire import Wire
from tests.adapters import heralds
from tests.adapters.heralds import Herald, Note
from tests.adapters.test_contract_pushed import HeraldAdapter
from tests.adapters.test_contract_pushed import TestHeralds as Heralds


Patch = pytest.MonkeyPatch
Change = Callable[[JsonObject], None]

READABLE = "test_the_suite_can_read_what_an_app_sends"
OTHERS = (
    "test_two_sessions_at_once_never_mix",
    "test_what_nobody_named_is_each_app_s_own",
    "test_what_was_said_before_does_not_go_in_unasked",
    "test_over_budget_a_long_talk_fits",
)
"""Tests that read what goes out, and have the model answer to it."""


def sends(patch: Patch, change: Change) -> None:
    """Have the framework change each message on its way out."""
    plain = heralds.body

    def body(messages: list[Note]) -> JsonObject:
        made: JsonObject = plain([Note(each.role, each.content) for each in messages])
        for message in made["messages"]:
            change(message)
        return made

    patch.setattr(heralds, "body", body)


def run(test: str) -> None:
    with SideBySide(Heralds()) as trial:
        getattr(Heralds(), test)(trial, "sync")


def frames(message: JsonObject) -> None:
    if message["role"] == "user":
        message["content"] = f"New task:\n{message['content']}"


def sends_answers_as_the_user_s(message: JsonObject) -> None:
    if message["role"] == "assistant":
        message["role"] = "user"


def frames_the_system_s(message: JsonObject) -> None:
    if message["role"] == "system":
        message["content"] += "\nNow begin!"


@pytest.mark.req("A-27")
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (frames, "word for word"),
        (sends_answers_as_the_user_s, "nothing else in that role"),
        (frames_the_system_s, "SYSTEM"),
    ],
)
def test_an_app_whose_words_are_not_to_be_read_is_told_why(
    change: Change, said: str, monkeypatch: Patch
) -> None:
    run(READABLE)
    sends(monkeypatch, change)
    with pytest.raises(AssertionError, match=said):
        run(READABLE)


@pytest.mark.req("A-27")
def test_an_app_whose_answer_is_not_the_model_s_is_told_why(monkeypatch: Patch) -> None:
    plain = Herald.run
    monkeypatch.setattr(
        Herald, "run", lambda *args, **named: f"Final answer: {plain(*args, **named)}"
    )
    with pytest.raises(AssertionError, match="an answer in words"):
        run(READABLE)


@pytest.mark.req("A-27")
@pytest.mark.parametrize("test", [READABLE, *OTHERS])
def test_words_in_blocks_are_read_as_well(test: str, monkeypatch: Patch) -> None:
    def into_blocks(message: JsonObject) -> None:
        message["content"] = [{"type": "text", "text": message["content"]}]

    sends(monkeypatch, into_blocks)
    run(test)


@pytest.mark.req("A-27")
def test_texts_are_the_same_however_they_are_split(monkeypatch: Patch) -> None:
    """An adapter may know results apart that the framework's list has as one text."""
    heard = Note("user", "one\ntwo")

    def split(_: HeraldAdapter, native: Note) -> Sequence[Note]:
        texts = native.content.split("\n") if native is heard else [native.content]
        return [Note(native.role, text) for text in texts]

    monkeypatch.setattr(HeraldAdapter, "split", split)
    suite: Any = Heralds()
    suite.check_texts([Note("system", "You help."), heard], [Note("user", "one\ntwo")])
    with pytest.raises(AssertionError):
        suite.check_texts([heard], [Note("user", "one\nthree")])


class Alike(Heralds):
    """Herald's apps, which are the same in every test."""

    are_alike = True


def conversations(suite: type[Heralds], drives: Callable[[SideBySide], Sequence[Any]]) -> int:
    """How many apps are made in two tests that ask them the same without us."""
    made: list[Herald] = []

    class Counted(suite):  # type: ignore[misc, valid-type]  # the suite that is asked for
        def make_target(self, wire: Wire, tools: Any = ()) -> Herald:
            made.append(super().make_target(wire, tools))
            return made[-1]

    runs = []
    for _ in range(2):
        with SideBySide(Counted()) as trial:
            runs.append([trial.plain(drive, "A lane. 车道") for drive in drives(trial)])
    first, second = runs
    assert [(run.raw, run.result) for run in first] == [(run.raw, run.result) for run in second]
    return len(made)


@pytest.mark.req("A-27")
def test_apps_that_are_alike_have_a_conversation_without_us_once() -> None:
    def asking(trial: SideBySide) -> Sequence[Any]:
        return trial.asking(["cut?"], "sync"), trial.asking(["lane?"], "sync")

    def driving(trial: SideBySide) -> Sequence[Any]:
        return [lambda target: trial.ask(target, "cut?", "sync")]

    assert conversations(Alike, asking) == 2
    assert conversations(Heralds, asking) == 4, "fixtures may make another app of each test"
    assert conversations(Alike, driving) == 2, "nobody knows whether they ask the same"
