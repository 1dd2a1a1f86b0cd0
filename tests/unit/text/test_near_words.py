"""Words that are used alike: an answer that shares none with its question is found, and the file is no must."""

from __future__ import annotations

import gzip
import logging
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from ce_engine import (
    BudgetConfig,
    MemoryStore,
    Message,
    ObservabilityConfig,
    Role,
    RuntimeConfig,
    create_context_engine,
)
from ce_engine.schema.text_cache import forget_texts
from ce_engine.text.relevance import near_words
from ce_engine.text.relevance.relevance import LexicalIndex


DECOYS = (
    "the train was late again this morning",
    "the printer is out of paper",
    "let us talk about the budget next",
    "the neighbours are painting their fence",
    "the coffee machine broke down",
)
PAIRS = [
    ("How was the surgery?", "My knee is as good as new."),
    ("Which hospital was it?", "The ambulance took an hour."),
    ("Did they like the pizza?", "A burger, and then another one."),
    ("Does he still play the guitar?", "The drummer moved to Oslo."),
]


def talk(needle: str, count: int = 400, at: int = 137) -> LexicalIndex:
    index = LexicalIndex()
    for n in range(count):
        index.add(n, needle if n == at else f"{DECOYS[n % 5]}, {DECOYS[n % 3]}")
    return index


def found(index: LexicalIndex, question: str) -> list[int]:
    return [hit.n for hit in index.search(question, limit=5)]


@pytest.fixture
def reread() -> Iterator[None]:
    """The file is read anew, in the test and behind it."""
    near_words._table.cache_clear()
    forget_texts()
    yield
    near_words._table.cache_clear()
    forget_texts()


@pytest.mark.parametrize(("question", "answer"), PAIRS)
def test_an_answer_that_has_only_a_near_word_is_found(question: str, answer: str) -> None:
    assert found(talk(answer), question) == [137]


def test_it_is_brought_back_over_the_budget() -> None:
    question, answer = PAIRS[0]
    said = [
        Message(role=(Role.USER, Role.ASSISTANT)[n % 2], content=f"{DECOYS[n % 5]}, {n} times")
        for n in range(300)
    ]
    said[90] = Message(role=Role.USER, content=answer)
    config = RuntimeConfig(
        budget=BudgetConfig(max_input_tokens=1000, reserved_reply_tokens=0),
        observability=ObservabilityConfig(inspect=True),
    )
    engine = create_context_engine(MemoryStore(), config=config)
    engine.sync.import_session("s", said)
    seen = engine.sync.inspect(("s", question), actor="")
    engine.sync.close()
    parts = [part.content for layer in seen.layers.values() for part in layer.parts]
    assert any(answer in part for part in parts)


def test_a_near_word_that_many_say_brings_nothing() -> None:
    question, answer = PAIRS[0]
    index = LexicalIndex()
    for n in range(400):
        index.add(n, answer if n % 20 == 0 else DECOYS[n % 5])
    assert found(index, question) == []


def test_the_very_word_is_worth_more() -> None:
    index = talk("The surgery went well.")
    index.add(400, "My knee is as good as new.")
    near, very = (dict(index.search("the surgery", limit=500))[n] for n in (400, 137))
    assert 0 < near < very / 2


def test_several_near_words_are_worth_no_more_than_one() -> None:
    one = talk("A burger.")
    more = talk("A burger, a sandwich, soup, bread and chicken.")
    assert one.search("pizza?", limit=1)[0].score == more.search("pizza?", limit=1)[0].score


@pytest.mark.parametrize("question", ["a talk on surgery", "a talk on marriage"])
def test_it_is_found_where_every_entry_has_the_other_words(question: str) -> None:
    index = LexicalIndex()
    for n in range(5000):
        index.add(n, "my husband's knee talks" if n == 3700 else "she talks")
    assert found(index, question)[0] == 3700


@pytest.mark.usefixtures("reread")
@pytest.mark.parametrize(
    "broken",
    [
        None,
        b"no gzip",
        b"\x1f\x8b\x08",
        gzip.compress(b"one\n", mtime=0),
        gzip.compress("\ufeff a\n".encode(), mtime=0),
        gzip.compress(b"surger knee\n" * 99, mtime=0)[:20],
    ],
)
def test_without_its_file_what_has_the_words_is_found(
    broken: bytes | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = tmp_path / near_words.FILE
    if broken is not None:
        path.write_bytes(broken)
    monkeypatch.setattr(near_words, "FILE", str(path))
    index = talk("My knee is as good as new.")
    with caplog.at_level(logging.WARNING, "ce_engine"):
        assert found(index, "How was the surgery?") == []
        assert found(index, "How is the knee?")[0] == 137
    assert [each.name for each in caplog.records] == ["ce_engine.text"]


def test_the_file_is_small_and_its_source_is_named() -> None:
    here = files("ce_engine.text.relevance")
    lines = gzip.decompress(here.joinpath(near_words.FILE).read_bytes()).decode("ascii").split("\n")
    assert len(lines) == len({line.split()[0] for line in lines}) == 8000
    assert {len(line.split()) for line in lines} == {9}
    assert "Public Domain" in here.joinpath("near_words.LICENSE").read_text("utf-8")
