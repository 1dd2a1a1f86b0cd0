"""What another setting would have sent of a talk by hand: its figures agree with each other, and with the turn's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ce_engine import ContextEngine, MemoryStore, Role
from ce_engine.apps.present.links import Links
from ce_engine.apps.present.what_if import what_if_config
from ce_engine.apps.present.what_if_view import WhatIfView
from ce_engine.schema.replay import Sent
from ce_engine.text.tokens.prices import LISTED, RELATIVE
from tests.hosts.shop_host import INVOICE, SHOP, Shop, shop_engine


QUESTIONS = 30
WINDOWS = (600, 1500, 2500, 9000)


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    engine = shop_engine(MemoryStore())
    made = Shop(engine)
    made.talk(QUESTIONS)
    yield made
    engine.sync.close()


def view_of(engine: ContextEngine, turn: int, window: int) -> WhatIfView:
    document, turns = engine.sync.get_session(SHOP), list(engine.sync.list_turns(SHOP))
    assert document is not None
    replay = engine.sync.replay(SHOP, turn, what_if_config(turns, turn - 1, window, ""))
    return WhatIfView(replay, Links(document, turns))


def figures(view: WhatIfView) -> dict[str, tuple[int, int]]:
    found = view.sums(RELATIVE, None)
    return {
        line.title: (int(line.was.replace(",", "")), int(line.then.replace(",", "")))
        for line in found
    }


@pytest.mark.parametrize("window", WINDOWS)
def test_both_inputs_are_of_the_same_messages(shop: Shop, window: int) -> None:
    """Each of the talk goes out or is left out, whichever was looked at for lack of room."""
    turn = len(shop.reports)
    told = figures(view_of(shop.engine, turn, window))
    document = shop.engine.sync.get_session(SHOP)
    assert document is not None
    talk = [m for m in document.session.messages if m.role is not Role.SYSTEM]
    count = len(talk) - 1 + 1  # without the answer of this turn; with the system message
    for at in (0, 1):
        assert told["messages that go out"][at] + told["left out"][at] == count
    same = figures(view_of(shop.engine, turn, 1500))
    assert [(name, pair[0]) for name, pair in told.items() if name in same] == [
        (name, pair[0]) for name, pair in same.items()
    ]


@pytest.mark.parametrize("window", WINDOWS)
def test_the_tokens_of_both_are_made_of_what_goes_out(shop: Shop, window: int) -> None:
    view = view_of(shop.engine, len(shop.reports), window)
    told = figures(view)
    for at, sent in enumerate((view.sent, view.instead)):
        parts = ("messages", "rules and quotes put in", "tools' schemas, beginning of the reply")
        assert (
            sum(told[f"… {name}"][at] for name in parts)
            == sent.tokens
            == told["tokens (estimate)"][at]
        )
        assert_is_what_goes_out(sent)


def assert_is_what_goes_out(sent: Sent) -> None:
    """The parts' tokens have those of what stands in their texts, but for what parts a quote from its message."""
    quotes = sum("Quoted records" in part.content for part in sent.parts)
    assert 0 <= sent.tokens - sent.extras - sum(p.tokens for p in sent.parts) <= 8 * (quotes + 1)


def test_what_begins_like_the_call_before_is_as_the_turn_tells(shop: Shop) -> None:
    for turn in range(1, len(shop.reports) + 1, 3):
        report = shop.reports[turn - 1]
        turns = list(shop.engine.sync.list_turns(SHOP))
        replay = shop.engine.sync.replay(SHOP, turn, what_if_config(turns, turn - 1, 1500, ""))
        assert replay.prefix == report.prefix_tokens_unchanged, turn
        assert replay.prefix_instead == replay.prefix


def test_a_message_that_was_quoted_is_told_as_quoted(shop: Shop) -> None:
    """Also where it was too far back to be looked at as a message of its own."""
    quoted = set[str]()
    for turn in range(20, len(shop.reports) + 1, 4):
        for window in (900, 2500, 9000):
            view = view_of(shop.engine, turn, window)
            stood = {name for each in view.why.earlier for name in each.ids}
            stood |= {piece.id for piece in view.why.brought_in if piece.kind == "message"}
            for change in view.changes:
                if change.message_id in stood and change.was.kind != "message":
                    assert change.was.kind == "quoted"
                    quoted.add(change.text)
            assert "-" not in {change.was.kind for change in view.changes if change.message_id}
    assert INVOICE in quoted


def test_what_stands_quoted_though_it_goes_out_too_is_counted(shop: Shop) -> None:
    """With room for all, what earlier turns quoted stays before their questions: it is paid for twice."""
    view = view_of(shop.engine, len(shop.reports), 9000)
    stood = {name for each in view.why_instead.earlier for name in each.ids}
    sent = {part.message_id for part in view.instead.parts}
    twice = len(stood & sent)
    assert twice
    assert figures(view)["… quoted all the same"][1] == twice
    assert any("stand quoted all the same" in reason for reason in view.reasons())
    assert not any("goes out as messages instead" in reason for reason in view.reasons())


def test_what_is_typed_and_what_was_told_is_joined_with_what_stands_there(shop: Shop) -> None:
    turn, report = len(shop.reports), shop.reports[-1]
    view = view_of(shop.engine, turn, 9000)
    budget = view.instead.budget or 0
    kept = [] if budget == 9000 else [f"{9000 - budget:,} are kept for the reply"]
    told = list(view.about(report, 9000))
    assert [each in text for each, text in zip(kept, told, strict=True)] == [True] * len(kept)
    other = report.model_copy(update={"token_used": view.sent.tokens + 8})
    wider = view.about(other, budget + 1024)
    assert list(wider) == [
        f"Of the window of {budget + 1024:,} tokens 1,024 are kept for the reply: the budget of the input is {budget:,}.",
        (
            f"“As it was” is made again from what is stored now: {view.sent.tokens:,} tokens. "
            f"{view.sent.tokens + 8:,} went out then: not all of it is there as it was."
        ),
    ]
    assert list(view.about(None, None)) == []


@pytest.mark.parametrize(
    ("prefixes", "words"),
    [
        ((2000, 1024), "and cacheable"),
        ((340, 900), "too few to be cached (from 1024 on)"),
        ((340, 2000), "(cacheable from 1024 on)"),
        ((2000, 340), "(cacheable from 1024 on)"),
    ],
)
def test_what_is_enough_for_a_cache_in_one_of_both_is_not_said_to_be_so_in_the_other(
    shop: Shop, prefixes: tuple[int, int], words: str
) -> None:
    view = view_of(shop.engine, len(shop.reports), 1500)
    view.prefixes = prefixes
    price = LISTED.of("gpt-4o", "")
    assert price is not None
    [line] = [line for line in view.sums(LISTED, price) if "like the call before" in line.title]
    assert line.title.replace(",", "").endswith(words)
    assert (line.was.replace(",", ""), line.then.replace(",", "")) == tuple(map(str, prefixes))
