"""Whether a call is the next attempt of a turn that failed."""

from __future__ import annotations

from ce_engine.schema.call import ModelCall
from ce_engine.schema.enums import TurnStatus
from ce_engine.schema.rows import TurnRow
from ce_engine.sessions.view import SessionView


def repeated_turn(view: SessionView, call: ModelCall, question: int | None) -> TurnRow | None:
    """The failed turn of the same request that asked the very same, opened again; `None` if there is none.

    Args:
        view: of the session.
        call: the call.
        question: the entry of the log that it asks, where it brings nothing new.
    """
    failed = view.failed.get(question) if question is not None else None
    if question is None or failed is None or failed.row.request_id != call.request_id:
        return None
    row = view.failed.pop(question).row
    row.attempts.append(
        {"status": str(row.status), "opened_at": row.opened_at, "closed_at": row.closed_at}
    )
    row.attempt += 1
    row.status, row.closed_at = TurnStatus.OPEN, ""
    return row
