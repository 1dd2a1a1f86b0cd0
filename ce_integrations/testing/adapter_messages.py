"""Contract: what goes back is the app's message but for its text; nothing of it or of a call goes uncounted or unseen."""

from __future__ import annotations

import copy
import json
import operator
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from ce_engine import BudgetConfig, RuntimeConfig, Shorten
from ce_integrations.install.adapter import Hooks, Way
from ce_integrations.testing.adapter_transparency import Transparency
from ce_integrations.testing.answers import Answer, Call, text, tool_calls
from ce_integrations.testing.contract_case import QUESTIONS, broken, count
from ce_integrations.testing.framework_apps import needs
from ce_integrations.testing.side_by_side import SideBySide


NEW = "another text 别的话"
"""In place of what a message says."""

SPACE = 120
"""Tokens that a talk has beside what every call of it holds."""

TALK = 10


def described(word: str) -> str:
    """Look a word up."""
    return f"{word} means 意思"


described.__doc__ = "Look a word up. " + "It may be a word of any language. 什么语言都可以。 " * 12


class Messages(Transparency):
    """What the app's messages hold beside their text, and what a call holds beside messages."""

    def test_what_goes_back_holds_all_that_the_app_s_message_held(self, trial: SideBySide) -> None:
        """Names, ids, metadata: whatever the framework has."""
        for native in self._natives(trial):
            for part in map(self.annotated, self.adapter.split(native)):
                new_part = self.adapter.to_native(Shorten(0, NEW), part)
                assert type(new_part) is type(part)
                after, own = dict(_attributes(new_part)), dict(_attributes(part))
                new = [name for name, value in after.items() if NEW in str(value)]
                assert new, "the new text is nowhere"
                losses = [name for name in own if name not in new and after.get(name) != own[name]]
                assert losses == [], f"a {type(part).__name__} loses {losses}"

    def test_what_the_app_changes_in_its_message_is_seen(self, trial: SideBySide) -> None:
        """Apps edit their messages in place, and send them again."""
        for native in self._natives(trial):
            with self.adapter.install_ce(self._target, engine=trial.engine) as installation:
                mapper, own_copy = installation.hooks._known, copy.copy(native)  # noqa: SLF001 - what every call maps by
                before = [host.message.content for host in mapper(own_copy)]
                assert [host.message.content for host in mapper(own_copy)] == before
                for name, value in _attributes(self._changed(own_copy)):
                    _put(own_copy, name, value)
                assert [host.message.content for host in mapper(own_copy)] == [NEW] * len(before)

    @needs("tools")
    def test_over_budget_the_tools_are_counted(self, trial: SideBySide, way: Way) -> None:
        questions = [f"lane and turn {n} 车道" * (1 + n % 3) for n in range(TALK)]
        drive, script = trial.asking(questions, way), [text(f"So {topic}") for topic in questions]
        plain = trial.plain(drive, script, (described,))
        budget = count(plain.bodies[0]) + SPACE
        assert count({**plain.bodies[0], "tools": []}) < budget / 2
        limit = BudgetConfig(max_input_tokens=budget, reserved_reply_tokens=0)
        ce_run = trial.drive(drive, script, (described,), config=RuntimeConfig(budget=limit))
        assert ce_run.result == plain.result
        assert [count(body) for body in ce_run.bodies if count(body) > budget] == []
        assert len(ce_run.bodies[-1]["messages"]) < len(plain.bodies[-1]["messages"])

    @needs("tools")
    def test_arguments_count_as_they_go_out(self, trial: SideBySide, way: Way) -> None:
        """Models may write signs beyond ASCII as escapes, and frameworks keep what they wrote."""
        call = Call("described", json.dumps({"word": "上海明天天气如何" * 12}))
        script = [Answer(calls=(call,)), text("It is a city.")]
        run = trial.drive(lambda target: trial.ask(target, QUESTIONS[0], way), script, (described,))
        used = [turn.report["token_used"] for turn in trial.turns()]
        assert [n >= count(body) for n, body in zip(used, run.bodies, strict=True)] == [True] * 2

    @needs("tools")
    @pytest.mark.parametrize("teller", ["the run", "the message"])
    def test_a_result_says_that_its_tool_failed(
        self, trial: SideBySide, way: Way, teller: str
    ) -> None:
        """Whether the run is heard, or the message alone says so, as in lists from elsewhere.

        A call without its arguments fails in every framework, and most let other errors through.
        """
        if teller == "the message":
            if not self.adapter.capabilities.tool_errors:
                return
            trial.patch.setattr(Hooks, "tool_call", lambda *_: None)
        script = [tool_calls([("broken", {})]), text("It does not work.")]
        trial.drive(lambda target: trial.ask(target, QUESTIONS[0], way), script, (broken,))
        results = [m for m in trial.document().session.messages if m.role == "tool"]
        assert [message.status for message in results] == ["error"]

    def _natives(self, trial: SideBySide) -> Iterator[Any]:
        """Messages of each kind that the app has."""
        _, ce_run = self.both(trial, trial.asking(QUESTIONS, self.adapter.capabilities.ways[0]))
        self._target = ce_run.target
        return (native for natives in ce_run.inputs for native in natives)

    def _changed(self, native: Any) -> Any:
        """A copy with another text."""
        parts = self.adapter.split(native)
        new_parts = [self.adapter.to_native(Shorten(n, NEW), part) for n, part in enumerate(parts)]
        return new_parts[0] if len(parts) == 1 else self.adapter.join(native, new_parts)


def _attributes(native: Any) -> Iterator[tuple[str, Any]]:
    """What a message holds, by name, be it a model, a dataclass, a dict or a plain object."""
    if isinstance(native, Mapping):
        yield from native.items()
        return
    if is_dataclass(native) and not hasattr(native, "__dict__"):
        yield from ((field.name, getattr(native, field.name)) for field in fields(native))
    else:
        yield from vars(native).items()
        extra = getattr(native, "__pydantic_extra__", None)
        yield from (extra.items() if isinstance(extra, Mapping) else ())


def _put(native: Any, name: str, value: object) -> None:
    """Change a message in place."""
    if isinstance(native, Mapping):
        operator.setitem(native, name, value)  # type: ignore[call-overload]  # apps have dicts
    else:
        object.__setattr__(native, name, value)
