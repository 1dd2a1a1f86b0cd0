"""A turn beside one of another session: the one that answers the same question, and what went out of each as on the wire."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from ce_engine import (
    BudgetConfig,
    CharBasedEstimator,
    Prepared,
    RuntimeConfig,
    Scope,
    StoreConfig,
    create_context_engine,
)
from ce_engine.apps.present.side_by_side import counterpart
from ce_engine.schema.call import Extend, Keep
from ce_engine.schema.document import Message, Session, SessionDocument
from ce_engine.schema.enums import Role
from ce_engine.schema.rows import TurnRow
from ce_engine.testing.host import HostApp, assistant, system, tool_calls, tool_result, user
from tests.hosts.cli_host import url_of
from tests.unit.apps.web.hostile import RAW, SCOPE, fill_hostile
from tests.unit.apps.web.visiting import plain, visit


ONE, OTHER = (Scope(session_id=name, user_id="ana") for name in ("city-chain", "city-flow"))
PERMIT = "Permit 7741 is for a shed of 12 square metres behind the mill."
TOPICS = ("lamps", "benches", "trees", "gates", "stairs", "wells")
ASKED = [
    PERMIT,
    *(
        f"Please tell me all that the plan says of {t}, street by street, in {n}?"
        for n, t in enumerate(TOPICS)
    ),
]
QUESTION = "And who inspects the bridges of the harbour?"


def held(url: str, scope: Scope, framework: str, budget: int, *, looks: bool) -> list[list[str]]:
    """A session; of each call the whole messages that went out."""
    config = RuntimeConfig(
        budget=BudgetConfig(max_input_tokens=budget, reserved_reply_tokens=0),
        store=StoreConfig(deadline_s=30),
    )
    engine = create_context_engine(url, config=config, token_estimator=CharBasedEstimator())
    app = HostApp(engine, scope, [system("You help the city.")], framework)
    wire: list[list[str]] = []

    def sent(made: Prepared) -> Prepared:
        places = [step.index for step in made.plan if isinstance(step, Keep | Extend)]
        wire.append([app.messages[at].message.content for at in places])
        return made

    for n, asked in enumerate([*ASKED, QUESTION]):
        made = sent(app.prepare(user(asked)))
        if looks:  # this framework's agent looks it up first
            app.commit(made, tool_calls((f"c{n}", "look_up", {"number": n})))
            made = sent(
                app.prepare(tool_result(f"c{n}", f"File {n} is on the desk."), new_request=False)
            )
        app.commit(
            made, assistant(f"That is in file {n}, and it is open to all who come by before noon.")
        )
    engine.sync.close()
    return wire


@pytest.fixture(scope="module")
def talks(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[list[str]], list[list[str]]]:
    """The same questions in two frameworks: one has room for all, the other neither room nor as few calls."""
    url = url_of(tmp_path_factory.mktemp("city") / "ce.db")
    return (
        url,
        held(url, ONE, "langchain", 4000, looks=False),
        held(url, OTHER, "haystack", 260, looks=True),
    )


@pytest.fixture
def pages(talks: tuple[str, object, object]) -> Iterator[TestClient]:
    with visit(talks[0]) as client:
        yield client


def beside(pages: TestClient, turn: int, **more: str) -> str:
    query = {"id": ONE.session_id, "user": ONE.user_id, "turn": str(turn), **more}
    answer = pages.get("/beside", params=query)
    assert answer.status_code == 200, answer.text
    return answer.text


def test_the_turn_of_the_same_question_stands_beside_it_and_tells_what_went_out_of_each(
    pages: TestClient, talks: tuple[str, list[list[str]], list[list[str]]]
) -> None:
    _, one, other = talks
    html = beside(pages, len(one), **{"with": OTHER.session_id})
    text = plain(html)
    assert f"city-chain , turn {len(one)}" in text
    assert f"city-flow , turn {len(other) - 1}" in text, (
        "its first call for the question, not its last turn"
    )
    assert "langchain" in text
    assert "haystack" in text
    sent, theirs = one[-1], other[-2]
    assert PERMIT in sent
    assert PERMIT not in theirs
    pairs = html.split('<div class="pair')[2:]
    [own] = [plain(f"<div {pair}") for pair in pairs if PERMIT in pair]
    assert ("left out there" in own) != ("quoted there before a question" in own)
    [asked] = [plain(f"<div {pair}") for pair in pairs if QUESTION in pair]
    assert "there" not in asked
    calls = [plain(f"<div {pair}") for pair in pairs if "look_up(number=" in pair]
    assert calls
    assert all("no message there says so" in call for call in calls)


def test_a_turn_that_is_chosen_stands_beside_it_and_what_is_the_same_is_told_once(
    pages: TestClient,
) -> None:
    html = beside(pages, 1, **{"with": OTHER.session_id, "with_turn": "1"})
    assert plain(html).count(PERMIT) == 1
    assert "is-other" not in html
    answer = pages.get(
        "/beside",
        params={
            "id": ONE.session_id,
            "user": "ana",
            "turn": "1",
            "with": "city-flow",
            "with_turn": "99",
        },
    )
    assert answer.status_code == 404


def test_other_sessions_of_the_user_are_offered(pages: TestClient) -> None:
    turn = pages.get("/turn", params={"id": ONE.session_id, "user": "ana", "turn": "2"}).text
    assert "/beside?id=city-chain&amp;user=ana&amp;turn=2" in turn
    html = beside(pages, 2)
    assert "with=city-flow&amp;with_user=ana" in html
    assert "with=city-chain" not in html


def test_who_sees_one_user_only_sees_no_other_beside_it(
    talks: tuple[str, object, object], tmp_path: Path
) -> None:
    url = url_of(tmp_path / "two.db")
    held(url, ONE, "langchain", 4000, looks=False)
    held(url, Scope(session_id="secret", user_id="eve"), "langchain", 4000, looks=False)
    with visit(url, user="ana") as client:
        query = {"id": ONE.session_id, "user": "ana", "turn": "1"}
        answer = client.get("/beside", params={**query, "with": "secret", "with_user": "eve"})
        assert answer.status_code == 404
        assert "secret" not in client.get("/beside", params=query).text
    with visit(url) as client:
        answer = client.get("/beside", params={**query, "with": "secret", "with_user": "eve"})
        assert answer.status_code == 200


def test_hostile_sessions_harm_nothing(tmp_path: Path) -> None:
    who = {"id": SCOPE.session_id, "user": SCOPE.user_id}
    with visit(fill_hostile(tmp_path)) as client:
        for turn in ("3", "11", "12"):
            more = {"with": SCOPE.session_id, "with_user": SCOPE.user_id, "with_turn": "5"}
            answer = client.get("/beside", params={**who, "turn": turn, **more})
            assert answer.status_code == 200
            assert len(answer.text) < 1_500_000
            assert not [raw for raw in RAW if raw in answer.text]


def talk(*asked: str, calls: int = 1) -> tuple[SessionDocument, list[TurnRow]]:
    """A session with these questions, of so many calls each."""
    messages = [
        Message(role=Role.USER, content=text, message_id=f"m{n}", seq=n + 1)
        for n, text in enumerate(asked)
    ]
    turns = [
        TurnRow(
            f"t{n}.{call}", request_id=f"r{n}", tip_message_id=f"m{n}" if call == 0 else f"x{n}"
        )
        for n in range(len(asked))
        for call in range(calls)
    ]
    document = SessionDocument(session=Session(session_id="s", messages=messages))
    return document, turns


@pytest.mark.parametrize(
    ("at", "place"),
    [
        (0, 0),  # its first question's first call
        (3, 2),  # "yes" once more: the second of those
        (4, 5),  # asked elsewhere in the talk
        (
            5,
            5,
        ),  # nobody asks it there: the question of the same number, beyond them the newest turn
    ],
)
def test_the_counterpart_is_the_turn_of_the_same_question(at: int, place: int) -> None:
    mine = talk("where?", "yes", "what?", "yes", "who?", "why?")
    theirs = talk("where?", "yes", "yes", "how?", "no", "who?")
    assert counterpart(*mine, at, *theirs) == place


def test_the_counterpart_is_the_same_call_of_it_as_far_as_there_are_as_many() -> None:
    mine, theirs = talk("where?", "what?", calls=3), talk("hello", "what?", calls=2)
    assert [counterpart(*mine, at, *theirs) for at in (3, 4, 5)] == [2, 3, 3]
    assert counterpart(*mine, 0, *theirs) == 0
    assert counterpart(*talk("a", "b", "c"), 2, *talk("x")) == 0
