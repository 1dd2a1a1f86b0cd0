"""What the calls of a session tell, for its line in a list of sessions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ce_engine.apps.present.compare_lines import money
from ce_engine.apps.present.cost_lines import SessionCosts
from ce_engine.apps.present.output import change, percent
from ce_engine.audit.compare.records import OWN, CallRecord
from ce_engine.schema.document import SessionDocument
from ce_engine.schema.enums import Role
from ce_engine.schema.rows import TurnRow
from ce_engine.text.tokens.prices import RELATIVE, PriceTable


TITLE_CHARS = 160


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """A session's calls in a line.

    Attributes:
        title: how its first question begins, as it is stored.
        models: names, in order of first use.
        tags: A/B tags as `name=value`.
        sent: tokens that went out, by our count.
        without: tokens that would have gone out without us, of the calls that can say it.
        compared: tokens that went out in these.
        cost: inputs and answers, with its currency; `""` where a model has no price.
        amount: the cost as a number, to sort by.
        effect: how much dearer, as a share of what it would have cost without us; `None` where nobody can say.
        dearer: whether it became dearer than without us.
        degradations: codes of what was done less than asked, each once.
        conflicts: how often sources disagreed.
        over_budget: calls that went out over their budget.
        failed: calls that ended with an error.
        open: calls that are under way.
    """

    title: str = ""
    models: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    sent: int = 0
    without: int = 0
    compared: int = 0
    cost: str = ""
    amount: float = 0.0
    effect: float | None = None
    dearer: bool = False
    degradations: tuple[str, ...] = ()
    conflicts: int = 0
    over_budget: int = 0
    failed: int = 0
    open: int = 0

    @property
    def saved(self) -> str:
        """How many fewer tokens went out than would have without us, in percent; below 0 more."""
        return percent(self.without - self.compared, self.without)

    @property
    def effect_text(self) -> str:
        """The effect on cost in percent, with its sign."""
        return "-" if self.effect is None else change(1 + self.effect, 1)


def facts_of(
    document: SessionDocument,
    turns: Sequence[TurnRow],
    calls: Sequence[CallRecord],
    prices: PriceTable,
) -> SessionFacts:
    """What a session's calls tell.

    Args:
        document: the session.
        turns: its turns.
        calls: its calls, as `calls_of` has them.
        prices: what models cost.
    """
    spent = SessionCosts.of(calls, prices, range(1, len(calls) + 1))
    found = spent.costs
    theirs = [call for call in calls if call.agent != OWN]
    compared = [call for call in theirs if call.untouched is not None]
    amount = found.sent + found.answers + found.own
    effect = found.more / found.untouched if found.untouched else None
    return SessionFacts(
        title=_title(document),
        models=tuple(dict.fromkeys(call.model for call in calls if call.model)),
        tags=_tags(theirs),
        sent=sum(call.sent for call in theirs),
        without=sum(call.untouched or 0 for call in compared),
        compared=sum(call.sent for call in compared),
        cost="" if found.prices is RELATIVE else money(amount, found.prices.currency),
        amount=0.0 if found.prices is RELATIVE else amount,
        effect=effect,
        dearer=spent.is_dearer,
        degradations=tuple(dict.fromkeys(code for call in calls for code in call.degradations)),
        conflicts=sum(len(row.report.get("conflicts") or ()) for row in turns),
        over_budget=sum(call.over_budget for call in theirs),
        failed=sum(call.status == "failed" for call in calls),
        open=sum(call.status == "open" for call in theirs),
    )


def _title(document: SessionDocument) -> str:
    asked = (
        message.content
        for message in document.session.messages
        if message.role is Role.USER and message.content
    )
    return " ".join(next(asked, "")[: 4 * TITLE_CHARS].split())[:TITLE_CHARS]


def _tags(calls: Sequence[CallRecord]) -> tuple[str, ...]:
    pairs = {f"{name}={value}" for call in calls for name, value in call.tags.items()}
    return tuple(sorted(pairs))
