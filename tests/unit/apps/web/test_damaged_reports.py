"""A report that somebody spoilt in the store's file is told as damaged, and hides nothing else (17 C, 19 A)."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from sqlalchemy import create_engine, select, update

from ce_engine import ContextEngineError, ReplayUnavailableError, create_context_engine
from ce_engine.stores.tables import tables
from tests.hosts.cli_host import TALK, TIGHT, ce, url_of
from tests.unit.apps.web.visiting import visit


SPOILT = 5
"""The turn."""
EVIL = "<x-evil>"
LEAVES: list[tuple[str | int, ...]] = [
    ("payload_tokens", "conversation"),
    ("token_used",),
    ("token_budget",),
    ("dropped",),
    ("prefix_tokens_unchanged",),
    ("untouched", "tokens"),
    ("untouched",),
    ("prune_decisions", 0),
    ("layers", "rules"),
    ("extra",),
    ("extra", "replay"),
    ("extra", "replay", "evidence", 0),
    ("extra", "replay", "line", 0),
    ("damaged",),
    (),
]


def spoil(url: str, path: Path, leaf: tuple[str | int, ...], value: object = EVIL) -> str:
    """A copy of a store, in which one value of one turn's report is another one."""
    source = Path(url.removeprefix("sqlite:///"))
    shutil.copy(source, path)
    shutil.copy(f"{source}.key", f"{path}.key")
    database = create_engine(f"sqlite:///{path}")
    turns = tables.turns
    with database.begin() as connection:
        found = select(turns.c.id, turns.c.report).order_by(turns.c.id).offset(SPOILT - 1)
        row = connection.execute(found).first()
        assert row is not None
        whole: Any = [copy.deepcopy(row.report)]
        place = whole
        *to, last = (0, *leaf)
        for name in to:
            place = place[name]
        place[last] = value
        change = update(turns).where(turns.c.id == row.id)
        connection.execute(change.values(report=whole[0]))
    database.dispose()
    return url_of(path)


def address(page: str, **more: object) -> str:
    return f"{page}?{urlencode({'id': TALK.session_id, 'user': TALK.user_id, **more})}"


@pytest.mark.parametrize("leaf", LEAVES[::2], ids=lambda leaf: ".".join(map(str, leaf)) or "all")
def test_all_pages_and_commands_show_the_rest(
    leaf: tuple[str | int, ...], talk_url: str, tmp_path: Path
) -> None:
    url = spoil(talk_url, tmp_path / "ce.db", leaf)
    with visit(url, account="acme") as pages:
        for path in (
            "/",
            "/metrics",
            "/compare",
            address("/session"),
            address("/session/costs"),
            address("/session/find", find="topic"),
            address("/turn", turn=SPOILT - 1),
            address("/turn", turn=SPOILT + 1),
        ):
            answer = pages.get(path)
            assert answer.status_code == 200, path
            assert EVIL not in answer.text, path
        answer = pages.get(address("/turn", turn=SPOILT))
        assert answer.status_code == 200
        assert "The report is damaged" in answer.text
    of_talk = ("--store", url, "--account", "acme", "--user", TALK.user_id)
    done = ce("report", TALK.session_id, *of_talk)
    assert done.exit_code == 0, done.output
    assert "the report is damaged" in " ".join(done.stdout.split())
    assert ce("compare", "--store", url, "--account", "acme").exit_code == 0
    done = ce("ui", TALK.session_id, "--export", str(tmp_path / "page"), *of_talk)
    assert done.exit_code == 0, done.output
    (page,) = (tmp_path / "page").glob("*.html")
    assert "The report is damaged" in page.read_text("utf-8")
    assert EVIL not in page.read_text("utf-8")


@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: ".".join(map(str, leaf)) or "all")
@pytest.mark.parametrize("value", [1.5, [["x"]], {"a": 1}], ids=str)
def test_the_engine_answers_or_names_what_is_wrong(
    leaf: tuple[str | int, ...], value: object, talk_url: str, tmp_path: Path
) -> None:
    engine = create_context_engine(spoil(talk_url, tmp_path / "ce.db", leaf, value), config=TIGHT)
    sync = engine.sync
    turn_id = sync.list_turns(TALK)[SPOILT - 1].turn_id
    faults = []
    for door in (
        lambda: sync.replay(TALK, turn_id),
        lambda: sync.explain(TALK, turn_id),
        lambda: sync.handover(TALK),
        lambda: sync.list_reports(TALK),
        lambda: sync.export_user_data(TALK.account_id, TALK.user_id),
    ):
        try:
            door()
        except ContextEngineError:
            continue
        except Exception as error:
            faults.append(error)
    sync.close()
    assert faults == []


def test_a_replay_says_why_there_is_none(talk_url: str, tmp_path: Path) -> None:
    engine = create_context_engine(
        spoil(talk_url, tmp_path / "ce.db", ("token_used",)), config=TIGHT
    )
    turn_id = engine.sync.list_turns(TALK)[SPOILT - 1].turn_id
    with pytest.raises(ReplayUnavailableError, match="damaged: what stands in token_used"):
        engine.sync.replay(TALK, turn_id)
    reports = engine.sync.list_reports(TALK)
    assert len(reports) == len(engine.sync.list_turns(TALK)) - 1
    engine.sync.close()


def test_a_system_message_that_is_placed_where_the_list_ends_is_named_as_damage(
    talk_url: str, tmp_path: Path
) -> None:
    place = ("extra", "replay", "system")
    url = spoil(talk_url, tmp_path / "ce.db", place, [[9_999, "00", 5]])
    engine = create_context_engine(url, config=TIGHT)
    turn_id = engine.sync.list_turns(TALK)[SPOILT - 1].turn_id
    with pytest.raises(ReplayUnavailableError, match="is damaged: it places system messages"):
        engine.sync.replay(TALK, turn_id)
    engine.sync.close()
    with visit(url, account="acme") as pages:
        answer = pages.get(address("/turn", turn=SPOILT))
    assert answer.status_code == 200
    assert "not made again" in answer.text
