"""`ce verify --originals`: which redacted pieces have no original in the second store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ce_engine.apps.present.output import number
from ce_engine.errors import FileDamagedError, SessionNotFoundError
from ce_engine.schema.report import OriginalsReport
from ce_engine.schema.scope import Scope


if TYPE_CHECKING:
    from ce_engine.create import ContextEngine

Checked = tuple[Scope, OriginalsReport]


async def checked(engine: ContextEngine, scopes: Sequence[Scope]) -> list[Checked]:
    """What was found for each session that is there; nothing where no second store is named."""
    if engine.config.redaction.mode != "dual_store":
        return []
    reports = []
    for scope in scopes:
        try:
            reports.append((scope, await engine.verify_originals(scope)))
        except (SessionNotFoundError, FileDamagedError):  # deleted; or it was said already
            continue
    return reports


def lines(reports: Sequence[Checked]) -> Iterator[str]:
    """In words, without content."""
    for scope, report in reports:
        yield f"originals of session {scope.session_id}: {number(report.there)} are there"
        for piece_id in report.missing:
            yield f"  missing: {piece_id} was redacted, and has no original"
        for piece_id in report.without_row:
            yield f"  without a row: nothing is recorded of {piece_id}; it goes with its session"


def as_json(scope: Scope, reports: Sequence[Checked]) -> dict[str, Any]:
    """What the object of a session has of them."""
    own = next((report for other, report in reports if other.key == scope.key), None)
    return {} if own is None else {"originals": own.model_dump()}
