"""What `install_ce` was told, and whether a second installation on the same object says the same."""

from __future__ import annotations

from dataclasses import dataclass, fields
from types import FunctionType

from ce_engine import ConfigError, ContextEngine, RuntimeConfig, Store, create_context_engine
from ce_integrations.guard import Fail
from ce_integrations.session import IdChoice, ScopeChoice


@dataclass(frozen=True, slots=True)
class Options:
    """What `install_ce` was called with; `None` and `"open"` are not said."""

    engine: ContextEngine | None
    store: Store | str | None
    config: RuntimeConfig | None
    scope: ScopeChoice
    session_id: IdChoice
    user_id: IdChoice
    fail: Fail
    history: bool | None = None

    def __post_init__(self) -> None:
        if self.engine is not None and self.store is not None:
            raise ConfigError(
                "install_ce was given an engine and a store; an engine has its store already. "
                "Pass one of the two."
            )
        if self.fail not in ("open", "closed"):
            raise ConfigError(f"fail is {self.fail!r}; expected 'open' or 'closed'")
        if self.history not in (None, True, False):
            raise ConfigError(f"history is {self.history!r}; expected True or False")
        if self.config is not None and not isinstance(self.config, RuntimeConfig):
            raise ConfigError(
                f"config is a {kind_of(self.config)}; expected a RuntimeConfig, such as "
                "RuntimeConfig(budget=BudgetConfig(max_input_tokens=8000))"
            )

    def check_same(self, again: Options, what: str) -> None:
        """Raise ConfigError if a second installation on the same object says something else."""
        other = [
            part.name
            for part in fields(self)
            if (said := getattr(again, part.name)) not in (None, "open")
            and not _is_same(said, getattr(self, part.name))
        ]
        if other:
            raise ConfigError(
                f"{what} has an installation with another {', '.join(other)}. Uninstall that one "
                "first, leave the option out to share it, or install on a copy."
            )

    def make_engine(self) -> ContextEngine:
        if self.engine is not None:
            return self.engine
        return create_context_engine(store=self.store, config=self.call_config())

    def call_config(self) -> RuntimeConfig | None:
        """The configuration of each call, where it is not that of the engine."""
        said = {"fail": "closed"} if self.fail == "closed" else {}
        if self.history is not None:
            said["history"] = "session" if self.history else "app"
        config = self.config
        if said:
            base = config or (self.engine.config if self.engine is not None else RuntimeConfig())
            config = base.model_copy(update=said)
        return config

    def check_history(self, target: object, *, converses: bool) -> None:
        """Raise ConfigError if history is asked for on what holds no conversation."""
        config = self.config
        wanted = self.history or (config is not None and config.history == "session")
        if wanted and self.history is not False and not converses:
            raise ConfigError(
                f"history is asked for on a {kind_of(target)}, which holds no conversation: what was "
                "said before would go into every prompt that it is asked. Install with history=True "
                "on the chain or engine that holds the conversation, or leave it out here."
            )


def _is_same(said: object, before: object) -> bool:
    """Whether two options mean the same; a function written again on each call does."""
    if isinstance(said, FunctionType) and isinstance(before, FunctionType):
        return (said.__code__, said.__defaults__, _closed_over(said)) == (
            before.__code__,
            before.__defaults__,
            _closed_over(before),
        )
    return said is before or said == before


def _closed_over(function: FunctionType) -> list[object]:
    return [cell.cell_contents for cell in function.__closure__ or ()]


def kind_of(value: object) -> str:
    """A class by its full name, for people."""
    return f"{type(value).__module__}.{type(value).__qualname__}"
