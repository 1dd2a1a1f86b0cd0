"""Figures of a turn that stand beside one another agree, or a sentence says why they do not."""

from __future__ import annotations

from typing import Any

import pytest

from ce_engine.apps.present.language import ENGLISH, Say, languages
from ce_engine.apps.present.reasons import Reasons
from ce_engine.apps.present.report_lines import report_lines
from ce_engine.schema.report import LayerReport, PruneDecision, RecallReport, Report


def report(**more: Any) -> Report:
    below = PruneDecision(
        block_id="m-1", action="dropped", reason="below_cut", token_estimate=9, count=140
    )
    told: dict[str, Any] = {
        "token_budget": 2400,
        "token_used": 2239,
        "dropped": 178,
        "inserted": 4,
        "prune_decisions": [below],
        "injected_evidence_ids": ["a", "b"],
        "payload_tokens": {"rules": 36, "knowledge": 780},
        "layers": {"retrieved": LayerReport(tokens=780, chunks=17)},
        "recall": RecallReport(state="looked", room=152, most=33),
    }
    return Report(turn_id="t", **{**told, **more})


@pytest.mark.parametrize(
    ("say", "told"),
    [
        (
            ENGLISH,
            [
                "140 older messages or tool calls left out",
                "178 messages left out in all, as a tool call and its results count as one",
                "816 tokens brought in from 17 pieces, 2 of them evidence, headings and 36 tokens of rules included",
            ],
        ),
        (
            languages()["zh"],
            [
                "140 条较早的消息或工具调用被略去",
                "共略去 178 条消息：一次工具调用连同其结果算一项",
                "补入 816 个 token，来自 17 份内容，其中 2 份是证据，含各段标题和 36 个 token 的规则",
            ],
        ),
    ],
)
def test_groups_are_told_from_messages_and_evidence_from_pieces(say: Say, told: list[str]) -> None:
    lines = list(report_lines(report(), say))
    assert lines[1:] == told[1:]
    assert len(lines) == len(told)


def test_what_is_the_same_figure_is_not_told_twice() -> None:
    bare = report(dropped=140, payload_tokens={"knowledge": 780}, layers={})
    assert list(report_lines(bare)) == [
        "140 older messages or tool calls left out",
        "780 tokens brought in from 2 evidence, headings included",
    ]


@pytest.mark.parametrize(
    ("used", "told"),
    [
        (
            2239,
            "152 tokens were free for what comes back (161 are left of the budget: a few stay aside for the headings of quotes): none of them was taken",
        ),
        (2248, "152 tokens were free for what comes back: none of them was taken"),
        (
            2300,
            "152 tokens were free for what comes back: where they went cannot be told, as the turn cannot be made again as it was",
        ),
    ],
)
def test_tokens_that_were_free_are_told_beside_those_that_are_left(used: int, told: str) -> None:
    assert told in Reasons(report(token_used=used)).notes()
