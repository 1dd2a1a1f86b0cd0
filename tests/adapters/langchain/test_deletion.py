"""What is deleted is gone from what the process remembers, the adapter's part of it too."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel

from ce_engine import HostMessage, Scope
from ce_integrations.langchain import install_ce


def held(text: str) -> list[HostMessage]:
    """Mapped messages that say so, wherever in the process they are held."""
    gc.collect()
    found = (each for each in gc.get_objects() if isinstance(each, HostMessage))
    return [each for each in found if text in each.message.content]


@pytest.mark.req("A-30")
@pytest.mark.parametrize("what", ["session", "user"])
def test_a_deletion_empties_what_is_remembered_of_messages(engine: Any, what: str) -> None:
    model = FakeListChatModel(responses=["I see"])
    said = "my locker has the number four thousand and seven"
    with install_ce(model, engine=engine, session_id="s", user_id="ann"):
        model.invoke(said)
        assert held(said)
        if what == "session":
            engine.sync.delete_session(Scope(session_id="s", user_id="ann"))
        else:
            engine.sync.delete_user_data("", "ann")
        assert held(said) == []
        model.invoke("And now?")
