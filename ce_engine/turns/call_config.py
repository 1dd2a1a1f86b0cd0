"""The configuration of a call: its own, and for whatever protects people and it leaves out, the engine's."""

from __future__ import annotations

from dataclasses import replace

from ce_engine.config import RedactionConfig, RuntimeConfig
from ce_engine.errors import ConfigError
from ce_engine.ports.ids import IdGenerator
from ce_engine.schema.scope import Scope


_PROTECTION = ("redaction", "memory_opt_out", "require_user")
_ENGINES = ("rules", "detector", "detector_min_score", "originals_url")
"""Fields of `RedactionConfig` that one redactor and one second store hold for all calls."""


def protected(own: RuntimeConfig | None, engines: RuntimeConfig) -> RuntimeConfig:
    """A call's own configuration with the engine's protection, as far as it says none of its own.

    Raises:
        ConfigError: it asks for what only the engine as a whole can do.
    """
    if own is None or own is engines:
        return engines
    unsaid = {n: getattr(engines, n) for n in _PROTECTION if n not in own.model_fields_set}
    if unsaid:
        own = own.model_copy(update=unsaid)
    if own.redaction is not engines.redaction:
        _check(own.redaction, engines.redaction)
    return own


def _check(own: RedactionConfig, engines: RedactionConfig) -> None:
    field_names = [name for name in _ENGINES if name in own.model_fields_set]
    other = [
        name for name in field_names if getattr(own, name) not in (None, getattr(engines, name))
    ]
    if own.mode == "dual_store" and engines.mode != own.mode:
        other.append("mode")
    if other:
        raise ConfigError(
            f"the configuration of a call has a redaction {', '.join(other)} that is not the engine's, and "
            "would be passed over: an engine has one redactor and one store of originals. Give it to "
            "create_context_engine(config=...), or leave the engine out of install_ce."
        )


def nobodys(scope: Scope, ids: IdGenerator) -> Scope:
    """A session of its own for who forgot their user id: whoever else did has the same scope."""
    return replace(scope, session_id=f"nobody-{ids.generate()}")


def is_nobodys(config: RuntimeConfig, scope: Scope) -> bool:
    """Whether a scope may be that of several people."""
    return config.require_user and not scope.user_id
