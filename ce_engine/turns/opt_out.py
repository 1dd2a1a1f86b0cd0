"""Calls of who wants nothing remembered (B-08)."""

from __future__ import annotations

import logging
from typing import get_args

from ce_engine.config import ContentKind, RuntimeConfig
from ce_engine.schema.call import ModelCall
from ce_engine.schema.scope import Scope


logger = logging.getLogger("ce_engine")


def opts_out(config: RuntimeConfig, scope: Scope) -> bool:
    """Whether the scope's user wants nothing remembered; so it is where the app's own code cannot say."""
    if config.memory_opt_out is None:
        return False
    try:
        return bool(config.memory_opt_out(scope))
    except Exception as failure:  # noqa: BLE001 - of the app's own code; its text may name somebody
        logger.error(  # noqa: TRY400
            "memory_opt_out failed, so nothing is remembered (%s)", type(failure).__name__
        )
        return True


def storing_nothing(config: RuntimeConfig) -> RuntimeConfig:
    """The configuration under which of content only length, MAC and source are stored, and no summary is made."""
    redaction = config.redaction.model_copy(
        update={
            "enabled": True,
            "mode": "store_redacted_only",
            "originals_only": (),
            "content": "pointer",
            "fields": dict.fromkeys(get_args(ContentKind), "pointer"),
        }
    )
    summary = config.summary.model_copy(update={"enabled": False})
    observability = config.observability.model_copy(update={"store_contexts": False})
    changes = {"redaction": redaction, "summary": summary, "observability": observability}
    return config.model_copy(update=changes)


def bring_nothing(call: ModelCall) -> None:
    """Let a call have the owner's rules, and nothing that was said before."""
    call.role, call.want, call.restore = "worker", frozenset(), False
