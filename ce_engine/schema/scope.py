"""Whose data it is: the key of everything that is stored."""

from __future__ import annotations

from dataclasses import dataclass

from ce_engine.errors import SchemaValidationError


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Who is speaking, in which session.

    `key` (account, user, session) keys all stored data; the others are attributes. No user is
    the user `""`: an exact match, never a wildcard (B-03).
    """

    session_id: str
    user_id: str = ""
    account_id: str = ""
    project_id: str = ""
    agent_id: str = ""
    trace_id: str = ""

    def __post_init__(self) -> None:
        if not self.session_id:
            raise SchemaValidationError("a scope needs a session_id; found an empty one")

    @property
    def key(self) -> tuple[str, str, str]:
        return (self.account_id, self.user_id, self.session_id)
