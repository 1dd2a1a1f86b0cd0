"""One session as a page of its own: one file, without a script and without anything from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from ce_engine.apps.present.amounts import cached_share, cached_words, effect, saved_share
from ce_engine.apps.present.brought_in import FEATURES, LEGEND
from ce_engine.apps.present.cost_lines import SessionCosts, turn_lines
from ce_engine.apps.present.language import ENGLISH, Say
from ce_engine.apps.present.links import Links, arguments
from ce_engine.apps.present.new_files import refuse_to_overwrite, write_new
from ce_engine.apps.present.report_lines import decision_words, report_lines
from ce_engine.apps.present.rules_out import rules_said
from ce_engine.apps.present.timeline import (
    BAD,
    DEARER,
    MARKS,
    MEANINGS,
    TITLES,
    Timeline,
    call_marks,
    timeline,
)
from ce_engine.apps.present.timeline_svg import drawing, gutter
from ce_engine.apps.present.turn_view import Fold, folded, turn_rows
from ce_engine.apps.web.page import STATIC, environment, sayers
from ce_engine.apps.web.reading import Reader
from ce_engine.apps.web.stored_turn import StoredTurn, made_again
from ce_engine.audit.compare.reading import calls_of
from ce_engine.errors import ConfigError, SessionNotFoundError
from ce_engine.schema.document import SessionDocument
from ce_engine.schema.report import report_of
from ce_engine.schema.rows import TurnRow
from ce_engine.schema.scope import Scope
from ce_engine.schema.stored_report import damaged_fields


FULL = 60
"""Turns that are made again message by message: those that deserve a look, then the newest; each takes a moment."""

MOST_TURNS = 2_000
"""Turns that are told one by one, the newest: a page of more is too large to open."""

MOST_CHARS = 20_000
"""Characters of one text that go into the page."""

STYLES = ("page.css", "session.css", "turn.css", "export.css")


async def export_session(
    reader: Reader,
    scope: Scope,
    folder: Path,
    say: Say = ENGLISH,
    step: Callable[[int, int], None] = lambda _, __: None,
) -> Path:
    """Write a session's page into a folder, for this user alone; give its path.

    Args:
        reader: what it is read from.
        scope: whose.
        folder: where to; it is made if it is not there.
        say: the language.
        step: told how many turns are made again, and of how many.

    Raises:
        ConfigError: a file of its name is there, or it cannot be written.
        SessionNotFoundError: the session was deleted meanwhile.
    """
    path = folder / f"{file_name(scope.session_id)}.html"
    refuse_to_overwrite(path)
    with reader.looking("ui export", "export", scope):
        text = await exported(reader, scope, say, step)
    _write(path, text)
    return path


def file_name(session_id: str) -> str:
    """A session's id as the name of a file, on any system."""
    return re.sub(r"[^\w.-]+", "_", session_id).strip("._")[:120] or "session"


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{str(path)!r} cannot be written: {error.strerror}") from error
    write_new(path, text.encode("utf-8", "backslashreplace"))


@dataclass(slots=True)
class _Session:
    """All that the page is made of."""

    reader: Reader
    scope: Scope
    document: SessionDocument
    turns: list[TurnRow]
    links: Links
    timeline: Timeline
    spent: SessionCosts
    say: Say


async def exported(reader: Reader, scope: Scope, say: Say, step: Callable[[int, int], None]) -> str:
    """The page's HTML."""
    document = await reader.store.get_session(scope)
    if document is None:
        raise SessionNotFoundError(f"session {scope.session_id!r} was deleted just now")
    turns = list(await reader.store.list_turns(scope))
    links = Links(document, turns)
    calls, numbers = calls_of(document, turns), range(1, len(turns) + 1)
    spent = SessionCosts.of(calls, reader.prices, numbers)
    dearer = {dearer_turn.turn for dearer_turn in spent.dearer_turns(say)}
    chart = timeline(turns, more_marks={**call_marks(calls, turns, numbers), DEARER: dearer})
    session = _Session(reader, scope, document, turns, links, chart, spent, say)
    full = full_places(session.timeline)
    turn_values = [await _turn(session, place, full, step) for place in _detail_places(session)]
    return _rendered(session, turn_values)


def _detail_places(session: _Session) -> range:
    """The places of the turns that are told one by one."""
    return range(max(0, len(session.turns) - MOST_TURNS), len(session.turns))


def full_places(chart: Timeline) -> list[int]:
    """The places of the turns that are made again: what deserves a look first, then the newest."""
    marked = sorted(chart.marks, key=lambda place: -len(BAD.intersection(chart.marks[place])))
    newest = range(len(chart) - 1, -1, -1)
    return sorted(list(dict.fromkeys([*marked, *newest]))[:FULL])


async def _turn(
    session: _Session, place: int, full: list[int], step: Callable[[int, int], None]
) -> dict[str, Any]:
    """One turn: its figures and decisions, and where it is made again, its messages."""
    row, say = session.turns[place], session.say
    report = report_of(row.turn_id, row.report)
    row_chart = timeline([row])
    values: dict[str, Any] = {
        "turn": place + 1,
        "row": row,
        "report": report,
        "damaged": damaged_fields(row),
        "layers": [(n, say(TITLES[n]), t[0]) for n, t in row_chart.layers.items() if t[0]],
        "marks": [(say(MARKS[m]), m in BAD) for m in session.timeline.marks.get(place, ())],
        "reasons": list(report_lines(report, say)) if report else [],
        "decisions": [(d, decision_words(d, say)) for d in report.prune_decisions]
        if report
        else [],
        "rows": [],
        "brought": [],
        "by_record": False,
    }
    if report is None or place not in full:
        return values
    step(full.index(place) + 1, len(full))
    record = StoredTurn(session.scope, session.document, session.turns, place)
    again = await made_again(session.reader, record, say)
    if again.replay is not None:  # else a helper's call: its figures stand
        values["by_record"] = again.recorded is not None
        rows = turn_rows(again.replay, again.why, report, session.links, say, again.recorded)
        values["rows"] = folded(rows)
        values["brought"] = rules_said(again.why.brought_in if again.why else [], say)
    return values


def _rendered(session: _Session, turn_values: list[dict[str, Any]]) -> str:
    say, scope, document, spent = session.say, session.scope, session.document, session.spent
    for entry in turn_values:
        if entry["report"] is not None:
            entry["costs"] = list(turn_lines(spent, entry["turn"] - 1, say))
    first = _detail_places(session).start

    def address(turn: int) -> str:
        return f"#turn-{turn}" if turn > first else ""

    styles = "\n".join((STATIC / name).read_text(encoding="utf-8") for name in STYLES)
    values: Mapping[str, Any] = {
        **_words(say),
        "scope": scope,
        "document": document,
        "found": session.timeline,
        "told": turn_values,
        "first": first,
        "styles": Markup(styles),  # noqa: S704 - our own files
        "svg": Markup(drawing(session.timeline, say, address=address)),  # noqa: S704 - escaped in it
        "gutter": Markup(gutter(session.timeline, say)),  # noqa: S704
        "sums": spent.figures,
        "amounts": spent.sums,
        "saved_share": saved_share,
        "cached_share": cached_share,
        "cached_words": cached_words,
        "effect": effect,
        "headline": spent.headline(say),
        "lines": list(spent.lines(say)),
        "is_fold": lambda item: isinstance(item, Fold),
        "calls": lambda message: [
            f"{call.name}({arguments(call.args)})" for call in message.tool_calls or ()
        ],
        "links": session.links,
        "anchor": anchor,
        "most": MOST_CHARS,
    }
    return environment().get_template("export.html").render(values)


def _words(say: Say) -> dict[str, Any]:
    """All words of the page that are not in its template."""
    return {
        **sayers(say),
        "titles": {name: say(title) for name, title in TITLES.items()},
        "meanings": {name: say(text) for name, text in MEANINGS.items()},
        "features": {name: say(word) for name, word in FEATURES.items()},
        "legend": say(LEGEND),
        "language": getattr(say, "code", "en"),
    }


def anchor(kind: str, name: str) -> str:
    """The id of an element of the page, made of anybody's id."""
    return f"{kind}-{quote(name, safe='')}".replace("%", "_")
