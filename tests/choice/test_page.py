"""`docs/choice.md` says what the engine does."""

from __future__ import annotations

import pytest

from tests.choice.page import COMMAND, PAGE, asked, page
from tests.choice.talks import CHINESE, ENGLISH, Talk


def test_the_page_says_what_the_engine_does() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), f"make it again: {COMMAND}"


@pytest.mark.parametrize(("talk", "needed"), [(ENGLISH, "340 euros"), (CHINESE, "花生过敏")])
def test_what_the_question_needs_goes_in(talk: Talk, needed: str) -> None:
    made, _ = asked(talk, talk.messages())
    assert needed in "\n".join(part.content for part in made.assembled_input.parts)
    assert made.report.token_used <= talk.budget
