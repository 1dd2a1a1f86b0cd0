"""With an embedder a question finds what it shares no word with; where that fails, words alone choose (A-10)."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from weakref import ref

import pytest

from ce_engine import ContextEngine, EventType, Message, Role, Scope
from tests.hosts.embed_host import (
    ASKED,
    ASKED_ZH,
    FACTS,
    FACTS_ZH,
    WRONG,
    EnglishOnly,
    Failing,
    Slow,
    Subjects,
    ask,
    engine_with,
    sent,
    settings,
    talk,
)


FAILED = "CONTEXT_EMBED_FAILED"


@pytest.fixture
def engines() -> Iterator[list[ContextEngine]]:
    made: list[ContextEngine] = []
    yield made
    for engine in made:
        engine.sync.close()


def engine(engines: list[ContextEngine], embedder: Any, *where: Any, **config: Any) -> Any:
    made = engine_with(embedder, *where, **config)
    engines.append(made)
    return made


@pytest.mark.parametrize(("facts", "asked"), [(FACTS, ASKED), (FACTS_ZH, ASKED_ZH)])
def test_a_question_finds_what_it_shares_no_word_with(
    engines: list[ContextEngine], facts: tuple[str, ...], asked: str
) -> None:
    with_it = engine(engines, Subjects())
    talk(with_it, facts)
    found = ask(with_it, asked)
    assert facts[0] in sent(found)
    assert found.report.degradations == []
    best = with_it.sync.explain("s").brought_in[0]
    assert best.text == facts[0]
    assert best.features["meaning"] > 0


def test_what_has_room_is_not_embedded(engines: list[ContextEngine]) -> None:
    embedder = Subjects()
    roomy = engine(engines, embedder, tokens=100_000)
    talk(roomy)
    ask(roomy, ASKED)
    assert embedder.asked == []


def test_a_text_is_embedded_once(engines: list[ContextEngine]) -> None:
    embedder = Subjects()
    made = engine(engines, embedder)
    talk(made)
    for asked in (ASKED, "What about pets?", "And money?"):
        ask(made, asked)
        made.sync.commit_assistant_message(
            "s", Message(role=Role.ASSISTANT, content=f"{asked} Hm.")
        )
    talk(made, (), more=2)
    facts = [text for text in embedder.texts if text in FACTS]
    assert sorted(facts) == sorted(FACTS)


def test_an_embedder_is_given_nothing_unredacted(engines: list[ContextEngine]) -> None:
    embedder = Subjects()
    made = engine(engines, embedder)
    talk(made, ("Write to my husband: luis@example.com.", *FACTS))
    ask(made, f"{ASKED} I am ana@example.com, 她的电话是13812345678。")
    assert any("[EMAIL_1]" in text for text in embedder.texts)
    assert not [text for text in embedder.texts if "@example" in text or "13812345678" in text]


def ranking(made: ContextEngine) -> list[tuple[str, float | None, dict[str, float]]]:
    """What the last question brought in, best first, with its score and what the score is made of."""
    brought = made.sync.explain("s").brought_in
    return [(line.text, line.score, line.features) for line in brought]


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_where_it_fails_words_alone_choose(
    engines: list[ContextEngine], wrong: Any, caplog: pytest.LogCaptureFixture
) -> None:
    plain, failing = engine(engines, None), engine(engines, Failing(answer=wrong))
    with caplog.at_level(logging.WARNING, "ce_engine"):
        for made in (plain, failing):
            talk(made)
    asked = "What did the dog do with the carpet?"
    without, found = ask(plain, asked), ask(failing, asked)
    assert FACTS[3] in sent(found)
    # The last lines may differ: ids are random, and so is the room that they take.
    pairs = list(zip(ranking(failing), ranking(plain), strict=False))
    assert len(pairs) > len(FACTS)
    assert [one for one, _ in pairs] == [other for _, other in pairs]
    assert not [line for line, _ in pairs if "meaning" in line[2]]
    assert without.report.degradations == []
    assert found.report.degradations == [FAILED]
    told = [e for e in failing.sync.list_events("s") if e.event_type == EventType.DEGRADED]
    assert {(e.payload["code"], e.payload["reason"]) for e in told} == {(FAILED, "embed_failed")}
    assert "embedding failed" in caplog.text
    assert "SECRET" not in caplog.text


def test_a_slow_one_is_not_waited_for_and_helps_the_next_question(
    engines: list[ContextEngine],
) -> None:
    embedder = Slow()
    made = engine(engines, embedder, deadline_s=0.01)
    talk(made)
    first = ask(made, ASKED)
    assert first.report.degradations == [FAILED]
    made.sync.commit_assistant_message("s", Message(role=Role.ASSISTANT, content="Hm."))

    async def go_on() -> bool:
        embedder.may.set()
        return bool(await made._embedding.settle(20))

    assert made.sync._run(made.loop.share(go_on()))
    assert ask(made, "Is astronomy what she likes?", settings()).report.degradations == []
    best = made.sync.explain("s").brought_in[0]
    assert best.text == FACTS[1]
    assert best.features["meaning"] > 0


def test_what_it_cannot_read_is_found_by_its_words(engines: list[ContextEngine]) -> None:
    english = engine(engines, EnglishOnly())
    talk(english, FACTS_ZH)
    found = ask(english, "狗吃了什么?")
    assert FACTS_ZH[3] in sent(found)
    assert found.report.degradations == []
    told = english.sync.explain("s").brought_in
    assert [line.text for line in told if "meaning" in line.features] == []


def test_a_replay_chooses_alike_or_says_why_not(
    engines: list[ContextEngine], tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'ce.db'}"
    first = engine(engines, Subjects(), url)
    talk(first)
    ask(first, ASKED)
    first.sync.flush()
    for embedder, problems in (
        (Subjects(), []),
        (None, ["CONTEXT_REPLAY_EMBEDDER"]),
        (Subjects(name="other"), ["CONTEXT_REPLAY_EMBEDDER"]),
        (Failing(answer=RuntimeError()), ["CONTEXT_REPLAY_EMBEDDER"]),
    ):
        again = engine(engines, embedder, url)
        replay = again.sync.replay("s")
        assert [problem.code for problem in replay.problems] == problems
        assert replay.equal or problems
    assert first.sync.replay("s").equal


def test_another_process_goes_on_alike(engines: list[ContextEngine], tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ce.db'}"
    first = engine(engines, Subjects(), url)
    talk(first)
    first.sync.flush()
    other, same = engine(engines, Subjects(), url), Message(role=Role.USER, content=ASKED)
    here = ask(first, ASKED)
    first.sync.fail_turn("s", "lost")
    first.sync.flush()
    assert FACTS[0] in sent(here)
    assert sent(other.sync.prepare_turn("s", same)) == sent(here)


def test_vectors_go_with_their_session(engines: list[ContextEngine]) -> None:
    made = engine(engines, Subjects())
    talk(made)
    ask(made, ASKED)
    vectors = ref(made._sessions.peek(Scope(session_id="s")).vectors)
    assert vectors() is not None
    made.sync.delete_session("s")
    gc.collect()
    assert vectors() is None
