"""What became in a turn of each message of its session: of a talk by hand, which the engine keeps."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from ce_engine import (
    BudgetConfig,
    CharBasedEstimator,
    ContextEngine,
    EvidenceSource,
    EvidenceType,
    Message,
    Role,
    RuntimeConfig,
    Scope,
    SourceKind,
    StoreConfig,
    ToolRequest,
    create_context_engine,
)
from ce_engine.apps.present.turn_view import Fates
from ce_engine.apps.web import rest
from ce_engine.schema.report import PruneDecision
from tests.hosts.cli_host import ce, url_of
from tests.hosts.shop_host import ASKED, INVOICE, TOPICS
from tests.unit.apps.web.visiting import plain, turn_of


SCOPE = Scope(session_id="shop", user_id="ana")
WHO = {"id": SCOPE.session_id, "user": SCOPE.user_id}
page_of = partial(turn_of, WHO)
CONFIG = RuntimeConfig(budget=BudgetConfig(max_input_tokens=1500), store=StoreConfig(deadline_s=30))
ANSWERS = (
    "For {0} I suggest two steps: ask Lena for a list of what is missing, then fix a date. It costs {1} EUR.",
    "About {0}: you chose the cheaper of two options, with a warranty of {1} months. Lena wrote it down.",
    "Dear team, {0} is on our list for calendar week {1}. Please tell Lena by Thursday what you need.",
)


def step(engine: ContextEngine, new: Message, answer: str, item: str = "") -> None:
    made = engine.sync.prepare_turn(SCOPE, new, CONFIG)
    calls = [ToolRequest(id=f"c-{item}", name="stock", args={"item": item})] if item else None
    said = Message(role=Role.ASSISTANT, content="" if item else answer, tool_calls=calls)
    engine.sync.commit_assistant_message(SCOPE, said, turn_id=made.report.turn_id)


def ask(engine: ContextEngine, question: str, answer: str, item: str = "") -> None:
    """A question, with a call of a tool for an item in between."""
    new = Message(role=Role.USER, content=question)
    if item:
        step(engine, new, "", item)
        stock = json.dumps({"item": item, "in_stock": 4, "supplier": "Nordholz"})
        new = Message(role=Role.TOOL, tool_call_id=f"c-{item}", content=stock)
    step(engine, new, answer)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An invoice (3), lamps in stock (5, 6), a handbook's restocking fee (9), and many turns more."""
    found = url_of(tmp_path_factory.mktemp("store") / "ce.db")
    engine = create_context_engine(found, config=CONFIG, token_estimator=CharBasedEstimator())
    engine.sync.check()
    for n in range(1, 40):
        topic, kind = TOPICS[n % len(TOPICS)], n % 3
        if n == 3:
            ask(engine, INVOICE, "Noted: invoice INV-2041 over 1,280 EUR, due 14 March.")
        elif n in (5, 20, 33):
            ask(engine, f"How many of lamp {n} do we have?", f"Four of lamp {n}.", f"lamp {n}")
        elif n == 8:
            source = EvidenceSource(kind=SourceKind.RAG, name="handbook", uri="returns.md")
            text = "Customers may return furniture within 45 days. A restocking fee is kept."
            engine.sync.record_evidence(SCOPE, text, source, EvidenceType.RAG_DOC)
            ask(engine, "What is the restocking fee?", "A restocking fee of 6 percent.")
        else:
            ask(engine, ASKED[kind].format(topic), ANSWERS[kind].format(topic, 20 + n))
    engine.sync.close()
    return found


def steps_of(html: str) -> list[str]:
    return html.split('<div class="step is-')[1:]


def turn_count(pages: TestClient) -> int:
    return int(re.search(r"Turn 1 of (\d+)", plain(page_of(pages, 1)))[1])  # type: ignore[index]


def sent_in(html: str, text: str) -> bool:
    """Whether a text is in what went out, by the page: of a turn that cannot be made again, among what was brought in."""
    went = re.findall(r'<div class="went".*?(?=<div class="step|</section>)', html, re.DOTALL)
    if 'id="by-record"' in html:
        went += re.findall(r'id="brought-in".*?</section>', html, re.DOTALL)
    return any(text in plain(each) for each in went)


def test_what_went_out_quoted_before_an_earlier_question_is_told_so_and_leads_there(
    pages: TestClient,
) -> None:
    seen = 0
    for turn in range(10, turn_count(pages) + 1):
        html = page_of(pages, turn)
        for step_ in steps_of(html):
            text = plain(f"<div {step_}")
            if INVOICE not in text.split("tokens")[0]:
                continue
            if "is-dropped" not in f"is-{step_}"[:12]:
                continue
            quoted = sent_in(html, f"user: {INVOICE}") or (
                'id="by-record"' in html and sent_in(html, INVOICE)
            )
            assert ("left out as a message, and quoted" in text) == quoted, turn
            asked = re.search(r'href="#row-([^"]*)">Quoted before the question of turn', step_)
            assert quoted == (asked is not None or "quoted before the question, see" in text)
            if asked:
                seen += 1
                assert "it was not among them" not in text
                there = html.split(f'id="row-{asked[1]}"')
                assert len(there) == 2
                assert INVOICE in plain(there[1].split('<div class="step is-')[0])
    assert seen, "the talk has no turn with such a message"


def test_each_message_is_in_a_row_or_among_the_others_with_its_reason(pages: TestClient) -> None:
    last = turn_count(pages)
    html = page_of(pages, last)
    rows = set(re.findall(r'id="row-([^"]+)"', html))
    told = re.search(r"Other messages of the session (\d+)", plain(html))
    assert told is not None
    listed = page_of(pages, last, rest="1")
    others = listed.split('class="pieces others"')[1].split("</ol>")[0].split("<li id=")[1:]
    assert len(others) == int(told[1])
    ids = {re.match(r'"row-([^"]+)"', each)[1] for each in others}  # type: ignore[index]
    assert not rows & ids
    for each in others:
        assert re.search(r"left out|quoted", plain(f"<li id={each}"))
        assert "it is older: it may come in as a quotation" in plain(each) or "It went out" in each


def test_a_word_of_a_message_in_no_row_is_found_with_what_became_of_it(pages: TestClient) -> None:
    last = turn_count(pages)
    html = page_of(pages, last, find="invoice")
    assert "2 other messages of the session have it." in plain(html)
    said = plain(html.split('id="rest"')[1]).split(INVOICE)[1]
    assert re.match(r" (left out|quoted) ", said)
    assert re.search(r"among the nearest to the question|near enough|Quoted|It went out", said)
    early = plain(page_of(pages, 2, find="invoice"))
    assert "No message of this turn has it." in early
    assert "not there yet It was said after this turn began." in early


def test_a_page_has_no_more_rows_than_may_be_and_the_others_page_by_page(
    pages: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest, "MOST_ROWS", 5)
    monkeypatch.setattr(rest, "MOST_REST", 7)
    last = turn_count(pages)
    html = page_of(pages, last)
    assert len(steps_of(html)) == 5
    assert "Show them, 7 on a page" in plain(html)
    seen: list[str] = []
    for number in range(1, 100):
        listed = page_of(pages, last, rest=str(number))
        seen += re.findall(r'<li id="row-([^"]+)"', listed)
        if 'rel="next" href="/turn?' not in listed.split('id="rest"')[1]:
            break
    assert len(seen) == len(set(seen)) == int(plain(html).split("of the session ")[1].split()[0])
    assert (
        pages.get("/turn", params={**WHO, "turn": str(last), "rest": "0" * 99}).status_code == 200
    )


def test_a_document_that_was_recorded_by_hand_says_why_it_came_in(pages: TestClient) -> None:
    text = plain(page_of(pages, 9))
    assert "Recorded by hand, it is in no message: it goes in while there is room" in text


def test_whole_words_come_first_and_what_tools_found_has_a_turn(pages: TestClient) -> None:
    part = pages.get("/session/find", params={**WHO, "find": "stock"}).text
    before, inside = part.split("inside longer words:")
    assert "re stock ing" not in plain(before)
    assert "re stock ing" in plain(inside)
    hits = re.findall(r"<li>.*?</li>", part.replace("\n", " "))
    assert len(hits) > 8
    assert all("/turn?" in hit.split("<br>")[0] for hit in hits)
    tools = [plain(hit) for hit in hits if '"evidence"' in hit or ">evidence<" in hit]
    assert any("stock · turn 5 ·" in hit for hit in tools)


def test_in_chinese_too(pages: TestClient) -> None:
    params = {**WHO, "turn": str(turn_count(pages)), "find": "invoice"}
    html = pages.get("/turn", params=params, headers={"accept-language": "zh"}).text
    assert "会话的其他消息" in html
    assert not re.search(r"quoted|left out|other message", plain(html.split('id="rest"')[1])[:300])


def test_the_exported_page_says_it_too(url: str, tmp_path: Path) -> None:
    args = ("ui", SCOPE.session_id, "--user", "ana", "--export", str(tmp_path), "--store", url)
    assert ce(*args).exit_code == 0
    [path] = tmp_path.iterdir()
    text = path.read_text("utf-8")
    assert re.search(r"\d+ of them quoted", text)
    assert re.search(r"Invoice INV-2041 over 1,280 EUR is due 14 March\.[^<]*· quoted</a>", text)


@pytest.mark.parametrize(
    "reason", ["unanswered_tool_call", "orphaned_tool_result", "repeated_system_message"]
)
def test_what_is_decided_on_one_message_alone_is_not_told_of_those_behind_it(reason: str) -> None:
    """A call without its results is left out; the question behind it was no such call, and went out."""
    decisions = [
        PruneDecision(block_id="first", action="kept", reason="fits", token_estimate=9),
        PruneDecision(block_id="call", action="dropped", reason=reason, token_estimate=3),
    ]
    fates = Fates(decisions, ["first", "answer", "call", "question", "last"])
    told = [getattr(fates.of(name), "reason", None) for name in ("answer", "call", "question")]
    assert told == ["fits", reason, "fits"]
