"""Of what does not fit as a whole, the best goes in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ce_engine import (
    BudgetConfig,
    CharBasedEstimator,
    ContextEngine,
    MemoryStore,
    Retrieval,
    RetrievedDoc,
    RuntimeConfig,
    Scope,
    create_context_engine,
)
from ce_engine.prepare.compose.render import excerpt, some_of
from ce_engine.testing.host import HostApp, user


SCOPE = Scope(session_id="s")
SMALL = RuntimeConfig(budget=BudgetConfig(max_input_tokens=120, reserved_reply_tokens=0))


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore(), token_estimator=CharBasedEstimator())
    yield made
    made.sync.close()


@pytest.mark.req("A-11")
@pytest.mark.parametrize(
    ("words", "rest", "question"),
    [
        ("The gate opens at dawn. ", "Boats lie there. ", "When does the gate open?"),
        ("港口大门天亮时开。", "那里停着许多小船和货物。", "港口大门什么时候开?"),
    ],
)
def test_the_best_document_goes_in_as_far_as_it_fits(
    engine: ContextEngine, words: str, rest: str, question: str
) -> None:
    """Rather than not at all: its sentence that the question is about."""
    document = f"{rest * 6}{words}{rest * 6}"
    engine.post_retrieval(SCOPE, Retrieval("kb", "q", [RetrievedDoc(document)], run_id="r"))
    app = HostApp(engine, SCOPE, [user("so on and so on " * 60), user(question)])
    prepared = app.prepare(config=SMALL)
    assert prepared.report.token_used <= 120
    assert words.strip() in "".join(part.content for part in prepared.assembled.parts)
    found = [d for d in prepared.report.prune_decisions if d.block_id.startswith("e:")]
    assert [(d.action, d.reason) for d in found] == [("degraded", "excerpt")]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("cffi is at 2.1.1; see a.b.c. It is new", ["cffi is at 2.1.1; see a.b.c. ", "It is new"]),
        ("1. Shut the valve. 2. Ring.", ["1. Shut the valve. ", "2. Ring."]),
        ("Rules:\n 1. 关阀门。 12. Wait\n", ["Rules:\n ", "1. 关阀门。 ", "12. Wait\n"]),
        ("It costs 15. Pay it.", ["It costs 15. ", "Pay it."]),
        ("In 2025. 2026 too.", ["In 2025. ", "2026 too."]),
        ("Really?! Yes.\n\nNo... Well", ["Really?! ", "Yes.\n\n", "No... ", "Well"]),
        ("版本是 3.5。很新！", ["版本是 3.5。", "很新！"]),
        (".5 is a half. 7.", [".5 is a half. ", "7."]),
    ],
)
def test_no_sentence_ends_inside_a_number(text: str, sentences: list[str]) -> None:
    """What is left out of an excerpt is a sentence, never a digit of a version."""
    whole = tuple(range(len(sentences)))
    assert excerpt(text, frozenset(), str.split, 10_000) == whole
    said = [some_of(text, [at]).removeprefix("… ") for at in whole]
    assert said == [sentence.strip() for sentence in sentences]
