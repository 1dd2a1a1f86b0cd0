"""What the assembly makes of a line: documents taken out of a prompt, and candidates that are worth their room."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ce_engine import BudgetConfig, RuntimeConfig
from ce_engine.prepare.choose.budget import Limit
from ce_engine.prepare.choose.cut import CutMarks
from ce_engine.prepare.choose.prune import GreedyPriorityPruner
from ce_engine.prepare.compose.render import Snippet, fitted
from ce_engine.prepare.message_groups import MessageItem
from ce_engine.prepare.outcome import Outcome
from ce_engine.prepare.pipeline import assemble
from ce_engine.prepare.sources import Candidate, CandidateSources, QuotedSpan
from ce_engine.schema.document import Message
from ce_engine.schema.enums import Origin


def count(text: str) -> int:
    return -(-len(text) // 4)


class Compared(MessageItem):
    """An item that knows how often items were compared."""

    times = 0

    def __eq__(self, other: object) -> bool:
        Compared.times += 1
        return super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]  # as a dataclass with `eq` has none


def never(_: MessageItem) -> Message:
    raise AssertionError("nothing is stored")


def run(
    texts: Sequence[tuple[Origin, str]],
    limit: int,
    spans: Sequence[QuotedSpan] = (),
    candidates: Sequence[Candidate] = (),
) -> Outcome:
    items: list[MessageItem] = [
        Compared(origin, count(text), n, n, f"m{n}") for n, (origin, text) in enumerate(texts)
    ]

    def text(item: MessageItem) -> str:
        assert item.index is not None
        return texts[item.index][1]

    sources = CandidateSources(
        count=count,
        text=text,
        evidence_of=lambda _: "",
        recall=lambda _query, _sent, most: candidates[:most],
        terms=str.split,
        message_of=never,
        spans=lambda _: spans,
        question_of=lambda item: (text(item), spans),
    )
    config = RuntimeConfig(budget=BudgetConfig(max_input_tokens=limit, reserved_reply_tokens=0))
    return assemble(
        items,
        fixed=0,
        limit=Limit(limit, limit, "config"),
        marks=CutMarks(),
        config=config,
        sources=sources,
        pruner=GreedyPriorityPruner(),
    )


def text_of(out: Outcome) -> str:
    """What is left of the one message."""
    return out.shorter[0].text


def prompt(documents: Sequence[str], between: str = "\n\n") -> tuple[str, list[QuotedSpan]]:
    """A prompt with documents in it, best first, and where they are."""
    text = f"Use:\n{between.join(documents)}\nQuestion?"
    return text, [
        QuotedSpan(
            text.index(document), text.index(document) + len(document), rank, f"id{rank:02}-{rank}"
        )
        for rank, document in enumerate(documents)
    ]


def shortened(documents: Sequence[str], limit: int, between: str = "\n\n") -> Outcome:
    text, spans = prompt(documents, between)
    return run([(Origin.TASK, text)], limit, spans)


DOCUMENTS = [f"<{n}> " + f"text{n} " * 40 + f"</{n}>" for n in range(6)]


def test_only_as_many_documents_go_as_must_and_the_worst_first() -> None:
    whole = count(prompt(DOCUMENTS)[0])
    for gone in range(1, 6):
        out = shortened(DOCUMENTS, whole - (gone - 1) * 63 - 10)
        assert [document in text_of(out) for document in DOCUMENTS] == [
            n < 6 - gone for n in range(6)
        ]
        assert out.used == count(text_of(out))
        assert not out.over_budget


def test_counts_that_do_not_add_up_cost_no_document() -> None:
    def generous(text: str) -> int:
        return count(text) + 20 * bool(text)  # a text alone costs more than inside another

    prompt_text, spans = prompt([f"<{n}> " + f"text{n} " * 40 for n in range(40)])
    documents = [(span.start, span.end, span.evidence_id) for span in reversed(spans)]
    short = fitted(prompt_text, documents, 400, generous, "en")
    assert 400 - 63 < generous(short) <= 400


def test_documents_side_by_side_leave_one_note() -> None:
    out = shortened(DOCUMENTS, 250)
    assert text_of(out).endswith("\n\n[… id03-3, id04-4, id05-5]\nQuestion?")


def test_what_the_host_wrote_between_documents_stays() -> None:
    out = shortened(DOCUMENTS, 250, between="\nSource: kb\n")
    assert text_of(out).count("Source: kb") == 5
    assert text_of(out).count("[… ") == 3


def test_a_note_of_many_documents_names_the_last_few() -> None:
    documents = [f"<{n}> " + f"text{n} " * 40 for n in range(30)]
    out = shortened(documents, 200)
    assert "id29-29 and " in text_of(out)
    assert text_of(out).count("id") == 8


def test_no_note_stands_for_a_document_that_costs_no_more() -> None:
    out = shortened(["a" * 400, "It is Oslo."], 105)
    assert "Oslo" not in text_of(out)
    assert "[…" not in text_of(out)


def test_notes_go_where_they_alone_would_be_over_the_limit() -> None:
    documents = [f"<{n}> " + f"text{n} " * 10 for n in range(20)]
    out = shortened(documents, 70, between=" & also: ")
    assert not out.over_budget
    assert "[…" not in text_of(out)


def test_documents_are_no_part_of_the_query() -> None:
    asked = []
    text, spans = prompt(["the weather in Oslo " * 20])
    texts = [(Origin.TASK, "old " * 400), (Origin.ANSWER, "old"), (Origin.TASK, text)]

    def recall(query: str, _: frozenset[int], __: int) -> list[Candidate]:
        asked.append(query)
        return []

    items = [MessageItem(origin, count(t), n, n, f"m{n}") for n, (origin, t) in enumerate(texts)]
    assemble(
        items,
        fixed=0,
        limit=Limit(200, 200, "config"),
        marks=CutMarks(),
        config=RuntimeConfig(),
        sources=CandidateSources(
            count, lambda item: texts[item.index or 0][1], lambda _: "", recall, str.split, never,
            lambda t: spans if t == text else [], lambda _: (text, spans),
        ),
        pruner=GreedyPriorityPruner(),
    )  # fmt: skip
    assert {tuple(query.split()) for query in asked} == {("Use:", "Question?")}


def test_a_list_with_many_system_messages_costs_in_proportion() -> None:
    texts = [(Origin.SYSTEM, f"s{n}") for n in range(100)]
    texts += [(Origin.TASK if n % 2 else Origin.ANSWER, f"t{n}") for n in range(201)]
    Compared.times = 0
    out = run(texts, 5000)
    assert out.unchanged
    assert out.before == out.used
    assert Compared.times < 10 * len(texts)


def found(kind: str, scores: Sequence[float]) -> list[Candidate]:
    return [
        Candidate(f"{kind}:{n}", Snippet("user", f"{kind}{n} says"), score, n)
        for n, score in enumerate(scores)
    ]


def brought(candidates: Sequence[Candidate]) -> list[str]:
    best_first = sorted(candidates, key=lambda candidate: -candidate.score)
    texts = [(Origin.TASK, "old " * 4000), (Origin.ANSWER, "old"), (Origin.TASK, "new?")]
    out = run(texts, 2000, candidates=best_first)
    return [c.id for c in best_first if f"{c.snippet.text}" in out.injected]


def test_room_that_is_left_is_not_filled_with_what_is_hardly_relevant() -> None:
    weak = found("m", [1.0, 0.9, 0.8, 0.7, 0.5, *[0.1] * 50])
    assert brought(weak) == ["m:0", "m:1", "m:2", "m:3", "m:4"]


def test_the_best_few_come_whatever_they_score() -> None:
    assert brought(found("m", [1.0, *[0.1] * 20])) == ["m:0", "m:1", "m:2", "m:3"]


@pytest.mark.parametrize(("strong", "weak"), [("m", "e"), ("e", "m")])
def test_messages_and_documents_are_measured_each_by_their_own_best(strong: str, weak: str) -> None:
    first, second = found(strong, [1.0] * 6), found(weak, [0.2, 0.15, 0.01])
    assert brought([*first, *second]) == [c.id for c in [*first, *second[:2]]]
