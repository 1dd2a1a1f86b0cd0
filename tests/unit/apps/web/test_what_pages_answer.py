"""What people ask of a session: the bill, contradictions, numbers from nowhere, why a message stayed out, what changed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from ce_engine import RuntimeConfig, Scope, StoreConfig, create_context_engine, open_store
from ce_engine.apps.present.language import ENGLISH
from ce_engine.apps.present.reasons import Reasons
from ce_engine.apps.present.turn_changes import turn_changes
from ce_engine.apps.web.links import costs_url, trace_url, turn_url
from ce_engine.audit.places.whereabouts import (
    LEFT_OUT,
    QUOTED,
    SENT,
    SHORTENED,
    stretches_of,
    whereabouts,
)
from ce_engine.schema.enums import Role
from ce_engine.schema.replay import PassedOver, RoomTaken
from ce_engine.schema.report import RecallReport, Report
from ce_engine.schema.rows import PutTurn
from ce_engine.testing.host import HostApp, system
from tests.hosts.cli_host import ce, url_of
from tests.hosts.compare_host import Told, put
from tests.hosts.ward_host import SCOPE, Ward, small_talk, ward_of
from tests.unit.apps.web.visiting import plain, read, sessions_of, texts, visit


NONE_CACHED = {"cache_read": 0}
HALF_CACHED = {"cache_read": 50}


# The bill


@pytest.fixture
def bill(tmp_path: Path) -> str:
    """Three calls of 100, 200 and 300 tokens by the provider's count, of which it had 0, 50 and 0 in its cache; one untold."""
    found = url_of(tmp_path / "ce.db")
    broken = {"prefix_broken_by": "cut"}
    calls = [
        Told(prompt=100, prefix=None, params=NONE_CACHED),
        Told(prompt=200, params=HALF_CACHED),
        Told(prompt=300, params=NONE_CACHED, report=broken),
        Told(prompt=0, completion=0),
    ]
    put(found, "s", calls)
    return found


def test_the_bill_as_told_stands_first(bill: str) -> None:
    with visit(bill) as client:
        html = client.get(costs_url("", "s")).text
    # 600 tokens, 50 of them for a tenth, and 3 answers of 10 for four times as much.
    assert "675 units cost as told, of inputs and answers: 8.3% of the input cached" in plain(html)
    [told, *_] = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", html)
    assert told[0] == "as told"
    assert "555 for 600 tokens of input (50 of them cached: 8.3%)" in plain(told[1])
    command = " ".join(ce("report", "s", "--store", bill, columns=400).stdout.split())
    assert "as told 675 units: 555 for 600 tokens of input" in command


def test_the_list_of_sessions_has_the_bill_for_those_who_choose_it(bill: str) -> None:
    put(bill, "untold", [Told(prompt=0, completion=0)])
    with visit(bill) as client:
        client.get("/preferences?columns=1&column=billed")
        html = read(client, "/?sort=billed")
    assert texts(html, "th")[:2] == ["Session", "Cost, as told ↓"]
    assert sessions_of(html) == ["s", "untold"]
    assert texts(html, "td") == ["675 units", "–"]


def test_each_turn_has_its_bill_and_what_was_cached(bill: str) -> None:
    with visit(bill) as client:
        html = client.get(costs_url("", "s", order="billed")).text
        plainest = client.get(costs_url("", "s")).text
    rows = re.findall(r"<tr>\s*<td class=\"number\"><a data-row.*?</tr>", html, re.DOTALL)
    cells = [texts(row, "td") for row in rows]
    heads = [head.rstrip(" ↓") for head in texts(html, "th")]
    cost, cached = heads.index("cost, as told"), heads.index("cached, as told")
    assert [(row[0], row[cost], row[cached]) for row in cells] == [
        ("3", "300", "0"),
        ("2", "155", "50"),
        ("1", "100", "0"),
        ("4", "-", "–"),
    ]
    assert "cost, as told" in texts(plainest, "th")


def test_the_turns_are_listed_of_which_nothing_was_cached(bill: str) -> None:
    with visit(bill) as client:
        html = client.get(costs_url("", "s")).text
    part = html.split('class="uncached"')[1].split("</details>")[0]
    assert "of 2 turns the provider had nothing in its cache" in plain(part)
    assert [plain(item) for item in re.findall(r"<li>(.*?)</li>", part)] == [
        "turn 1 none before it to begin like",
        "turn 3 40 tokens are the same as before, about 120 as the provider counts; then the cut moved",
    ]


def cached_at(prefix: int | None, prompt: int, broken_by: str) -> Told:
    """A call of 1,000 tokens by our count, of which the provider had nothing in its cache."""
    report = {"prefix_broken_by": broken_by}
    return Told(
        model="gpt-4.1-mini",
        sent=max(1000, prefix or 0),
        prefix=prefix,
        prompt=prompt,
        params=NONE_CACHED,
        report=report,
    )


def test_of_each_turn_without_a_cache_it_is_told_whose_doing_that_is(tmp_path: Path) -> None:
    """The provider caches from 1,024 of its own tokens on."""
    found = url_of(tmp_path / "ce.db")
    put(
        found,
        "s",
        [
            cached_at(None, 1100, ""),
            cached_at(900, 1000, "cut"),
            cached_at(900, 1100, "cut"),
            cached_at(950, 1200, "cut"),
            cached_at(900, 1100, "rules"),
            cached_at(900, 1100, "system"),
            replace(cached_at(1500, 1600, ""), at="2026-11-20T10:09:00.000Z"),
            replace(cached_at(1500, 1600, ""), at="2026-11-20T10:54:00.000Z"),
            replace(cached_at(1500, 1600, ""), model="gpt-4.1", at="2026-11-20T10:54:00.000Z"),
        ],
    )
    with visit(found) as client:
        html = client.get(costs_url("", "s")).text
    part = html.split('class="uncached"')[1].split("</details>")[0]
    alike = "{} tokens are the same as before, about {} as the provider counts; "
    few, enough = (
        f"; too few for its cache, which begins at {1024:,}",
        f"enough for its cache, which begins at {1024:,}",
    )
    assert [plain(item) for item in re.findall(r"<li>(.*?)</li>", part)] == [
        "turn 1 none before it to begin like",
        f"turn 2 too short for its cache, which begins at {1024:,}",
        f"turn 3 ours {alike.format(900, 990)}then the cut moved{few}",
        f"turn 4 the provider {alike.format(950, '1,140')}{enough}",
        f"turn 5 a rule {alike.format(900, 990)}then a rule was added, changed or deleted{few}",
        f"turn 6 the app {alike.format(900, 990)}then the app's own system message changed{few}",
        f"turn 7 the provider {alike.format('1,500', '1,600')}{enough}",
        f"turn 8 the pause of 45 min {alike.format('1,500', '1,600')}{enough}",
        "turn 9 the app another model than the call before: gpt-4.1-mini",
    ]


def test_an_input_over_its_budget_as_the_provider_counts_is_marked(tmp_path: Path) -> None:
    found = url_of(tmp_path / "ce.db")
    within = {"token_budget": 2000}
    put(
        found,
        "s",
        [Told(sent=1986, prompt=1967, report=within), Told(sent=1951, prompt=2021, report=within)],
    )
    with visit(found) as client:
        html = client.get(costs_url("", "s", order="as_told")).text
        page = client.get(turn_url("", "s", 2)).text
    rows = re.findall(r"<tr>\s*<td class=\"number\"><a data-row.*?</tr>", html, re.DOTALL)
    told = texts(html, "th").index("tokens, as told ↓")
    assert [(texts(row, "td")[0], texts(row, "td")[told]) for row in rows] == [
        ("2", "2,021"),
        ("1", "1,967"),
    ]
    words = "over the budget, as the provider counts"
    assert [words in plain(row) for row in rows] == [True, False]
    assert f"{words} in turn 2" in plain(html.split('id="notable"')[1].split('id="costs"')[0])
    assert words in plain(page)


def test_of_a_provider_that_tells_nothing_there_is_no_bill(tmp_path: Path) -> None:
    found = url_of(tmp_path / "ce.db")
    put(found, "s", [Told(prompt=0, completion=0)])
    with visit(found) as client:
        html = client.get(costs_url("", "s")).text
    assert "as told" not in html
    assert "uncached" not in html


# Contradictions, numbers, reasons


@pytest.fixture(scope="module")
def ward(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ward]:
    url = url_of(tmp_path_factory.mktemp("store") / "ce.db")
    patient = RuntimeConfig(store=StoreConfig(deadline_s=30))  # a busy machine is no fault here
    engine = create_context_engine(url, config=patient)
    engine.sync.check()
    made = ward_of(engine)
    made.ask("And its price, please?", "It was 381.55 euros, and its weight 31.2.")
    engine.sync.flush()
    yield made
    engine.sync.close()


@pytest.fixture(scope="module")
def pages(ward: Ward) -> Iterator[TestClient]:
    with visit(ward.app.engine.store.url) as client:
        yield client


def page_of(pages: TestClient, turn: int, **more: str) -> str:
    answer = pages.get(turn_url(SCOPE.user_id, SCOPE.session_id, turn, **more))
    assert answer.status_code == 200
    return answer.text


def test_a_contradiction_has_a_card_with_its_turns(ward: Ward, pages: TestClient) -> None:
    html = pages.get(costs_url(SCOPE.user_id, SCOPE.session_id)).text
    [card] = re.findall(r'<details class="contradiction".*?</details>', html, re.DOTALL)
    text = plain(card)
    assert "sources disagree weight_kg of patient_id P-1" in text
    assert "patient_record : 31.2" in text
    assert "ward_chart : 28.6" in text
    both = [n for n in ward.turns_with("31.2", "28.6") if not ward.is_note_alone(n)]
    (first, last), *_ = stretches_of(both)
    assert f"Both before the model, whole or in part: {first} – {last}" in text
    assert "the model was told:" in text


def test_a_number_from_nowhere_is_marked_on_the_turn_and_in_the_trace(
    ward: Ward, pages: TestClient
) -> None:
    document, turns = ward.stored()
    answer = turns[-1].answer_message_id or ""
    trace = pages.get(trace_url(SCOPE.user_id, SCOPE.session_id, answer)).text
    for html in (page_of(pages, len(turns)), trace):
        marked = html.split('class="unsupported"')[1].split("</p>")[0]
        assert texts(marked, "b") == ["381.55"]
    question = next(m.message_id for m in document.session.messages if m.role is Role.USER)
    other = pages.get(trace_url(SCOPE.user_id, SCOPE.session_id, question or "")).text
    assert "unsupported" not in other


def test_a_number_of_an_answer_is_shown_where_it_stands(ward: Ward, pages: TestClient) -> None:
    card = page_of(pages, len(ward.inputs)).split('class="numbers"')[1].split("</details>")[0]
    [row] = re.findall(r"<tr>.*?</tr>", card.split("<tbody>")[1], re.DOTALL)
    assert texts(row, "b") == ["31.2"]
    assert texts(row, "mark") == ["31.2"]
    name = re.search(r'href="/(?:trace|evidence)\?[^"]*(?:message|evidence)=([^"&]*)', row)
    assert name is not None
    document, _ = ward.stored()
    sources = {m.message_id: m.content for m in document.session.messages}
    sources |= {each.evidence_id: each.content for each in document.evidences.values()}
    assert "31.2" in sources[name[1]]


def test_why_a_message_stayed_out_stands_beside_the_word_that_is_looked_for(
    pages: TestClient,
) -> None:
    html = page_of(pages, 12, find="lamp number 1 is")
    found = [plain(each) for each in re.findall(r'<p class="absent"[^>]*>.*?</p>', html, re.DOTALL)]
    assert len(found) in (1, 2)
    assert "It stands before the cut" in found[0]


def test_a_search_tells_the_turns_of_each_hit_however_it_is_sorted(
    ward: Ward, pages: TestClient
) -> None:
    """Whole words stand first, and what has the text inside a longer word behind them."""
    who = {"id": SCOPE.session_id, "user": SCOPE.user_id}
    html = pages.get("/session/find", params={**who, "find": "is"}).text
    assert "inside longer words" in html
    document, turns = ward.stored()
    where = whereabouts([m.message_id or "" for m in document.session.messages], document, turns)
    seen = 0
    for hit in re.findall(r"<li>.*?</li>", html, re.DOTALL):
        name = re.search(r"/trace[^\"]*message=([^\"&]*)", hit)
        if name is None or "Where it went" not in hit:
            continue
        stretches = [each for stay in where[name[1]].stays for each in stay.stretches[:4]]
        wanted = [turn for first, last in stretches for turn in dict.fromkeys((first, last))]
        told = re.findall(
            r"turn=(\d+)", re.sub("<details.*?</details>", "", hit.split("Where it went")[1])
        )
        assert [int(turn) for turn in told] == wanted
        seen += 1
    assert seen > 20


def test_a_search_sums_up_when_any_of_its_hits_went_out(ward: Ward, pages: TestClient) -> None:
    who = {"id": SCOPE.session_id, "user": SCOPE.user_id}
    html = pages.get("/session/find", params={**who, "find": "31.2"}).text
    line = html.split("In one of them or another it went out in turns:")[1].split("</p>")[0]
    ends = [[int(n) for n in each.split("–")] for each in plain(line).replace(" ", "").split(",")]
    sent = {turn for each in ends for turn in range(each[0], each[-1] + 1)}
    assert sent == {*ward.turns_with("31.2")}
    assert len(sent) < len(ward.inputs)


def test_a_turn_says_what_changed_against_the_one_before(ward: Ward, pages: TestClient) -> None:
    moved = next(n for n in range(4, len(ward.inputs)) if "moved" in page_of(pages, n))
    card = page_of(pages, moved).split('id="changes"')[1].split("</section>")[0]
    assert f"Against turn {moved - 1}" in plain(card)
    assert "left out now" in card
    for name in re.findall(r'href="#row-([^"]*)"', card):
        assert f'id="row-{name}"' in page_of(pages, moved)
    assert 'id="changes"' not in page_of(pages, 1)
    # It is of all messages, whatever is looked for.
    found = page_of(pages, moved, find="kennel").split('id="changes"')[1].split("</section>")[0]
    assert texts(found, "summary") == texts(card, "summary")


@pytest.mark.parametrize(
    ("find", "there"),
    [
        ("75,000", ["75000.0", "75 000", "7.5万", "75,000"]),
        ("75000.0", ["75000.0", "75 000", "7.5万", "75,000"]),
        ("31.03.2027", ["2027-03-31", "31 March 2027"]),
        ("7501", []),
        ("about 75000", []),
    ],
)
def test_a_number_is_found_however_it_is_written(
    tmp_path: Path, find: str, there: list[str]
) -> None:
    found = url_of(tmp_path / "ce.db")
    engine = create_context_engine(found)
    app = HostApp(engine, Scope(session_id="s"))
    for each in ("75000.0", "75 000", "７.５万", "75,000", "2027-03-31", "31 March 2027", "750001"):
        app.ask(f"Is it {each}, then?", "It is.")
    engine.sync.close()
    with visit(found) as client:
        html = client.get("/session/find", params={"id": "s", "user": "", "find": find}).text
    assert texts(html, "mark") == there
    assert "without it" not in html


def test_a_turn_says_that_the_apps_own_prompt_changed(tmp_path: Path) -> None:
    found = url_of(tmp_path / "ce.db")
    engine = create_context_engine(found)
    app = HostApp(engine, Scope(session_id="s"), [system("You help, by the manual of June.")])
    app.ask("How many?", "Four.")
    app.messages[0] = system("You help, by the manual of July.")
    app.ask("And now?", "Five.")
    app.ask("And then?", "Six.")
    engine.sync.close()
    with visit(found) as client:
        pages = [client.get(turn_url("", "s", n)).text for n in (2, 3)]
    cards = [plain(html.split('id="changes"')[-1].split("</section>")[0]) for html in pages]
    words = "the app's own system message changed"
    assert [words in card for card in cards] == [True, False]


def test_each_question_has_its_sums(ward: Ward, pages: TestClient) -> None:
    _, turns = ward.stored()
    tokens: dict[str, int] = {}
    for turn in turns:
        tokens[turn.request_id] = tokens.get(turn.request_id, 0) + turn.report["token_used"]
    html = pages.get(costs_url(SCOPE.user_id, SCOPE.session_id)).text
    part = html.split('class="by-question"')[1].split("</details>")[0]
    rows = [
        [plain(cell) for cell in re.findall(r"<td.*?</td>", row, re.DOTALL)]
        for row in part.split("<tbody>")[1].split("</tr>")
    ]
    found = {int(row[0]): row for row in rows if row}
    names = [*tokens]
    assert sorted(found) == list(range(1, len(names) + 1))
    for number, row in found.items():
        assert int(row[3].replace(",", "")) == tokens[names[number - 1]]
        calls = sum(each.request_id == names[number - 1] for each in turns)
        assert int(row[2]) == calls
        assert len(row[1].split("–")) == min(calls, 2)
    costs = [float(row[5].replace(",", "")) for row in rows if row]
    assert costs == sorted(costs, reverse=True)
    largest = max(tokens, key=lambda name: tokens[name])
    words = f"the dearest is question {rows[0][0]}; question {names.index(largest) + 1} has the most input"
    assert words in plain(part)


@pytest.mark.parametrize(("kept", "told"), [(0, False), (225, True)])
def test_where_nothing_could_be_quoted_it_is_told_what_was_kept(kept: int, told: bool) -> None:
    report = Report(turn_id="t", token_budget=2000, token_used=1756)
    report.recall = RecallReport(state="looked", room=10 + kept)
    room = RoomTaken(around=31, taken=0, pieces=0, kept=kept, why="over_share", left=-21)
    [note] = [n for n in Reasons(report, None, ENGLISH, room).notes() if "were free" in n]
    assert "too few for the words around quotes, which need 31" in note
    assert ("225 kept" in note and "10 left over" in note) is told
    piece = PassedOver(id="m:1", kind="message", reason="over_share", tokens=13, room=10)
    assert Reasons(report, None, ENGLISH, room).passed(piece) == (
        "Quoted, it needs 13 tokens; 10 of the 235 that were free might be taken, and the words around "
        "quotes alone need 31."
        if told
        else "Quoted, it needs 13 tokens; 10 were free, and the words around quotes alone need 31."
    )


def test_a_turn_says_which_note_on_sources_is_gone(ward: Ward, pages: TestClient) -> None:
    """As the wire has it: the note stands in some turns, and no more in those behind them."""
    noted = set(ward.turns_with("Sources disagree"))
    told = ["told now: sources disagree", "no more told: sources disagree"]
    seen = set()
    for turn in range(2, len(ward.inputs) + 1):
        html = page_of(pages, turn)
        card = plain(
            html.split('id="changes"')[1].split("</section>")[0] if "changes" in html else ""
        )
        has = [words in card for words in told]
        assert has == [
            turn in noted and turn - 1 not in noted,
            turn - 1 in noted and turn not in noted,
        ]
        if any(has):
            assert "weight_kg (patient_id P-1): 28.6 (ward_chart); 31.2 (patient_record)" in card
            seen.add(tuple(has))
    assert seen == {(True, False), (False, True)}


@pytest.mark.parametrize(
    ("before", "now", "kind"),
    [
        (None, SENT, "new"),
        (None, SHORTENED, "new"),
        (SENT, LEFT_OUT, "out"),
        (SENT, QUOTED, "quoted"),
        (QUOTED, LEFT_OUT, "unquoted"),
        (LEFT_OUT, SENT, "back"),
        (QUOTED, SENT, "back"),
        (SENT, SHORTENED, "shortened"),
        (SHORTENED, SENT, "whole"),
        (SENT, SENT, None),
        (LEFT_OUT, LEFT_OUT, None),
        (None, LEFT_OUT, None),
        (SENT, None, "gone"),
        (LEFT_OUT, None, "gone"),
        (QUOTED, None, "unquoted"),
    ],
)
def test_kinds_of_changes(before: str | None, now: str | None, kind: str | None) -> None:
    there = {"other": SENT}
    changes = turn_changes(
        {"m": now, **there} if now else there, {"m": before, **there} if before else there
    )
    assert [change.kind for change in changes] == ([kind] if kind else [])


def test_where_nothing_is_stored_of_a_turn_nothing_is_gone() -> None:
    assert turn_changes({}, {"m": SENT}) == []


def test_pieces_are_counted_by_since_when_they_stand(ward: Ward, pages: TestClient) -> None:
    found = {
        text
        for n in range(1, len(ward.inputs) + 1)
        for text in re.findall(
            r"Brought in for this turn <span class=\"soft\">(.*?)</span>", page_of(pages, n)
        )
    }
    assert any(re.fullmatch(r"\d+ new pieces?, \d+ stands? from before", text) for text in found)


# A turn that cannot be made again


@pytest.fixture
def other_release(tmp_path: Path) -> Iterator[tuple[Ward, TestClient]]:
    """A session whose archive says that each turn had less room than it had: made again, it leaves out more."""
    url = url_of(tmp_path / "ce.db")
    engine = create_context_engine(url)
    engine.sync.check()
    ward = Ward(engine)
    small_talk(ward, 12)
    _, turns = ward.stored()
    engine.sync.close()

    async def lessen() -> None:
        store = open_store(url)
        for row in turns:
            archive = row.report["extra"]["replay"]
            if archive.get("settings"):
                archive["settings"]["budget"]["max_input_tokens"] = 300
        await store.apply(SCOPE, [PutTurn(replace(row)) for row in turns])
        await store.close()

    asyncio.run(lessen())
    with visit(url) as client:
        yield ward, client


def test_of_a_turn_that_cannot_be_made_again_the_record_is_shown(
    other_release: tuple[Ward, TestClient],
) -> None:
    ward, client = other_release
    last = len(ward.inputs)
    by_record = 0
    for turn in range(1, last + 1):
        html = page_of(client, turn)
        by_record += 'id="by-record"' in html
        assert ('id="by-record"' in html) == ("cannot be made again as it went out" in html)
        for step in html.split('<div class="step is-')[1:]:
            gave = plain(f"<div {step.split('Where it went')[0]}")
            n = re.search(r"Please tell me of lamp \d+ |Lamp number \d+ ", gave)
            if n is None or "went-to" not in step:
                continue
            text = n[0]
            is_message = any(
                text in line and not line.startswith("|")
                for line in ward.inputs[turn - 1].splitlines()
            )
            assert step.startswith("dropped") != is_message, (turn, text)
    assert by_record > last / 2
