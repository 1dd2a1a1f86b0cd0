"""The messages of a session that stand in no row of a turn's page: their number, and a page of them that is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.datastructures import QueryParams

from ce_engine.apps.present.language import Say
from ce_engine.apps.present.links import Links
from ce_engine.apps.present.reasons import Reasons, moved_in
from ce_engine.apps.present.rest_of_session import FATES as OTHERS
from ce_engine.apps.present.rest_of_session import RestOfSession
from ce_engine.apps.present.turn_view import Row
from ce_engine.audit.places.whereabouts import FATES, whereabouts
from ce_engine.schema.replay import Explanation
from ce_engine.schema.report import report_of
from ce_engine.schema.rows import TurnRow


MOST_ROWS, MOST_REST = 300, 50
"""Messages that stand as rows, the newest; and others of the session on a page of theirs."""


def newest(rows: Sequence[Row]) -> list[Row]:
    """As many of the newest rows as a page has, and those without a stored message, such as the app's instructions."""
    beyond = {id(row) for row in [row for row in rows if row.message is not None][:-MOST_ROWS]}
    return [row for row in rows if id(row) not in beyond]


def rest_of(
    row: TurnRow,
    links: Links,
    explanation: Explanation | None,
    rows: Sequence[Row],
    shown_rows: Sequence[Row],
    query: QueryParams,
    say: Say,
) -> dict[str, Any]:
    """What the page says of the messages that it shows in no row.

    Where no word is looked for, and nobody asks for a page of them, that is only how many there are.
    """
    report, find = report_of(row.turn_id, row.report), query.get("find", "").strip()
    if report is None or not rows:
        return {"rest_count": 0, "rest": []}
    turns = links.turns
    number = next(n for n, turn_row in enumerate(turns, 1) if turn_row.turn_id == row.turn_id)
    room_taken = explanation.taken if explanation is not None else None
    reasons = Reasons(report, moved_in(turns, number), say, room_taken)
    ids = {shown_row.message.message_id or "" for shown_row in shown_rows if shown_row.message}
    others = RestOfSession(row, links, rows, ids, explanation, reasons, say)
    messages = others.find(find)
    pages = max(1, -(-len(messages) // MOST_REST))
    choice = query.get("rest", "")
    at = min(max(1, int(choice)), pages) if choice.isdecimal() and len(choice) < 9 else 0
    page = messages[max(0, at - 1) * MOST_REST :][:MOST_REST] if at or find else []
    where = whereabouts([m.message_id or "" for m in page], links.document, turns) if page else {}
    return {
        "rest_count": len(messages),
        "rest": others.describe(page, where),
        "rest_where": where,
        "rest_at": max(1, at),
        "rest_pages": pages,
        "rest_size": MOST_REST,
        "row_size": MOST_ROWS,
        "fates": {name: say(words) for name, words in {**FATES, **OTHERS}.items()},
    }


__all__ = ["MOST_REST", "MOST_ROWS", "newest", "rest_of"]
