"""What the page of a turn says of the tokens that were free: the figures add up, and say why one came and another did not."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from ce_engine import BudgetConfig, RuntimeConfig, Scope, StoreConfig, create_context_engine
from ce_engine.testing import IdsInOrder
from ce_engine.testing.host import HostApp, assistant, system, tool_calls, tool_result, user
from tests.hosts.cli_host import url_of
from tests.unit.apps.web.visiting import plain, texts, turn_of, visit


SCOPE = Scope(session_id="invoices", user_id="ana")
WHO = {"id": SCOPE.session_id, "user": SCOPE.user_id}
page_of = partial(turn_of, WHO)
LINES = "".join(f"Line {n}: parcel of lamps and cables, {n}0.00 EUR\n" for n in range(1, 14))
CHINESE = {"accept-language": "zh"}
FREE = re.compile(r"([\d,]+) tokens were free for what comes back: (.*?) left over")


def _fetch(app: HostApp, number: int) -> None:
    asked = app.prepare(user(f"Please fetch invoice {number}"))
    app.commit(asked, tool_calls((f"call-{number}", "get_invoice", {"number": number})))
    text = f"INVOICE {number}\nTotal: {number}17.31 EUR\nDue: 2026-04-{number:02d}\n{LINES}"
    asked = app.prepare(tool_result(f"call-{number}", text), new_request=False)
    app.commit(asked, assistant(f"Invoice {number} is {number}17.31 euros."))


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Invoices that a tool fetches, far more than the budget, and questions for earlier ones after each third."""
    found = url_of(tmp_path_factory.mktemp("store") / "ce.db")
    talk(found)
    return found


def talk(found: str, rule: str = "") -> None:
    """Store the talk, in which a rule may hold."""
    budget = BudgetConfig(max_input_tokens=1100, reserved_reply_tokens=0)
    config = RuntimeConfig(budget=budget, store=StoreConfig(deadline_s=30))
    engine = create_context_engine(found, config=config, id_generator=IdsInOrder("invoices-"))
    engine.sync.check()
    if rule:
        engine.sync.constraints.create(SCOPE, rule)
    app = HostApp(engine, SCOPE, [system("You help.")])
    for number in range(10, 22):
        _fetch(app, number)
        if number % 3 == 0:
            app.ask(f"And of invoice {number - 2} and invoice {number - 1}?", "As told.")
            app.ask(f"What was the total of invoice {number - 1} again?", "As told.")
    engine.sync.close()


def _numbers(text: str) -> list[int]:
    return [int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", text)]


@pytest.fixture(scope="module")
def htmls(url: str) -> list[str]:
    """The page of each turn."""
    with visit(url) as client:
        first = page_of(client, 1)
        count = re.search(r"Turn 1 of (\d+)", first)
        assert count is not None
        return [first, *(page_of(client, turn) for turn in range(2, int(count[1]) + 1))]


@pytest.fixture(scope="module")
def shown(htmls: list[str]) -> list[str]:
    """The text of each."""
    return [plain(html) for html in htmls]


def test_what_was_free_is_told_by_what_became_of_it_and_adds_up(shown: list[str]) -> None:
    told = [found for text in shown for found in FREE.findall(text)]
    assert told
    for free, parts in told:
        by_what = re.sub(r" for \d+ pieces?", "", parts)
        assert sum(_numbers(by_what)) == _numbers(free)[0], parts
    assert any("kept for an agent's next steps" in parts for _, parts in told)
    assert any(re.search(r"\d+ for \d+ piece", parts) for _, parts in told)


def test_what_had_no_room_is_told_what_was_left_in_the_sum(shown: list[str]) -> None:
    seen = 0
    for text in shown:
        if not (found := FREE.search(text)):
            continue
        left = _numbers(found[2])[-1]
        for room, after in re.findall(
            r"Quoted, it needs [\d,]+ tokens, and ([\d,]+) might be taken: an agent .{0,120}?next steps\.( Smaller pieces took [\d,]+)?",
            text,
        ):
            seen += 1
            assert _numbers(room)[0] == left + sum(_numbers(after)), text
    assert seen


def test_one_that_did_not_come_though_another_did_in_part_says_what_its_sentences_need(
    shown: list[str],
) -> None:
    found = [
        _numbers(part)
        for text in shown
        for part in re.findall(
            r"Its best sentences need (.*?) were left then of what might be taken\.", text
        )
    ]
    assert found
    assert all(needed > left for needed, left in found)


def test_what_is_no_nearer_names_what_is_as_near_and_leads_there(
    htmls: list[str], pages: TestClient
) -> None:
    found = [
        (turn, score, link.replace("&amp;", "&"), text, quoted)
        for turn, html in enumerate(htmls, 1)
        for score, link, text, quoted in re.findall(
            r'Nearest there \((\d\.\d\d)\): <a href="(/trace[^"]*)">([^<]*)</a>(?:, <a [^>]*>quoted before the question of turn (\d+))?',
            html,
        )
    ]
    assert found
    for turn, score, link, text, quoted in found:
        assert float(score) > 0
        assert " ".join(text.split()) in plain(pages.get(link).text)
        assert not quoted or int(quoted) < turn
    assert any(quoted for *_, quoted in found)


def test_no_piece_is_refused_for_its_nearness_that_has_the_score_that_it_needs(
    htmls: list[str],
) -> None:
    """An agent's messages must be nearer than what stands there by a fifth: 0.38 was "no nearer" than 0.35."""
    pieces = [
        (float(score), float(needed))
        for html in htmls
        for item in re.findall(r"<li>.*?</li>", html, re.DOTALL)
        for score in re.findall(r'<b class="score">(\d\.\d\d)</b>', item)[:1]
        for needed in re.findall(r"; another needs (\d\.\d+)", item)
    ]
    assert pieces
    assert all(score <= needed for score, needed in pieces)


def test_a_rule_that_is_deleted_since_takes_away_no_name_of_what_is_as_near(
    tmp_path: Path,
) -> None:
    """Nor does it change what pieces are said to have needed, and had: what stands in its place counts as it did."""
    found = url_of(tmp_path / "ce.db")
    talk(found, "Quote every amount in euros.")
    pattern = re.compile(r"Nearest there \(\d\.\d\d\): .{30}")
    with visit(found) as client:
        before = {n: plain(page_of(client, n)) for n in range(19, 31)}
    engine = create_context_engine(found)
    [rule] = engine.sync.constraints.list(SCOPE)
    engine.sync.constraints.delete(SCOPE, rule.constraint_id)
    engine.sync.close()
    named = 0
    with visit(found) as client:
        for turn, text in before.items():
            now = plain(page_of(client, turn))
            assert "as it was sent, but for texts that are gone" in now
            assert now.count("Quoted, it needs") == text.count("Quoted, it needs")
            assert "cannot be told" not in now
            if nearest := pattern.findall(now):
                named += 1
                assert nearest == pattern.findall(text), turn
    assert named


def test_of_a_piece_that_came_in_part_what_went_out_is_marked(htmls: list[str]) -> None:
    seen = 0
    for html in htmls:
        sent = " ".join(texts(html.partition('id="brought-in"')[0], "ins"))
        for piece in html.split("What is marked went out, the rest did not:")[1:]:
            part = piece.partition("</li>")[0]
            marked, seen = texts(part, "ins"), seen + 1
            assert marked
            for line in " ".join(marked).split("INVOICE")[1:]:
                assert line.split()[0] in sent
            assert plain(part) != " ".join(marked)
    assert seen


def test_chinese_says_it_too(pages: TestClient) -> None:
    found = [
        plain(pages.get("/turn", params={**WHO, "turn": str(n)}, headers=CHINESE).text)
        for n in range(20, 30)
    ]
    assert any("引文前后的固定文字" in text for text in found)
