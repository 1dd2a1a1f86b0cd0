"""Known texts are found inside others however they were put there; what only quotes them is not."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from xml.sax.saxutils import escape

import pytest

from ce_engine.prepare.passages import find_passages, written_talk


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
