"""Known texts are found inside others however they were put there; what only quotes them is not."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any
from xml.sax.saxutils import escape

import pytest

from ce_engine import (
    BudgetConfig,
    CharBasedEstimator,
    MemoryStore,
    Retrieval,
    RetrievedDoc,
    RuntimeConfig,
    Scope,
    create_context_engine,
)
from ce_engine.testing.host import HostApp, user
from ce_engine.text.relevance import passages
from ce_engine.text.relevance.passages import PassageIndex, PassageMatch, same_length, written_talk


SCOPE = Scope(session_id="s")


def document(n: int, sentences: int = 8) -> str:
    rng = random.Random(n)
    words = (
        "lane turn cut budget message evidence store model prompt answer history 车道 预算".split()
    )
    said = (
        " ".join(rng.choice(words) + str(rng.randrange(100)) for _ in range(9))
        for _ in range(sentences)
    )
    return f"Document {n}: if a & b < c.\n" + ".\n".join(said) + "."


def chunks(text: str, size: int, overlap: int = 0) -> list[str]:
    return [text[max(0, at - overlap) : at + size].strip() for at in range(0, len(text), size)]


def find_passages(text: str, known: Sequence[Sequence[str]]) -> Sequence[PassageMatch]:
    return PassageIndex(known).find(text)


def rest(text: str, *known: str) -> str:
    """What is left without the passages."""
    left, at = "", 0
    for start, end, _ in find_passages(text, [[each] for each in known]):
        left, at = left + text[at:start], end
    return left + text[at:]


DOCUMENTS = [document(n) for n in range(4)]
SHAPES: dict[str, Callable[[str], str]] = {
    "whole": lambda d: d,
    "numbered": lambda d: "".join(f"Source {n}:\n{c}\n" for n, c in enumerate(chunks(d, 150), 1)),
    "in small pieces": lambda d: "".join(f"[{n}] {c}\n" for n, c in enumerate(chunks(d, 60), 1)),
    "overlapping": lambda d: "\n---\n".join(chunks(d, 200, 40)),
    "on one line": lambda d: " ".join(d.split()),
    "indented": lambda d: "".join(f"    {line}\n" for line in d.splitlines()),
    "xml": lambda d: f"<doc>{escape(d)}</doc>",
    "json": lambda d: json.dumps({"page": d}, ensure_ascii=False),
    "cut off": lambda d: d[:-100],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_document_is_found_in_every_shape(shape: str) -> None:
    put = [SHAPES[shape](each) for each in DOCUMENTS]
    text = "Answer from 以下:\n" + "\n\n".join(put) + "\nQuestion: what is a lane? 车道"
    left = rest(text, *DOCUMENTS)
    assert left.startswith("Answer from 以下:\n")
    assert left.endswith("\nQuestion: what is a lane? 车道")
    assert len(left) < 0.2 * len(text), left


def test_each_passage_is_of_its_own_document() -> None:
    text = "\n".join(DOCUMENTS)
    found = find_passages(text, [[each] for each in DOCUMENTS])
    assert [(text[start:end], which) for start, end, which in found] == [
        (each, n) for n, each in enumerate(DOCUMENTS)
    ]


def test_a_quotation_is_no_passage() -> None:
    known = DOCUMENTS[0]
    quoted = known[100:260]
    question = f"Why does it say '{quoted}'?"
    assert rest(f"{SHAPES['numbered'](known)}\n{question}", known).endswith(question)
    assert find_passages(f"Why does it say '{known[100:150]}'?", [[known]]) == []


def test_the_first_form_that_is_there_counts() -> None:
    live, stored = (
        "Write to ann@example.com about the lanes.",
        "Write to [EMAIL_1] about the lanes.",
    )
    for text in (live, stored):
        assert find_passages(f"Use: {text}", [(live, stored)]) == [(5, 5 + len(text), 0)]


def test_texts_that_share_nothing_and_short_ones_are_not_found() -> None:
    text = "yes. " * 40 + DOCUMENTS[3]
    assert find_passages(text, [["yes. "], [DOCUMENTS[0]], [""]]) == []


def test_a_long_text_of_one_letter_is_searched_in_time() -> None:
    found = find_passages("a" * 50_000 + "b" + "a" * 50_000, [["a" * 40_000 + "c"]])
    assert found
    assert all(end - start <= 50_000 for start, end, _ in found)


class Read(str):  # noqa: SLOT000 - it counts
    """A text that counts how much of it is read, and how often its words are taken apart."""

    chars = splits = 0

    def __getitem__(self, place: Any) -> str:
        found = super().__getitem__(place)
        self.chars += len(found)
        return found

    def split(self, *args: Any) -> list[str]:
        self.splits += 1
        return super().split(*args)


def test_a_comparison_reads_little_more_than_what_is_alike() -> None:
    line = "One line like all others."
    one, other = Read(f"[1] {line}\n[2] {line}"), Read(line * 10_000)
    assert same_length(one, other, 4) == len(line)
    assert one.chars <= 5 * len(line)
    assert other.chars <= 5 * len(line)
    assert same_length(other, other[:-1]) == len(other) - 1
    assert same_length("", line) == same_length("a", "b") == 0


@pytest.mark.parametrize("shape", ["[source {n:08}, page 1] {line}", "{line}"])
def test_a_document_of_equal_lines_costs_what_it_is_long(shape: str) -> None:
    line = "The lanes of a session have cuts of their own.\n"

    def work(lines: int) -> int:
        texts = [[line], [f"{line} "], [line], [line * lines]]
        put = "".join(shape.format(n=n, line=line) for n in range(lines))
        return lines_run(lambda: find_passages(put, texts))

    assert work(400) < 2.5 * work(200)


def test_a_document_of_many_passages_costs_what_it_is_long() -> None:
    def work(lines: int) -> int:
        said = [f"Line {n} says {hash((n, 1)) % 10**9}, and no more." for n in range(lines)]
        put = "\n--- and on another page ---\n".join(said)
        return lines_run(lambda: find_passages(put, [["\n".join(said)]]))

    assert work(2000) < 2.2 * work(1000)


def lines_run(call: Callable[[], object]) -> int:
    """How many lines of the module a call runs."""
    count, before = 0, sys.gettrace()

    def note(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        count += event == "line"
        return note if frame.f_code.co_filename == passages.__file__ else None

    sys.settrace(note)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


def test_documents_are_taken_apart_once_a_call() -> None:
    docs = [Read(f"{document(n)} Write to ann{n}@example.com.") for n in range(5)]
    engine = create_context_engine(MemoryStore(), token_estimator=CharBasedEstimator())
    hit = Retrieval("kb", "lanes", [RetrievedDoc(doc) for doc in docs], run_id="r")
    engine.sync.record_retrieval(SCOPE, hit, request_id="request-1")
    app = HostApp(engine, SCOPE, [user(f"Say {n}.") for n in range(40)])
    for doc in docs:
        doc.splits = 0
    budget = BudgetConfig(max_input_tokens=500, reserved_reply_tokens=0)
    prompt = "Use:\n" + "\n\n".join(map(SHAPES["numbered"], docs)) + "\nWhat is a lane?"
    prepared = app.prepare(user(prompt), config=RuntimeConfig(budget=budget))
    assert prepared.report.shortened == 1
    assert prepared.report.token_used <= 500
    assert [doc.splits for doc in docs] == [1] * 5
    engine.sync.close()


TALK = [
    ("user", "你好, what is a lane?"),
    ("assistant", "A line.\nOf talk."),
    ("user", "And a cut?"),
    ("assistant", "It belongs to a lane."),
]
WRITTEN = {
    "labels": "".join(f"{role}: {said}\n" for role, said in TALK),
    "other labels": "".join(
        f"{'Human' if role == 'user' else 'AI'}: {said}\n\n" for role, said in TALK
    ),
    "chinese": "".join(f"{'用户' if role == 'user' else '助手'}：{said}\n" for role, said in TALK),
    "xml": "".join(f'<message type="{role}">{said}</message>\n' for role, said in TALK),
}


@pytest.mark.parametrize("form", WRITTEN)
def test_a_talk_that_is_written_with_roles_is_found(form: str) -> None:
    text = f"Sum it up.\n{WRITTEN[form]}Now:"
    found = [text[start:end] for start, end in written_talk(text)]
    assert found[:3] == [said for _, said in TALK[:3]]
    assert found[3].startswith(TALK[3][1])


def test_examples_in_a_prompt_are_no_talk() -> None:
    prompt = "Do as in the examples, whatever they say. " * 20
    assert written_talk(f"{prompt}\n{WRITTEN['labels']}") == []
    assert written_talk("no talk") == []
    assert written_talk("user: a\nassistant: b\nuser: c") == []
