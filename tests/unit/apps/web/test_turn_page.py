"""The page of a turn: what the app gave, what was decided and why, what went out; and what if."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from ce_engine import (
    BudgetConfig,
    ObservabilityConfig,
    RuntimeConfig,
    Scope,
    StoreConfig,
    create_context_engine,
)
from ce_engine.apps.web import stored_turn
from ce_engine.apps.web.links import turn_url
from ce_engine.apps.web.pages import turn as turn_page
from ce_engine.testing.host import HostApp, system
from tests.hosts.cli_host import url_of
from tests.unit.apps.web.visiting import plain, texts, turn_of, visit


SCOPE = Scope(session_id="warehouse", user_id="ana")
INVOICE = "The invoice 4711 of the north warehouse lies in the blue folder."
LAMP = "Every lamp shines red and bright. " * 5
WHO = {"id": SCOPE.session_id, "user": SCOPE.user_id}
page_of = partial(turn_of, WHO)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An invoice, far more than the budget, a question about lamps (15), and one about the invoice (16)."""
    found = url_of(tmp_path_factory.mktemp("store") / "ce.db")
    config = RuntimeConfig(
        budget=BudgetConfig(max_input_tokens=700, reserved_reply_tokens=0),
        store=StoreConfig(deadline_s=30),
    )
    engine = create_context_engine(found, config=config)
    engine.sync.check()
    app = HostApp(engine, SCOPE, [system("You help.")])
    app.ask(INVOICE, "Noted.")
    for _ in range(2):  # so that no lamp stands near it
        app.ask("How are you?", "Fine, thank you.")
    for n in range(11):
        app.ask(f"Tell me about lamp {n}. " * 4, f"Lamp {n}: {LAMP}")
    app.ask("Which lamp shines red and bright?", "Every lamp.")
    app.ask("Where is the invoice 4711 of the warehouse?", "In the blue folder.")
    engine.sync.close()
    return found


def test_why_a_turn_left_out_the_invoice_is_answered_by_its_page(pages: TestClient) -> None:
    html = page_of(pages, 15, find="invoice")
    steps = [plain(f"<div{step}") for step in html.split('<div class="step is-dropped')[1:]]
    [invoice] = [step for step in steps if INVOICE in step]
    assert "The cut moved in this turn" in invoice
    assert re.search(
        r"Looked at to be brought back: 0\.\d\d .* (It scored far less than the best|\d+ might be taken)",
        invoice,
    )


def test_a_turn_says_what_its_budget_is_made_of(pages: TestClient, tmp_path: Path) -> None:
    assert "window 700 tokens, 0 of them kept for the reply" in plain(page_of(pages, 16))
    found = url_of(tmp_path / "ce.db")
    config = RuntimeConfig(budget=BudgetConfig(max_input_tokens=1500))
    engine = create_context_engine(found, config=config)
    HostApp(engine, SCOPE).ask(INVOICE, "Noted.")
    engine.sync.close()
    with visit(found) as client:
        assert "window 1,500 tokens, 375 of them kept for the reply" in plain(page_of(client, 1))


def test_what_was_brought_in_has_its_score_and_the_way_back(pages: TestClient) -> None:
    html = page_of(pages, 16)
    text = plain(html)
    assert "Brought in for this turn" in text
    assert re.search(r"\d\.\d\d = .*own words", text)
    assert "shared words: " in text
    inserted = " ".join(texts(html, "ins"))
    assert "4711" in inserted
    link = next(re.finditer(r'href="(/trace\?[^"]*)"[^>]*>where it is from', html))[1]
    traced = pages.get(link.replace("&amp;", "&"))
    assert traced.status_code == 200
    assert "4711" in traced.text


def test_what_was_passed_over_is_told_with_its_score(pages: TestClient) -> None:
    text = plain(page_of(pages, 15))
    assert "Looked at, and not brought in" in text
    told = re.findall(
        r"Quoted, it needs (\d+) tokens, and (\d+) might be taken: a talk brings back", text
    )
    assert told
    assert all(int(needs) > int(free) for needs, free in told)
    assert "The question was not seen to go back to what was said earlier" in text
    assert "The question was seen to go back" in plain(page_of(pages, 16))


def test_a_cut_that_stands_names_the_turn_that_made_it(pages: TestClient) -> None:
    text = plain(page_of(pages, 13))
    made = re.search(
        r"It stands before the cut, which turn (\d+) made and which stands since", text
    )
    assert made is not None
    assert int(made[1]) < 13
    assert "The cut moved in this turn" in plain(page_of(pages, int(made[1])))


def test_what_is_never_left_out_is_told_of_this_turn_alone(pages: TestClient) -> None:
    for turn in (14, 15, 16):
        text = plain(page_of(pages, turn))
        assert text.count("never left out of it") == 1
        assert "The question of this turn is never left out of it." in text


def test_neighbours_left_out_are_folded_and_searched_all_the_same(pages: TestClient) -> None:
    html = page_of(pages, 15)
    assert re.search(r"\d+ messages</span>\s*<span class=\"action dropped\">left out", html)
    assert plain(html).count("never stored") >= 1


def test_the_cost_stands_beside_that_without_us(pages: TestClient) -> None:
    terms = texts(page_of(pages, 16), "dt")
    assert {"input cost", "without us", "prefix", "messages"} <= set(terms)


def test_turns_are_found_by_number_and_by_the_start_of_their_id(pages: TestClient) -> None:
    ids = re.findall(r"<dt>turn</dt><dd><bdi>([0-9a-f-]{36})", page_of(pages, 4))
    assert plain(pages.get(turn_url("ana", "warehouse", ids[0])).text).count("Turn 4 of 16") == 1
    for missing in ("0", "17", "zz", ""):
        assert pages.get("/turn", params={**WHO, "turn": missing}).status_code == 404


def test_what_if_tells_what_becomes_of_a_word(pages: TestClient) -> None:
    def told(word: str, window: str) -> str:
        asked = {**WHO, "turn": "15", "window": window, "find": word}
        html = pages.get("/turn/what-if", params=asked).text
        return (
            plain(html.split('class="found"')[1].split("</p>")[0])
            if 'class="found"' in html
            else ""
        )

    with_room, without = told("invoice 4711", "8,000"), told("invoice 4711", "700")
    assert "left out → message" in with_room
    assert "left out → left out" in without
    assert "No message of either input has it." in told("no such word", "8,000")
    assert told("", "8,000") == ""


def test_what_if_tells_what_else_would_have_gone_out(pages: TestClient) -> None:
    part = pages.get("/turn/what-if", params={**WHO, "turn": "15", "window": "8,000"}).text
    text = plain(part)
    assert "with this window everything has room: nothing is cut" in text
    figures = {row[0]: row[1:] for row in sums_of(part)}
    was, then, more = figures["left out"]
    assert (int(was) > 0, then, more) == (True, "0", f"−{was}")
    assert figures["budget"][1] == "8,000"
    assert "are kept for the reply" not in text  # nothing is
    assert "of what never went out that is an estimate, a provider may count more or fewer" in text
    counted = figures["tokens (estimate)"][0]
    assert re.search(f"the provider told [0-9,]+, where we count {counted}\\.", text)
    assert "is made again from what is stored now" not in text  # it is all there
    was, then, more = (cell.replace(",", "") for cell in figures["tokens (estimate)"])
    assert more == f"+{int(then) - int(was)}"
    was, then, _ = (
        cell.replace(",", "")
        for cell in figures["cost of this call's input, if what begins alike is cached, units"]
    )
    assert 0 < int(was) < int(then)
    row = next(row for row in texts(part, "tr") if INVOICE in row)
    assert "left out → message" in row
    assert "It fits." in row
    assert "would have gone another way" in plain(page_of(pages, 15, window="8000"))


def test_the_answer_stands_on_the_page(pages: TestClient) -> None:
    html = page_of(pages, 16)
    part = html.partition('id="answer"')[2].partition("</section>")[0]
    assert "What the model answered In the blue folder. what its answer rests on" in plain(part)


def test_what_the_reply_keeps_of_another_window_can_be_said(pages: TestClient) -> None:
    """An app's own reserve may be what its window has by itself, so that nobody can tell."""
    text = plain(page_of(pages, 15, window="8000", reply="500"))
    kept = (
        "Of the window of 8,000 tokens 500 are kept for the reply: the budget of the input is 7,500"
    )
    assert kept in text
    page = page_of(pages, 15, window="8000", reply="500")
    assert 'id="reply" name="reply"' in page
    assert 'value="500"' in page
    for wrong in ("8000", "many", "-1"):
        text = plain(page_of(pages, 15, window="8000", reply=wrong))
        assert "cannot be made" in text, wrong


def sums_of(part: str) -> list[list[str]]:
    """The lines of the table of both."""
    rows = re.findall(r'<tr><th scope="row">([^<]*)</th>(.*?)</tr>', part, re.DOTALL)
    return [[plain(title), *texts(cells, "td")] for title, cells in rows]


def test_what_if_says_why_a_larger_budget_sends_fewer_messages(url: str, pages: TestClient) -> None:
    found: list[str] = []
    for turn in range(12, 17):
        for window in ("900", "1000", "1400"):
            part = pages.get(
                "/turn/what-if", params={**WHO, "turn": str(turn), "window": window}
            ).text
            was, then, _ = next(row[1:] for row in sums_of(part) if row[0].startswith("messages"))
            if int(then) < int(was):
                found.append(plain(part))
    assert found, "no budget of these makes it fewer"
    for text in found:
        assert "over a quarter larger, so that the line is cut anew" in text
        assert "quoted in one text before the question" in text
        assert "no earlier turn ran with the other setting" in text


def test_the_cost_of_the_other_call_is_beside_the_call_before(url: str, pages: TestClient) -> None:
    """What is the same as before is known of the turn; made again, it is the very same."""
    engine = create_context_engine(url)
    turns = list(engine.sync.list_turns(SCOPE))
    same = BudgetConfig(max_input_tokens=700, reserved_reply_tokens=0)
    for at in range(2, len(turns)):
        replay = engine.sync.replay(SCOPE, at + 1, RuntimeConfig(budget=same))
        assert replay.prefix == turns[at].report["prefix_tokens_unchanged"]
        assert replay.prefix_instead == replay.prefix
    engine.sync.close()


def test_what_if_is_of_one_call_and_says_why_not_all_of_the_budget_is_used(
    url: str, pages: TestClient
) -> None:
    """Its cost stands beside one that is comparable; and what was near and did not come has a reason."""
    for window in ("650", "1000"):
        part = pages.get("/turn/what-if", params={**WHO, "turn": "15", "window": window}).text
        text = plain(part)
        assert "This is of one call alone." in text
        sums = {row[0]: [cell.replace(",", "") for cell in row[1:3]] for row in sums_of(part)}
        used, budget, out = (sums[name][1] for name in ("tokens (estimate)", "budget", "left out"))
        same = "The very same would have gone out." in text
        if not same and int(out) and int(used) < int(budget) * 0.9:
            assert f"{used} of {int(budget):,} tokens are used" in text
            assert "for the turns to come" in text
        cached = sums["cost of this call's input, if what begins alike is cached, units"]
        bare = sums["the same, were nothing cached, units"]
        assert bare == sums["tokens (estimate)"]  # a unit is an input token at full price
        assert int(cached[0]) < int(bare[0])
        assert "Near the question, and not brought in with the other setting" in text
        assert re.search(r"Quoted, it needs \d+ tokens, and \d+ |It scored far less", text)
    text = plain(pages.get("/turn/what-if", params={**WHO, "turn": "15", "window": "700"}).text)
    assert "The very same would have gone out." in text
    assert "This is of one call alone." in text


def test_a_message_below_the_cut_says_since_when_and_leads_there(pages: TestClient) -> None:
    row = row_of(page_of(pages, 15), INVOICE)
    [turn] = re.findall(r"Left out since turn (\d+)\.|$", plain(row))[:1]
    assert 1 < int(turn) < 15
    address = re.search(r'href="(/turn[^"]*)">Left out since', row)
    assert address is not None
    there = row_of(pages.get(address[1].replace("&amp;", "&")).text, INVOICE)
    assert "It is left out from this turn on." in plain(there)
    before = row_of(page_of(pages, int(turn) - 1), INVOICE)
    assert "nothing" not in plain(before).split("Went out")[-1]
    assert "eft out since" not in plain(before)


def test_what_if_with_the_other_placement(pages: TestClient) -> None:
    part = pages.get("/turn/what-if", params={**WHO, "turn": "16", "placement": "seed"})
    assert part.status_code == 200
    assert "instead" in plain(part.text)


@pytest.mark.parametrize("window", ["0", "-5", "1e9", "99999999999999999999", "<script>"])
def test_what_if_refuses_what_is_no_window(pages: TestClient, window: str) -> None:
    answer = pages.get("/turn/what-if", params={**WHO, "turn": "15", "window": window})
    assert answer.status_code == 200
    assert "cannot be made" in plain(answer.text)
    assert "<script>" not in answer.text


def test_looking_writes_nothing(url: str, pages: TestClient) -> None:
    before = Path(url.removeprefix("sqlite:///")).read_bytes()
    page_of(pages, 15, window="5000", placement="seed")
    assert Path(url.removeprefix("sqlite:///")).read_bytes() == before


def test_a_turn_that_takes_too_long_is_shown_without(
    pages: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (stored_turn, turn_page):
        monkeypatch.setattr(module, "SECONDS", 0.0)
    text = plain(page_of(pages, 15, window="5000"))
    assert "It took too long to make this turn again" in text
    assert "All decisions, as stored" in text


def test_chinese_is_whole(pages: TestClient) -> None:
    answer = pages.get("/turn", params={**WHO, "turn": "15"}, headers={"accept-language": "zh"})
    text = plain(answer.text)
    assert "第 15 轮，共 16 轮" in text
    assert "它在切点之前" in text
    assert "看过但没有补入" in text
    for english in ("left out", "dropped", "tokens", "Relevance", "messages"):
        assert english not in text


def test_without_a_stored_report_the_page_says_so(tmp_path: Path) -> None:
    found = url_of(tmp_path / "ce.db")
    silent = RuntimeConfig(observability=ObservabilityConfig(include_reports_in_store=False))
    engine = create_context_engine(found)
    engine.sync.check()
    HostApp(engine, SCOPE).ask("Hello?", "Hi.", config=silent)
    engine.sync.close()
    with visit(found) as client:
        assert "No report is stored" in plain(page_of(client, 1))


def test_deleted_texts_are_told_as_deleted(tmp_path: Path) -> None:
    found = url_of(tmp_path / "ce.db")
    engine = create_context_engine(found)
    engine.sync.check()
    app = HostApp(engine, SCOPE, [system("You help.")])
    app.ask("Where is the 4711?", "In the blue folder.")
    answer = engine.sync.list_evidences(SCOPE)
    for each in answer:
        engine.sync.delete_evidence(SCOPE, each.evidence_id)
    app.ask("And now?", "Still there.")
    engine.sync.close()
    with visit(found) as client:
        text = plain(page_of(client, 2))
    assert "In the blue folder" not in text
    assert "The text is not there: deleted" in text


def row_of(html: str, text: str) -> str:
    """The row of the message that says this."""
    steps = re.split(r'(?=<div class="step )', html.partition('<div class="journey">')[2])
    return next(step for step in steps if text in plain(step))


def test_a_message_says_where_it_went_and_leads_there(pages: TestClient) -> None:
    for turn in (2, 15, 16):  # of the past and of what came later
        row = row_of(page_of(pages, turn), INVOICE)
        told = re.search(
            r"Where it went, by turns: (.*?)(?: Decision| (?:kept|dropped)|$)", plain(row)
        )
        assert told is not None
        assert re.search(r"as a message 1 ?–", told[1])
        assert re.search(r"quoted [\d, –]*16", told[1])
        assert re.search(r"left out [\d, –]*15", told[1])
    links = re.findall(r'href="(/turn\?[^"]*turn=16[^"]*)"', row_of(page_of(pages, 2), INVOICE))
    there = pages.get(links[0].replace("&amp;", "&"))
    assert "Turn 16 of 16" in plain(there.text)
    assert "new in turn 1" in plain(row_of(page_of(pages, 15), INVOICE))
    assert "answer of turn 1" in plain(row_of(page_of(pages, 15), "Noted."))


def test_a_word_goes_along_from_turn_to_turn_and_is_marked(pages: TestClient) -> None:
    html = page_of(pages, 14, find="INVOICE")
    assert re.search(
        r"Looked for: INVOICE · (1 message of this turn has|\d+ messages of this turn have) it\.",
        plain(html),
    )
    [after] = re.findall(r'rel="next" href="([^"]*)"', html)
    html = pages.get(after.replace("&amp;", "&")).text
    assert "Turn 15 of 16" in plain(html)
    assert {"invoice", "INVOICE"} == set(texts(html, "mark"))
    [before] = re.findall(r'rel="prev" href="([^"]*)"', html)
    assert "find=INVOICE" in before
    assert "find=INVOICE" in next(iter(re.findall(r'href="(/session\?[^"]*)"', html)))
    assert "No message of this turn has it." in plain(page_of(pages, 15, find="zebra"))


def test_what_is_found_far_inside_a_long_text_is_in_sight(tmp_path: Path) -> None:
    found = url_of(tmp_path / "ce.db")
    engine = create_context_engine(found)
    engine.sync.check()
    HostApp(engine, SCOPE).ask(
        "Nothing of it. " * 400 + "文件夹 <b>blue</b>. " + "No. " * 99, "So."
    )
    engine.sync.close()
    with visit(found) as client:
        html = page_of(client, 1, find="文件夹 <B>BLUE")
    assert texts(html, "mark")[-1] == "文件夹 <b>blue"
    assert "<b>blue" not in html
