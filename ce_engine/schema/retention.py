"""How long what is stored is kept, by kind and owner, and what a sweep took away (B-08)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Literal, Self

from pydantic import Field, model_validator

from ce_engine.schema.config_base import FrozenConfig
from ce_engine.schema.document import Schema
from ce_engine.schema.report import DeletionReport
from ce_engine.schema.rows import SessionInfo
from ce_engine.schema.times import parse_time


RetentionKind = Literal["session", "ephemeral", "evidence"]


class RetentionRule(FrozenConfig):
    """How long one kind is kept, and how much of it.

    Attributes:
        kind: `session`, that the app named; `ephemeral`, a run for which it named none; `evidence`, the content
            of documents, tool results and whatever else was brought into sessions that stay; what people and
            models said goes with its session.
        max_age: since the session's last record, or since the evidence came.
        max_count: the newest so many stay: sessions of a user that this rule is for, evidence of a session.
        account_id: of this account alone; `None` is every one. So are `user_id` and `project_id`.
    """

    kind: RetentionKind
    max_age: timedelta | None = Field(default=None, gt=timedelta(0))
    max_count: int | None = Field(default=None, ge=0)
    account_id: str | None = None
    user_id: str | None = None
    project_id: str | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.max_age is None and self.max_count is None:
            raise ValueError("a rule needs max_age or max_count")
        return self

    def fits(self, account_id: str, user_id: str, project_id: str) -> bool:
        """Whether it is for what is this owner's."""
        rule_owner = (self.account_id, self.user_id, self.project_id)
        return all(
            rule_part is None or rule_part == part
            for rule_part, part in zip(rule_owner, (account_id, user_id, project_id), strict=True)
        )


class RetentionConfig(FrozenConfig):
    """What is kept how long; without a rule for it, for ever.

    Attributes:
        rules: of those of a kind that fit an owner the first counts.
        every: how often the engine sweeps beside its calls, the first time after its first answer; `None`
            leaves that to `engine.sweep()` and `ce sweep`.
    """

    rules: tuple[RetentionRule, ...] = ()
    every: timedelta | None = Field(default=timedelta(hours=1), gt=timedelta(0))

    def asks_project(self, account_id: str, user_id: str) -> bool:
        """Whether it takes the project of an owner's session to know what becomes of it."""
        return any(
            (rule.project_id is not None or rule.kind == "evidence")
            and rule.fits(account_id, user_id, rule.project_id or "")
            for rule in self.rules
        )

    def rule(
        self, kind: RetentionKind, account_id: str, user_id: str, project_id: str
    ) -> RetentionRule | None:
        """The one that counts."""
        fitting = (
            rule
            for rule in self.rules
            if rule.kind == kind and rule.fits(account_id, user_id, project_id)
        )
        return next(fitting, None)


class Expired(Schema):
    """What has outlived its rule: a session, or a piece of evidence in one."""

    kind: RetentionKind
    account_id: str
    user_id: str
    session_id: str
    evidence_id: str = ""


class SweepReport(Schema):
    """What a sweep found and, unless it only looked, deleted.

    Attributes:
        expired: what has outlived its rule.
        deleted: how much that took away; nothing where it only looked.
        failed: of `expired` what could not be deleted now, with the code of why; the next sweep tries again.
    """

    expired: list[Expired] = Field(default_factory=list)
    deleted: DeletionReport = Field(default_factory=DeletionReport)
    failed: list[tuple[Expired, str]] = Field(default_factory=list)


def expired_sessions(
    sessions: Sequence[tuple[SessionInfo, str]], config: RetentionConfig, now: datetime
) -> list[Expired]:
    """The sessions that have outlived their rules.

    Args:
        sessions: each with the id of its project, of any owners and kinds.
        config: the rules.
        now: aware of its zone.
    """
    expired = []
    counts: dict[tuple[int, str, str], int] = {}
    for info, project in sorted(sessions, key=lambda pair: pair[0].updated_at, reverse=True):
        kind: RetentionKind = "ephemeral" if info.ephemeral else "session"
        rule = config.rule(kind, info.account_id, info.user_id, project)
        if rule is None:
            continue
        owner = (config.rules.index(rule), info.account_id, info.user_id)
        newer = counts[owner] = counts.get(owner, 0) + 1
        if _is_over(rule, info.updated_at, newer, now):
            owners = (info.account_id, info.user_id, info.session_id)
            expired.append(Expired(kind=kind, **dict(zip(_OWNER, owners, strict=True))))
    return expired


_OWNER = ("account_id", "user_id", "session_id")


def expired_evidence(
    evidence: Iterable[tuple[str, str]], rule: RetentionRule, now: datetime
) -> list[str]:
    """The ids of the evidence of a session that has outlived its rule; of each its id and when it came."""
    newest = sorted(evidence, key=lambda pair: pair[1], reverse=True)
    return [id_ for n, (id_, at) in enumerate(newest, 1) if _is_over(rule, at, n, now)]


def _is_over(rule: RetentionRule, at: str, newer: int, now: datetime) -> bool:
    came = parse_time(at)
    is_old = rule.max_age is not None and came is not None and now - came > rule.max_age
    return is_old or (rule.max_count is not None and newer > rule.max_count)
