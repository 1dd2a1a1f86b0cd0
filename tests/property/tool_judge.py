"""Judges one call: what the host gave, what reached the model, and what the report says of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage

from ce_engine.schema.report import Report
from tests.property.tool_cases import judge_budget
from tests.property.tool_oracle import (
    Walk,
    answered,
    cost,
    halves,
    is_question,
    is_system,
    never_out,
    tag,
    task_of,
    text,
    thoughts,
)


ROOMY = 2
"""A list that costs less than the budget by this factor, and a picture or two, has room to spare."""
PICTURES = 2_000


@dataclass
class Seen:
    """One call as its host sees it."""

    given: Sequence[BaseMessage]
    budget: int | None
    report: Report
    tools: Sequence[dict[str, Any]]
    compact: bool = False
    walk: Walk = field(init=False)

    def __post_init__(self) -> None:
        self.walk = Walk.of(self.given)

    @property
    def strays(self) -> set[int]:
        """Results that nobody asked for, and that are nothing else: these are left out for good."""
        known = {tag(m) for group in self.walk.groups for m in group}
        return {owner for owner, _ in self.walk.orphans} - known

    @property
    def has_room(self) -> bool:
        if self.budget is None:
            return True
        if self.report.tokens_before <= self.budget:
            return True
        return self.budget > PICTURES and cost(self.given) * ROOMY + PICTURES < self.budget


def judge(seen: Seen, sent: list[BaseMessage], tokens: int) -> None:
    assert sent, "nothing was sent"
    given = seen.given
    places = {tag(m): n for n, m in enumerate(given)}
    order = [places[tag(m)] for m in sent if tag(m)]
    assert order == sorted(set(order)), "another order"
    _judge_pairs(seen, sent)
    for n, message in enumerate(sent):
        if tag(message):
            _judge_copy(given[places[tag(message)]], message)
        else:
            allowed = is_system(message) or answered(message) or _stands_alone(sent, n)
            assert allowed, f"put in: {message!r}"
    goes = {tag(m) for m in sent}
    restored = {asker for asker, _, result, _ in Walk.of(sent).pairs if not result}
    must = never_out(given, seen.walk, restored)
    gone = [m for m in given if tag(m) in must - goes]
    assert gone == [], f"must not be left out: {gone}"
    if seen.has_room:
        out = seen.strays | (halves(seen.walk) - goes)
        known = tag if seen.compact else id
        expected = [known(m) for m in given if tag(m) not in out]
        kept = [known(m) for m in sent if tag(m)]
        assert kept == expected, "changed, though there was room"
    judge_budget(seen.budget, seen.report, tokens)
    if seen.report.over_budget:
        assert goes - {0} <= must, f"over the budget, with more than must be: {goes - must}"


def _stands_alone(sent: list[BaseMessage], n: int) -> bool:
    """Whether what is brought in is a message: only where no question goes out, behind the system's."""
    alone = isinstance(sent[n], HumanMessage) and not any(
        map(is_question, sent[:n] + sent[n + 1 :])
    )
    return alone and all(map(is_system, sent[:n]))


def _judge_pairs(seen: Seen, sent: list[BaseMessage]) -> None:
    """Who was whole is whole or gone; who was not is whole by what is stored, or gone."""
    goes, host, walk = {tag(m) for m in sent}, seen.walk, Walk.of(sent)
    half = halves(host)
    for asker, _, result, _ in host.pairs:
        assert (asker in goes) == (result in goes), f"{asker} and {result} are torn apart"
    made = {pair for pair in walk.pairs if pair[2]}
    assert made == {pair for pair in host.pairs if pair[0] in goes}, "other pairs"
    assert walk.orphans <= host.orphans, f"orphans: {walk.orphans - host.orphans}"
    unanswered = {call for call in walk.unanswered if call[0] in half}
    unanswered |= walk.unanswered - host.unanswered
    assert unanswered == set(), f"unanswered: {unanswered}"


def _judge_copy(host: BaseMessage, goes: BaseMessage) -> None:
    """A message of the host's as it goes: the object, or a copy with another text in the right place."""
    if goes is host:
        return
    mine, its = dict(vars(goes)), dict(vars(host))
    said, told = mine.pop("content"), its.pop("content")
    assert type(goes) is type(host), f"a {type(goes).__name__} of a {type(host).__name__}"
    assert mine == its, "a copy with other fields"
    assert not any(thoughts(host)), "reasoning was edited"
    assert is_system(host) or is_question(host) or answered(host), f"edited: {host!r}"
    others = [
        [b for b in each if isinstance(b, dict) and b["type"] not in ("text", "tool_result")]
        for each in (said, told)
        if isinstance(each, list)
    ]
    assert others[:1] == others[1:], "parts that are no text were edited"
    if is_question(host) or is_system(host):
        assert text(host) in text(goes), "the text of a message that stays is not whole"
    elif isinstance(host, ToolMessage):
        assert len(text(goes)) < len(text(host)), "shortened, and longer"


def judge_body(seen: Seen, body: dict[str, Any], tokens: int) -> None:
    """The same of a request as the provider got it; that pairs are whole, the wire says itself."""
    judge_budget(seen.budget, seen.report, tokens)
    task = task_of(seen.given)
    said = [m["content"] for m in body["messages"] if m["role"] == "user"]
    texts = [s if isinstance(s, str) else "".join(p.get("text", "") for p in s) for s in said]
    assert task is None or any(text(task) in s for s in texts), "the task is not there"
    if seen.has_room:
        gone = seen.strays | halves(seen.walk)
        whole = [m for m in seen.given if tag(m) not in gone]
        assert len(body["messages"]) >= len(whole), "changed, though there was room"
