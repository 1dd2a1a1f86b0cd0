"""Where a message went is what was on the wire, in every place that tells it: search, turn, trace, and `ce report`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

from ce_engine import (
    BudgetConfig,
    CharBasedEstimator,
    Prepared,
    RuntimeConfig,
    Scope,
    StoreConfig,
    create_context_engine,
)
from ce_engine.prepare.tool_results.values import values_of
from ce_engine.schema.call import Extend, Insert, Keep, Restore, Shorten
from ce_engine.testing import IdsInOrder
from ce_engine.testing.host import HostApp, assistant, system, tool_calls, tool_result, user
from tests.hosts.cli_host import ce, url_of
from tests.unit.apps.web.visiting import plain, turn_of, visit


SCOPE = Scope(session_id="shop", user_id="ana")
WHO = {"id": SCOPE.session_id, "user": SCOPE.user_id}
page_of = partial(turn_of, WHO)
CONFIG = RuntimeConfig(
    budget=BudgetConfig(max_input_tokens=700, reserved_reply_tokens=0),
    store=StoreConfig(deadline_s=30),
    tool_results="compact",
)
TOTAL = "Grand total of invoice 9011: 652.43 EUR."
INVOICE = " ".join(
    f"Line {n}: Tea of the {n}th harvest, {n + 3} boxes, {n * 7} EUR each, best before month {n}."
    for n in range(1, 14)
)
STOCK = json.dumps({"lamp_id": "L-1", "shelves": [1, 2, 3], "open": True, "price": 12}, indent=8)
Wire = dict[str, dict[int, str]]
"""What became of texts, by turns: `whole`, `short`, `quoted`, `in part` or `out`."""


class Seen:
    """An app, and what of some texts it sends."""

    def __init__(self, app: HostApp, texts: Mapping[str, str]) -> None:
        self.app, self.texts = app, texts
        self.wire: Wire = {name: {} for name in texts}
        self.turn = 0

    def prepare(self, *messages: object, **call: object) -> Prepared:
        made = self.app.prepare(*messages, **call)  # type: ignore[arg-type]
        self.turn += 1
        for name, text in self.texts.items():
            places = [n for n, m in enumerate(self.app.messages) if m.message.content == text]
            if places:
                self.wire[name][self.turn] = self._fate(made, places[0], text)
        return made

    @staticmethod
    def _fate(made: Prepared, place: int, text: str) -> str:
        put_in = ""
        for step in made.plan:
            if isinstance(step, Keep | Extend) and step.index == place:
                return "whole"
            if isinstance(step, Shorten) and step.index == place:
                return "short"
            put_in += step.text if isinstance(step, Insert | Extend) else ""
            assert not isinstance(step, Restore)
        text = values_of(text)  # as a quotation tells JSON
        pieces = [text, *re.split(r"(?<=[.:]) ", text)]
        found = [" ".join(each.split()) in " ".join(put_in.split()) for each in pieces]
        return "quoted" if found[0] else "in part" if any(found) else "out"

    def ask(self, question: str, answer: str) -> None:
        self.app.commit(self.prepare(user(question)), assistant(answer))

    def look(self, question: str, name: str, text: str, answer: str) -> None:
        made = self.prepare(user(question))
        call = f"c{self.turn}"
        self.app.commit(made, tool_calls((call, name, {})))
        made = self.prepare(tool_result(call, text), new_request=False)
        self.app.commit(made, assistant(answer))


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Wire]:
    """An invoice that is too long to be quoted whole, lamps in stock, and a talk until both are left out."""
    url = url_of(tmp_path_factory.mktemp("store") / "ce.db")
    engine = create_context_engine(
        url,
        config=CONFIG,
        token_estimator=CharBasedEstimator(),
        id_generator=IdsInOrder("shop-"),
    )
    engine.sync.check()
    texts = {"invoice": f"{TOTAL} {INVOICE}", "stock": STOCK}
    seen = Seen(HostApp(engine, SCOPE, [system("You help.")]), texts)
    seen.look("How many of lamp L-1?", "stock", STOCK, "On three shelves.")
    seen.ask("Thanks.", "You are welcome.")
    seen.ask(texts["invoice"], "Noted.")
    for n in range(6):
        seen.ask(f"Tell me of the garden {n}. " * 6, f"Garden {n} has roses. " * 4)
    seen.ask("What is the grand total of invoice 9011?", "It is 652.43 EUR.")
    for n in range(3):
        seen.ask(f"And of the pond {n}? " * 2, "It has fish.")
    for n in range(2):  # after which no room is left
        seen.ask(f"Tell me of the meadow {n}. " * 100, f"Meadow {n} has cows. " * 8)
    engine.sync.close()
    return url, seen.wire


WORDS = {
    "as a message": "whole",
    "shortened": "short",
    "quoted": "quoted",
    "quoted in part": "in part",
    "left out": "out",
}


def told(text: str) -> dict[int, str]:
    """What a line says that tells where a message went, spread out over its turns."""
    line = re.split("Where it went, by turns:", text)[1]
    line = re.match(
        r"(?: (?:as a message|shortened|quoted in part|quoted|left out|·|[\d–,]+))+", line
    )[0]  # type: ignore[index]
    found: dict[int, str] = {}
    for stay in line.split("·"):
        word = re.sub(r"[\d–,]+", "", stay).strip()
        for first, last in re.findall(r"(\d+)(?: – (\d+))?", stay):
            found |= dict.fromkeys(range(int(first), int(last or first) + 1), WORDS[word])
    return found


def test_the_wire_has_what_this_is_about(session: tuple[str, Wire]) -> None:
    _, wire = session
    assert "in part" in wire["invoice"].values()
    assert "quoted" not in wire["invoice"].values()
    assert [*wire["stock"].values()].count("short") > 1


@pytest.mark.parametrize(("name", "word"), [("invoice", "Grand total"), ("stock", "shelves")])
def test_search_and_trace_say_what_was_on_the_wire(
    session: tuple[str, Wire], name: str, word: str
) -> None:
    """Of a tool's result the message and the evidence say the same."""
    url, wire = session
    with visit(url) as client:
        html = client.get("/session/find", params={**WHO, "find": word}).text
        hits = [
            each for each in re.findall(r"<li>.*?</li>", html, re.DOTALL) if word in plain(each)
        ]
        lines = [told(plain(each)) for each in hits if "Where it went" in each]
        own = [line for line in lines if line == wire[name]]
        assert len(own) == (2 if name == "stock" else 1), (lines, wire[name])
        address = re.search(r'href="(/(?:trace|evidence)\?[^"]*)"', hits[0])
        assert address is not None
        page = plain(client.get(address[1].replace("&amp;", "&")).text)
        assert told(page) == wire[name]


def test_a_turn_says_what_of_a_message_is_quoted_in_part(session: tuple[str, Wire]) -> None:
    url, wire = session
    turns = [turn for turn, fate in wire["invoice"].items() if fate == "in part"]
    with visit(url) as client:
        for turn in turns:
            text = plain(page_of(client, turn, find="Grand total"))
            assert "left out as a message, and quoted in part of " in text, turn
        html = client.get(
            "/turn", params={**WHO, "turn": str(turns[-1])}, headers={"Accept-Language": "zh"}
        ).text
        assert "未作为消息发出，但被部分引用" in plain(html)


def test_a_result_that_stays_compact_says_why_it_is_shortened(session: tuple[str, Wire]) -> None:
    url, wire = session
    short = [turn for turn, fate in wire["stock"].items() if fate == "short"]
    with visit(url) as client:
        for turn in short:
            row = plain(page_of(client, turn, find="shelves"))
            assert re.search(r"shortened \d+ tokens The same JSON in fewer tokens\.", row), turn
        spots = plain(client.get("/session", params=WHO).text)
        said = re.search(r"tool results shortened in (\d+) turns in turns ([\d ,]+)", spots)
        assert said is not None
        assert [int(each) for each in re.findall(r"\d+", said[2])] == short
        assert int(said[1]) == len(short)


def test_what_was_quoted_since_is_not_left_out_since(session: tuple[str, Wire]) -> None:
    url, wire = session
    fates, newest = wire["invoice"], max(wire["invoice"])
    since = max(turn for turn, fate in fates.items() if fate == "whole") + 1
    unseen = max(turn for turn, fate in fates.items() if fate != "out") + 1
    assert since < unseen <= newest
    quoted = next(turn for turn, fate in fates.items() if fate == "in part")
    with visit(url) as client:
        text = plain(page_of(client, newest, find="Grand total"))
        assert f"No message of its own since turn {since}." in text
        assert f"It was quoted meanwhile, and is not since turn {unseen}." in text
        assert f"No message of its own since turn {since}." in plain(
            page_of(client, quoted + 1, find="Grand total")
        )


@pytest.fixture(scope="module")
def in_a_loop(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, int, int]:
    """An agent whose input is cut in the middle of its steps: the turn of the question, and that of the cut."""
    url = url_of(tmp_path_factory.mktemp("loop") / "ce.db")
    engine = create_context_engine(
        url,
        config=CONFIG,
        token_estimator=CharBasedEstimator(),
        id_generator=IdsInOrder("shop-"),
    )
    engine.sync.check()
    seen = Seen(HostApp(engine, SCOPE, [system("You help.")]), {"total": TOTAL})
    seen.ask(TOTAL, "Noted.")
    for n in range(4):
        seen.ask(f"Tell me of the garden {n}. " * 6, f"Garden {n} has roses. " * 4)
    made = seen.prepare(user("What is the grand total of invoice 9011, and how is the weather?"))
    asked, steps = seen.turn, 0
    while seen.wire["total"][seen.turn] != "quoted":
        steps += 1
        assert steps < 6
        seen.app.commit(made, tool_calls((f"w{steps}", "weather", {"day": steps})))
        result = tool_result(f"w{steps}", f"Day {steps} is sunny and dry. " * 12)
        made = seen.prepare(result, new_request=False)
    cut = seen.turn
    seen.app.commit(made, assistant("652.43 EUR, and sunny."))
    seen.ask("Thanks.", "You are welcome.")
    assert seen.wire["total"][seen.turn] == "quoted"
    engine.sync.close()
    return url, asked, cut


def test_what_stands_before_a_question_stands_there_since_it_was_sent(
    in_a_loop: tuple[str, int, int], tmp_path: Path
) -> None:
    url, asked, cut = in_a_loop
    assert asked < cut
    with visit(url) as client:
        text = plain(page_of(client, cut + 1))
        assert re.search(rf"stands? where (it was|they were) sent since turn {cut} ", text)
        row = plain(page_of(client, cut + 1, find="Grand total"))
        assert (
            f"Quoted before the question of turn {asked}, where it has stood since turn {cut}."
            in row
        )
    told_by_ce = " ".join(
        ce("report", "shop", "--user", "ana", "--turn", str(cut + 1), "--store", url).stdout.split()
    )
    assert f"sent since turn {cut}" in told_by_ce
