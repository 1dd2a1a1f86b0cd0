"""Every value that pages show has its word in every language."""

from __future__ import annotations

from enum import StrEnum
from typing import get_args

import pytest

from ce_engine import EvidenceType, Role, SourceKind, ToolCallStatus, TurnStatus
from ce_engine.apps.present import (
    brought_in,
    glossary,
    reasons,
    report_lines,
    timeline,
    turns,
    what_if_view,
)
from ce_engine.apps.present.language import languages
from ce_engine.apps.present.vocabulary import (
    AS_THEY_ARE,
    PROBLEMS,
    WORDS,
    attachment_words,
    estimator_words,
    problem_words,
    speaker,
    word,
)
from ce_engine.audit.places.whereabouts import FATES
from ce_engine.config import ConflictStrategy
from ce_engine.schema.degradation import REASONS
from ce_engine.schema.document import AttachmentRecord
from ce_engine.schema.replay import ReplayProblem
from ce_engine.sessions import spending
from ce_engine.turns.report import over_budget


CHINESE = languages()["zh"]
SHOWN = [
    *WORDS.values(),
    *AS_THEY_ARE,
    *PROBLEMS.values(),
    *report_lines._CODES.values(),
    *report_lines._FORMS.values(),
    *(plural for _, plural in report_lines._DECISIONS.values()),
    *over_budget.WORDS.values(),
    *spending.WORDS.values(),
    *timeline.TITLES.values(),
    *timeline.MEANINGS.values(),
    *timeline.MARKS.values(),
    *turns.BROKEN.values(),
    *reasons.WHY.values(),
    *reasons.PASSED.values(),
    reasons.NOT_NEARER,
    *reasons.CUT.values(),
    *reasons.RECALL.values(),
    *reasons.GOES_BACK.values(),
    *reasons.ACTIONS.values(),
    *what_if_view.WORDS.values(),
    *brought_in.FEATURES.values(),
    brought_in.LEGEND,
    *FATES.values(),
    *(text for pair in glossary.GLOSSARY.values() for text in pair),
]


@pytest.mark.parametrize("code", sorted(set(languages()) - {"en"}))
def test_a_language_has_every_word(code: str) -> None:
    assert sorted(set(SHOWN) - set(languages()[code].texts)) == []


@pytest.mark.parametrize("kind", [EvidenceType, Role, SourceKind, ToolCallStatus, TurnStatus])
def test_a_vocabulary_is_known_whole(kind: type[StrEnum]) -> None:
    known = {*WORDS, *AS_THEY_ARE}
    assert {member.value for member in kind} - known == set()


def test_what_is_no_vocabulary_of_the_schemas_is_known_too() -> None:
    assert set(get_args(ConflictStrategy)) - set(WORDS) == set()
    assert set(REASONS) - set(report_lines._CODES) == set()


def test_words() -> None:
    assert word("rag_doc") == "retrieved document"
    assert word("committed") == "committed"
    assert word("committed", CHINESE) == "已完成"
    assert word("of somebody else", CHINESE) == "of somebody else"


def test_a_name_stays_though_it_is_a_word() -> None:
    assert speaker("assistant", CHINESE) == "助手"
    assert speaker("memory", CHINESE) == "memory"


def test_a_problem_says_more_where_nobody_translates_it() -> None:
    problem = ReplayProblem(code="CONTEXT_REPLAY_WITHHELD", detail="3 texts are not there")
    assert problem_words(problem) == "3 texts are not there"
    assert problem_words(problem, CHINESE) == CHINESE(PROBLEMS["WITHHELD"])
    other = ReplayProblem(code="CONTEXT_REPLAY_NEW", detail="of a newer release")
    assert problem_words(other, CHINESE) == "of a newer release"


@pytest.mark.parametrize(
    "item",
    [
        AttachmentRecord(kind="image", format="png", width=640, height=480, size=9),
        AttachmentRecord(kind="file", format="pdf", name="a b.pdf", pages=3, size=9),
        AttachmentRecord(kind="file", name="x", pages=1),
        AttachmentRecord(kind="audio", size=1),
        AttachmentRecord(kind="image"),
    ],
)
def test_an_attachment_reads_as_its_label(item: AttachmentRecord) -> None:
    assert attachment_words(item) == item.label()


def test_an_attachment_in_chinese() -> None:
    report = AttachmentRecord(kind="file", format="pdf", name="报告.pdf", pages=1200)
    assert attachment_words(report, CHINESE) == "[文件 报告.pdf, pdf, 1,200 页]"


@pytest.mark.parametrize(
    ("name", "shown", "chinese"),
    [
        (
            "tiktoken o200k_base (exact)",
            "tiktoken o200k_base (exact)",
            "tiktoken o200k_base（精确）",
        ),
        (
            "tiktoken/ x + 20 % (upper bound)",
            "tiktoken x + 20 % (upper bound)",
            "tiktoken x + 20 %（上限）",
        ),
        ("my own/", "my own", "my own"),
        ("", "", ""),
    ],
)
def test_what_counted(name: str, shown: str, chinese: str) -> None:
    assert estimator_words(name) == shown
    assert estimator_words(name, CHINESE) == chinese
