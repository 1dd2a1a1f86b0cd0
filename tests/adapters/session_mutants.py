"""What adapters get wrong about sessions: whose they are, and where they were named."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from ce_engine.runtime import scoped_variable
from ce_integrations.calls import agent_steps
from ce_integrations.calls import hooks as hooks_module
from ce_integrations.identity import session
from ce_integrations.identity.unnamed_sessions import UnnamedSessions
from ce_integrations.install.adapter import Adapter, Hooks


Patch = pytest.MonkeyPatch


def mixes_sessions(patch: Patch, _: Adapter[Any, Any]) -> None:
    """Everybody's words are in one session."""
    resolve = session.resolve

    def everybody(info: Any, choice: Any, messages: Any = ()) -> Any:
        found = resolve(info, choice, messages)
        scope = dataclasses.replace(found.scope, session_id="everybody")
        return session.CallIdentity(scope, found.ephemeral)

    patch.setattr(hooks_module, "resolve", everybody)


def forgets_its_answers(patch: Patch, _: Adapter[Any, Any]) -> None:
    """Each run that nobody named is a session of its own."""
    patch.setattr(UnnamedSessions, "_continued", lambda *_: None)


def shares_what_nobody_named(patch: Patch, _: Adapter[Any, Any]) -> None:
    """All that nobody named is one session."""
    patch.setattr(UnnamedSessions, "session_of", lambda *_, **__: "everybody's")


def names_what_nobody_named(patch: Patch, _: Adapter[Any, Any]) -> None:
    """A session that was made up is like one that somebody chose: later words may be brought in."""
    resolve = session.resolve

    def named(info: Any, choice: Any, messages: Any = ()) -> Any:
        return dataclasses.replace(resolve(info, choice, messages), ephemeral=False)

    patch.setattr(hooks_module, "resolve", named)


def remembers_unasked(patch: Patch, _: Adapter[Any, Any]) -> None:
    """Whatever a session has goes into every list that has no history."""
    patch.setattr(Hooks, "_asks_history", lambda *_: True)


def remembers_for_prompts(patch: Patch, adapter: Adapter[Any, Any]) -> None:
    """Where the app asks for history, it goes into the prompts of a model alone, too."""
    patch.setattr(type(adapter), "converses", lambda *_: True)
    begin = Hooks._begin

    def told(self: Any, natives: Any, info: Any) -> Any:
        return begin(self, natives, dataclasses.replace(info, takes_history=True))

    patch.setattr(Hooks, "_begin", told)


UNASKED = "test_what_was_said_before_does_not_go_in_unasked"
ALONE = "test_a_prompt_that_stands_alone_never_gets_what_was_said_before"


def forgets_where_the_app_asked(patch: Patch, _: Adapter[Any, Any]) -> None:
    """What counts is what was said where the framework's own task began."""
    resolve = session.resolve

    def here(info: Any, choice: Any, messages: Any = ()) -> Any:
        return resolve(dataclasses.replace(info, context=None, origin=None), choice, messages)

    patch.setattr(agent_steps, "_SAID", ())
    patch.setattr(hooks_module, "resolve", here)


def leaks_out_of_generators(patch: Patch, _: Adapter[Any, Any]) -> None:
    """What is said in a generator holds for whoever has the context."""
    patch.setattr(scoped_variable, "generator_around", lambda _: (None, False))
