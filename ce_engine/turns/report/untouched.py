"""What a call would have been without us: the app's own list, or the whole talk of a caller by hand."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile

from ce_engine.prepare.compose.sections import FRAMING
from ce_engine.schema.call import ModelCall
from ce_engine.schema.document import may_be_found
from ce_engine.schema.enums import Origin, Role
from ce_engine.schema.report import Report, Untouched
from ce_engine.schema.rows import MessageRow
from ce_engine.sessions.bodies import LaneBodies
from ce_engine.sessions.spending import DEARER
from ce_engine.sessions.view import SessionView
from ce_engine.text.tokens.call_tokens import Counter


STORED = ("rules", "memory")
"""The kinds of what an app stores in order that it stands before every talk."""


@dataclass(frozen=True, slots=True)
class UntouchedWriter:
    """Tells what the same call would have been without us, and when that has become noticeably less.

    `restores`: the app leaves its history to us.
    """

    call: ModelCall
    view: SessionView
    counter: Counter
    places: Sequence[int | None]
    restores: bool

    def report(self, report: Report, extras: Mapping[str, int], *, same: bool) -> None:
        """Fill the report of what went out in.

        Args:
            report: of the call.
            extras: tokens that go out beside the messages, by kind.
            same: the app's own list went out as it is.
        """
        report.untouched, talk = without, _ = self._untouched(report, extras)
        bodies = self._bodies(report)
        if without is not None and without.by == "app" and same and bodies.is_own:
            without.prefix = (
                report.prefix_tokens_unchanged
            )  # now and before, the very same went out
        if report.purpose == "chat":
            bodies.is_own = same
        spending = self.view.spending
        if spending.add(report, self.call.model_hint or "", talk):
            report.warnings.append(DEARER)
            report.dearer_causes = dict(spending.causes.most_common())

    def _untouched(
        self, report: Report, extras: Mapping[str, int]
    ) -> tuple[Untouched | None, Untouched | None]:
        """What it would have been without us; and of a talk by hand, without what the app put in."""
        call, bodies = self.call, self._bodies(report)
        if report.purpose != "chat":
            return (result := Untouched(tokens=report.tokens_before)), result
        head = ("tools", report.estimator)
        if call.by_hand:
            return self._by_hand(report, extras, head)
        if self.restores:
            return None, None
        prefix = bodies.own.follow(
            (head, extras.get("tools", 0)), call.messages, self.places, self.counter.host
        )
        # Where anything was changed, as its messages are, and not in the forms that went out.
        is_whole = report.token_used == report.tokens_before
        whole = report.tokens_before if is_whole else bodies.own.tokens + sum(extras.values())
        return (result := Untouched(tokens=whole, prefix=prefix)), result

    def _by_hand(
        self, report: Report, extras: Mapping[str, int], head: tuple[Hashable, ...]
    ) -> tuple[Untouched, Untouched]:
        """The whole talk, with and without what the app put in itself."""
        call, bodies, rows = self.call, self._bodies(report), self.view.rows
        tools, more = extras.get("tools", 0), sum(extras.values()) - extras.get("tools", 0)
        system = [m for m in call.messages if m.origin is Origin.SYSTEM]
        system_hashes = tuple(hash(m.message.content) for m in system)
        tokens = tools + sum(map(self.counter.host, system))
        material_tokens = self._count_evidence(bodies)
        asks = any(
            row.message.role is Role.USER and row.lane_key == report.lane and not row.aside
            for row in rows[bodies.whole.rows :]
        )
        talk = bodies.whole.follow(
            ((*head, system_hashes), tokens), report.lane, rows, self._tokens
        )
        kinds = (report.payload_tokens.get(kind, 0) for kind in STORED)
        rules = (report.stable_prefix_hash, sum(kinds))
        put_in, same = bodies.material.follow(rules, material_tokens, goes_on=not asks)
        prefix = talk[1]
        if prefix:  # where its rules are others, only what stands before them is the same
            prefix = min(prefix, tokens) if same is None else prefix + max(0, same - FRAMING)
        alone = Untouched(by="talk", tokens=talk[0] + more, prefix=talk[1])
        with_all = Untouched(
            by="talk", tokens=alone.tokens + put_in, prefix=prefix, put_in=put_in or None
        )
        return with_all, alone

    def _count_evidence(self, bodies: LaneBodies) -> int:
        """Tokens of the evidence that was recorded since the lane's call before, by the app, and is no message.

        At a process's first call of a session: since the last answer, or tool result.
        """
        material, evidence = bodies.material, self.view.evidence
        new = len(evidence) - material.evidence_count
        rows = islice(reversed(evidence.values()), max(0, new))
        is_first, material.evidence_count = bodies.whole.head is None, len(evidence)
        since = takewhile(lambda row: row.message_id is None, rows) if is_first else rows
        return sum(
            self.counter.text(row.evidence.content)
            for row in since
            if row.message_id is None and row.evidence.content and may_be_found(row.evidence)
        )

    def _bodies(self, report: Report) -> LaneBodies:
        return self.view.lane(report.lane).bodies_of(by_engine=self.restores)

    def _tokens(self, row: MessageRow) -> int:
        """Tokens of a stored message by this call's counter."""
        counter = self.counter
        return row.tokens if row.counted_by == counter.name else counter.message(row.message)
