"""One line of the audit log: who looked at, changed or deleted what, and whether they might (B-05)."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal


Action = Literal["read", "list", "inspect", "original", "verify", "export", "change", "delete"]
"""What somebody does with what is stored."""

AuditStatus = Literal["ok", "not_found", "denied", "error"]


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """An access, without content.

    Attributes:
        ts: when it ended (UTC, ISO 8601).
        event: the action.
        event_type: the door: an engine's method (`get_session`), or a command (`ce show`).
        level: `WARNING` where it was denied or failed, else `INFO`.
        actor: who, as the app says (`acting_as`); for the `ce` command the operating system's user; `""` is the app itself.
        session_id: as it was asked for, also where there is none of it; of a list `""`.
        request_id: the scope's `trace_id`.
        state_version: of the session, where the access has read it.
        event_id: of this record.
        duration_ms: until the answer.
        status: `not_found` also where it is another's: the store has no way to tell (B-03).
        error_code: of what was raised.
        meta: counts and ids.
    """

    ts: str
    event: Action
    event_type: str
    actor: str
    account_id: str = ""
    user_id: str = ""
    project_id: str = ""
    session_id: str = ""
    request_id: str = ""
    state_version: int | None = None
    event_id: str = ""
    level: Literal["INFO", "WARNING"] = "INFO"
    duration_ms: int = 0
    status: AuditStatus = "ok"
    error_code: str = ""
    meta: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Its fields, as a line of JSON has them."""
        return asdict(self)
