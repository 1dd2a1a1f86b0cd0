"""Who used a command, and on what, in the audit log (B-05)."""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import typer

from ce_engine.schema.environment import AUDIT_LOG


if TYPE_CHECKING:
    from ce_engine.schema.audit import Action

ACTIONS: dict[str, Action] = {
    "sessions": "list",
    "show": "read",
    "trace": "read",
    "report": "read",
    "compare": "read",
    "metrics": "list",
    "replay": "read",
    "handover": "read",
    "inspect": "inspect",
    "verify": "verify",
    "delete": "delete",
    "sweep": "delete",
    "export": "export",
    "import": "change",
    "copy": "export",
    "backup": "export",
    "restore": "change",
    "rotate-key": "change",
    "constraints list": "read",
    "constraints add": "change",
    "constraints update": "change",
    "constraints delete": "change",
    "constraints accept": "change",
    "doctor": "verify",
}
"""What each command that opens a store of somebody's does."""


def audited(name: str, command: Callable[..., Any]) -> Callable[..., Any]:
    """The command, each use of which is a record where `CE_AUDIT_LOG` names a file."""

    @wraps(command)
    def run(*args: Any, **given: Any) -> Any:
        log, action = os.environ.get(AUDIT_LOG), ACTIONS.get(name)
        if not log or action is None:
            return command(*args, **given)
        # Only who audits pays for what they import.
        from ce_engine.audit.access import LISTED, AccessGuard, operating  # noqa: PLC0415
        from ce_engine.audit.json_lines import JsonLinesAudit  # noqa: PLC0415
        from ce_engine.schema.ids import SystemClock, UuidV4Generator  # noqa: PLC0415
        from ce_engine.schema.scope import Scope  # noqa: PLC0415

        owner = [str(given.get(key) or "") for key in ("account", "user", "project")]
        session = next((given[key] for key in ("session", "sessions") if given.get(key)), LISTED)
        scope = Scope.of_stored(owner[0], owner[1], str(session), owner[2])
        guard = AccessGuard(JsonLinesAudit(log), UuidV4Generator(), SystemClock())
        with operating(guard, f"ce {name}", action, operator(), scope):
            try:
                return command(*args, **given)
            except typer.Exit as ending:  # it was answered: not intact, not the same
                ended = ending
        raise ended

    return run


def operator() -> str:
    """The operating system's user."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's number without a name
        return str(os.getuid()) if hasattr(os, "getuid") else ""
