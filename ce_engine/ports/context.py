"""The interfaces of context beside the messages: what owners set, who judges by it, and sources of the host's own."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ce_engine.schema.enums import Priority
from ce_engine.schema.scope import Scope
from ce_engine.schema.settings import Constraint, Setting, Standing


class SettingsStore(Protocol):
    """Named values of (account, user, project), matched exactly, beside all sessions (D-04, D-06).

    Raises:
        StoreUnavailableError: the store cannot be read or written now.
        VersionConflictError: `expected_version` is not the stored version.
    """

    async def get_setting(self, scope: Scope, name: str) -> Setting | None:
        """The value of exactly this account, user, project and name, and its version; `None` if unset.

        Its standing is what the store knows of it; a store without MACs may leave it out, which is to vouch for it.
        """
        ...

    async def put_setting(
        self,
        scope: Scope,
        name: str,
        value: Any,
        expected_version: int | None = None,
        *,
        standing: Standing = Standing.INTACT,
    ) -> int:
        """Replace the value (plain JSON data); its new version. `expected_version=0`: it is not set.

        A value that was made of what could not be verified has the `standing` of that: a store with MACs says so
        from then on, lest what was forged become genuine by being written anew.
        """
        ...

    async def delete_settings(self, account_id: str, user_id: str) -> int:
        """Delete the values of all settings of exactly this user; how many. Their versions go on."""
        ...


@dataclass(frozen=True, slots=True)
class ContextPiece:
    """One piece that a source has found.

    Attributes:
        text: as it may go out, live; it is never stored.
        score: similarity or confidence in 0..1, best kept longest; `None` is unknown.
        tokens: what it costs, where the source knows it.
        at: when it was made, UTC, ISO 8601.
        evidence_id: the evidence that it renders, if it is recorded.
        sensitivity: a word of your own; `prune.exclude_sensitivity` keeps those out that it names.
        account_id: whose it is, where the source knows it; `None` says that it is the scope's that
            was asked for. Another account's, user's or project's piece is refused (D-10).
    """

    text: str
    score: float | None = None
    tokens: int | None = None
    priority: Priority = Priority.MEDIUM
    at: str = ""
    evidence_id: str = ""
    account_id: str | None = None
    user_id: str | None = None
    project_id: str | None = None
    sensitivity: str | None = None


class ContextSource(Protocol):
    """A service of the host's that knows something for a call: a knowledge graph, notes, preferences (D-09).

    It is asked outside every lock, beside the others, and within `RuntimeConfig.collect.deadline_s`.
    One that raises, is late or answers anything but pieces is left out, with a warning that names it.
    """

    @property
    def name(self) -> str:
        """A word, its own among the engine's sources."""
        ...

    @property
    def section(self) -> str:
        """Where its pieces go: a key of `prepare.material.LAYERS`, such as `knowledge__context`."""
        ...

    def fetch(
        self, scope: Scope, query: str, limit: int
    ) -> Awaitable[Sequence[ContextPiece]] | Sequence[ContextPiece]:
        """Pieces for the task message's live text; of more than `limit` the best go in.

        A coroutine runs on the engine's own loop and must not block it; a plain function runs on a
        thread of its own.
        """
        ...


class Judge(Protocol):
    """Says which of its owner's constraints an answer breaks; what becomes of it is the host's to decide (D-15).

    It is asked after the turn, on the engine's own loop, which it must not block, and within
    `RuntimeConfig.judge.timeout_s`; no call waits for it. One that raises, or is late, leaves the answer
    unjudged: `CONTEXT_JUDGE_FAILED`. It is given what is stored, redacted.
    """

    async def judge(self, answer: str, constraints: Sequence[Constraint]) -> Sequence[str]:
        """The `constraint_id` of each constraint that the answer breaks; empty if it breaks none.

        Nothing that is handed in is changed. An empty answer breaks nothing.
        """
        ...
