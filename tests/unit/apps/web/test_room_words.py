"""What the page of a turn says of the tokens that were free: the figures add up, and say why one came and another did not."""

from __future__ import annotations

import re
from functools import partial

import pytest
from starlette.testclient import TestClient

from ce_engine import BudgetConfig, RuntimeConfig, Scope, StoreConfig, create_context_engine
from ce_engine.testing import IdsInOrder
from ce_engine.testing.host import HostApp, assistant, system, tool_calls, tool_result, user
from tests.hosts.cli_host import url_of
from tests.unit.apps.web.visiting import plain, turn_of


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
    budget = BudgetConfig(max_input_tokens=1100, reserved_reply_tokens=0)
    config = RuntimeConfig(budget=budget, store=StoreConfig(deadline_s=30))
    engine = create_context_engine(found, config=config, id_generator=IdsInOrder("invoices-"))
    engine.sync.check()
    app = HostApp(engine, SCOPE, [system("You help.")])
    for number in range(10, 22):
        _fetch(app, number)
        if number % 3 == 0:
            app.ask(f"And of invoice {number - 2} and invoice {number - 1}?", "As told.")
            app.ask(f"What was the total of invoice {number - 1} again?", "As told.")
    engine.sync.close()
    return found


def _numbers(text: str) -> list[int]:
    return [int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", text)]


def _texts(client: TestClient) -> list[str]:
    with_turns = plain(page_of(client, 1))
    turns = int(re.search(r"Turn 1 of (\d+)", with_turns)[1])  # type: ignore[index] # it stands there
    return [plain(page_of(client, turn)) for turn in range(1, turns + 1)]


def test_what_was_free_is_told_by_what_became_of_it_and_adds_up(pages: TestClient) -> None:
    told = [found for text in _texts(pages) for found in FREE.findall(text)]
    assert told
    for free, parts in told:
        by_what = re.sub(r" for \d+ pieces?", "", parts)
        assert sum(_numbers(by_what)) == _numbers(free)[0], parts
    assert any("kept for an agent's next steps" in parts for _, parts in told)
    assert any(re.search(r"\d+ for \d+ piece", parts) for _, parts in told)


def test_what_had_no_room_is_told_what_was_left_in_the_sum(pages: TestClient) -> None:
    seen = 0
    for text in _texts(pages):
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
    pages: TestClient,
) -> None:
    found = [
        _numbers(part)
        for text in _texts(pages)
        for part in re.findall(
            r"Its best sentences need (.*?) were left then of what might be taken\.", text
        )
    ]
    assert found
    assert all(needed > left for needed, left in found)


def test_what_is_no_nearer_names_what_is_as_near_and_leads_there(pages: TestClient) -> None:
    found = [
        (turn, score, link.replace("&amp;", "&"), shown, quoted)
        for turn in range(16, 33)
        for score, link, shown, quoted in re.findall(
            r'Nearest there \((\d\.\d\d)\): <a href="(/trace[^"]*)">([^<]*)</a>(?:, <a [^>]*>quoted before the question of turn (\d+))?',
            page_of(pages, turn),
        )
    ]
    assert found
    for turn, score, link, shown, quoted in found:
        assert float(score) > 0
        assert shown in plain(pages.get(link).text)
        assert not quoted or int(quoted) < turn
    assert any(quoted for *_, quoted in found)


def test_chinese_says_it_too(pages: TestClient) -> None:
    found = [
        plain(pages.get("/turn", params={**WHO, "turn": str(n)}, headers=CHINESE).text)
        for n in range(20, 30)
    ]
    assert any("引文前后的固定文字" in text for text in found)
