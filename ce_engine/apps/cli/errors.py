"""Errors that only somebody at the command line can make; see `ce_engine.errors` for the others."""

from __future__ import annotations

from ce_engine.errors import ContextEngineError, SessionNotFoundError


class AmbiguousSessionError(SessionNotFoundError):
    """Several users of the account have a session of this id."""

    code = "CONTEXT_SESSION_AMBIGUOUS"


class AmbiguousIdError(ContextEngineError):
    """Several ids in the session begin so."""

    code = "CONTEXT_ID_AMBIGUOUS"
