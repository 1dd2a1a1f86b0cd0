"""A session's turns with what they cost, read from a store, as JSON has them, and with their sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ce_engine.apps.present.cost_lines import SessionCosts
from ce_engine.apps.present.output import print_under
from ce_engine.apps.present.turn_table import TurnTable, print_sums
from ce_engine.apps.present.turns import NumberedTurn
from ce_engine.audit.compare.reading import calls_of
from ce_engine.schema.document import SessionDocument
from ce_engine.schema.replay import Explanation
from ce_engine.schema.report import report_of
from ce_engine.schema.rows import TurnRow
from ce_engine.text.tokens.prices import PriceTable


if TYPE_CHECKING:
    from rich.console import Console

    from ce_engine.ports.store import Store
    from ce_engine.schema.scope import Scope


@dataclass(slots=True)
class SessionTurns:
    """Turns of a session, and what they cost.

    Attributes:
        turns: those that were asked for.
        costs: of these; `None` where the session is gone.
        of: how many the session has.
    """

    turns: list[NumberedTurn]
    costs: SessionCosts | None
    of: int


async def read_turns(store: Store, scope: Scope) -> tuple[list[TurnRow], SessionDocument | None]:
    """The rows of a session's turns, and the session as a document."""
    return await store.list_turns(scope), await store.get_session(scope)


def turns_of(
    rows: Sequence[TurnRow], document: SessionDocument | None, prices: PriceTable, since: str
) -> SessionTurns:
    """The turns that were opened then or later, with their numbers in the session, and costs."""
    turns = [
        NumberedTurn(turn, row, report_of(row.turn_id, row.report))
        for turn, row in enumerate(rows, start=1)
        if row.opened_at >= since
    ]
    if document is None:
        return SessionTurns(turns, None, len(rows))
    calls = calls_of(document, rows)  # the engine's own stand last
    chosen_calls = [calls[item.turn - 1] for item in turns]
    chosen_calls += [call for call in calls[len(rows) :] if call.at >= since]
    spent = SessionCosts.of(chosen_calls, prices, [item.turn for item in turns])
    for place, item in enumerate(turns):
        if item.report is not None:
            item.cost = spent.cells(place)
    return SessionTurns(turns, spent, len(rows))


def as_plain(
    item: NumberedTurn, spent: SessionCosts | None, place: int, recall: Explanation | None = None
) -> dict[str, object]:
    """A turn as JSON has it; `place` is its own among the turns of the costs."""
    plain = item.as_json()
    if spent is not None:
        cost = spent.costs.calls[place]
        currency = spent.costs.prices.currency
        sums = {"sent": cost.sent, "untouched": cost.untouched, "answer": cost.answer}
        plain["cost"] = {**sums, "currency": currency}
    if recall is not None:
        plain["brought_in"] = recall.model_dump(mode="json")
    return plain


def print_end(screen: Console, table: TurnTable, result: SessionTurns) -> None:
    """Print the sums, and what the columns are."""
    print_sums(screen, result.turns, result.costs, of=result.of)
    print_under(screen, 0, table.legend(), style="dim")
    if table.is_shortened:
        more = "reasons are shortened (…): --full has them whole, --turn N all of one turn"
        print_under(screen, 0, more, style="dim")
