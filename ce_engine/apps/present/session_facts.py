"""What the calls of a session tell, for its line in a list of sessions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ce_engine.apps.present.amounts import Amounts, cached_share, effect, saved_share
from ce_engine.apps.present.language import ENGLISH, Say
from ce_engine.audit.compare.costs import bill_of, priced_by
from ce_engine.audit.compare.figures import EngineCosts, figures
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
        tokens_sent: tokens that went out, by our count.
        tokens_without: tokens that would have gone out without us.
        cached_prefix: leading tokens of what went out that are those of the call before.
        costs: with us and without us; `None` of a session without calls.
        prices: the table that they are in.
        billed: what the calls cost whose providers told their tokens, answers included; `None` where none did.
        degradations: codes of what was done less than asked, each once.
        conflicts: how often sources disagreed.
        over_budget: calls that went out over their budget.
        failed: calls that ended with an error.
        tool_errors: tools that failed.
        open: calls that are under way.
    """

    title: str = ""
    models: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    tokens_sent: int = 0
    tokens_without: int = 0
    cached_prefix: int = 0
    costs: EngineCosts | None = None
    prices: PriceTable = RELATIVE
    billed: float | None = None
    degradations: tuple[str, ...] = ()
    conflicts: int = 0
    over_budget: int = 0
    failed: int = 0
    tool_errors: int = 0
    open: int = 0

    @property
    def tokens_saved(self) -> int:
        """Fewer tokens than without us; below 0 more."""
        return self.tokens_without - self.tokens_sent

    @property
    def dearer(self) -> bool:
        """Whether the session became dearer than without us, all its calls together."""
        return self.costs is not None and self.costs.is_dearer

    @property
    def dearer_turns(self) -> int:
        """Single turns that became dearer than without us, whatever the others saved."""
        return self.costs.dearer if self.costs is not None else 0

    @property
    def saved(self) -> str:
        """How many fewer tokens went out than would have without us, in percent; below 0 more."""
        return saved_share(self)

    @property
    def cached(self) -> str:
        """How much of what went out begins like the call before, in percent."""
        return cached_share(self)

    @property
    def effect(self) -> str:
        """The effect on cost in percent, with its sign."""
        return effect(self.costs) if self.costs is not None else "-"

    def amount(self, value: float, say: Say = ENGLISH) -> str:
        """An amount of its money, with the unit."""
        return Amounts(self.prices, self.costs.inputs if self.costs else 0.0).text(value, say)


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
    table = priced_by(calls, prices)
    sums = figures(calls, table)
    app_calls = [call for call in calls if call.agent != OWN]
    bill = bill_of(calls, table)
    return SessionFacts(
        title=_title(document),
        models=tuple(dict.fromkeys(call.model for call in calls if call.model)),
        tags=_tags(app_calls),
        tokens_sent=sums.tokens_sent,
        tokens_without=sums.tokens_without,
        cached_prefix=sums.cached_prefix,
        costs=sums.beside if calls else None,
        prices=table,
        billed=bill.amount if bill.inputs else None,
        degradations=tuple(dict.fromkeys(code for call in calls for code in call.degradations)),
        conflicts=sum(len(row.report.get("conflicts") or ()) for row in turns),
        over_budget=sum(call.over_budget for call in app_calls),
        failed=sum(call.status == "failed" for call in calls),
        tool_errors=sums.tool_errors,
        open=sum(call.status == "open" for call in app_calls),
    )


def _title(document: SessionDocument) -> str:
    questions = (
        message.content
        for message in document.session.messages
        if message.role is Role.USER and message.content
    )
    return " ".join(next(questions, "")[: 4 * TITLE_CHARS].split())[:TITLE_CHARS]


def _tags(calls: Sequence[CallRecord]) -> tuple[str, ...]:
    pairs = {f"{name}={value}" for call in calls for name, value in call.tags.items()}
    return tuple(sorted(pairs))
