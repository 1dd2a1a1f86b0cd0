"""Whether an app's `authorize` says yes: nothing but `True` does (B-03)."""

from __future__ import annotations

import inspect
import logging

from ce_engine.ports.audit import Authorize
from ce_engine.schema.audit import Action
from ce_engine.schema.scope import Scope


logger = logging.getLogger("ce_engine.audit")


def allows(authorize: Authorize, actor: str, action: Action, scope: Scope) -> bool:
    """Say whether an actor may. What is raised, and what would have to be awaited, is a no."""
    try:
        answer: object = authorize(actor, action, scope)
    except Exception as failure:  # noqa: BLE001 - what an app's own code raises is a refusal
        logger.error(  # noqa: TRY400 - without its text, which may name somebody
            "authorize failed, so the access is refused (%s)", type(failure).__name__
        )
        return False
    if inspect.iscoroutine(answer):
        answer.close()
    if not isinstance(answer, bool):
        logger.error(
            "authorize gave a %s, expected True or False, so the access is refused: it is not awaited, "
            "and answers at once",
            type(answer).__name__,
        )
    return answer is True
