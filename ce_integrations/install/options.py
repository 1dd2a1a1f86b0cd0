"""What `install_ce` was told, and whether a second installation on the same object says the same."""

from __future__ import annotations

from dataclasses import dataclass, fields
from types import FunctionType
from typing import Any

from ce_engine import (
    BudgetConfig,
    ConfigError,
    ContextEngine,
    RuntimeConfig,
    Scope,
    Store,
    UnsupportedTargetError,
    create_context_engine,
)
from ce_integrations.identity.session import IdChoice, ScopeChoice, as_id, of_scope
from ce_integrations.wrapping.guard import Fail


@dataclass(frozen=True, slots=True)
class Options:
    """What `install_ce` was called with; `None` and `"open"` are not said."""

    engine: ContextEngine | None
    store: Store | str | None
    config: RuntimeConfig | None
    budget: int | BudgetConfig | None
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
        object.__setattr__(self, "budget", _budget(self.budget, self.config))
        self._check_scope()

    def _check_scope(self) -> None:
        """Make text of ids that are none.

        Raises:
            ConfigError: one cannot be an id, or two options say whose calls these are.
        """
        for name in ("session_id", "user_id"):
            value = getattr(self, name)
            if value is not None and self.scope is not None:
                raise ConfigError(
                    f"install_ce was given scope and {name}, which both say whose calls these are. "
                    f"Give one of the two: Scope({name}=...) has a place for it."
                )
            if not callable(value):
                object.__setattr__(self, name, as_id(value, name, "install_ce"))
        if isinstance(self.scope, Scope):
            of_scope(self.scope)
        elif not (self.scope is None or callable(self.scope)):
            raise ConfigError(
                f"scope is a {kind_of(self.scope)}; expected a Scope, such as "
                'Scope(session_id="s", user_id="u"), or a function that gives one. A session alone '
                "is said with session_id=."
            )

    def check_same(self, again: Options, subject: str, engine: ContextEngine) -> None:
        """Raise ConfigError if a second installation on the same object says something else.

        Args:
            again: what the second one says.
            subject: the object, for people.
            engine: that of the first, which may have been made for it.
        """
        other = [
            part.name
            for part in fields(self)
            if (value := getattr(again, part.name)) not in (None, "open")
            and not _is_same(value, engine if part.name == "engine" else getattr(self, part.name))
        ]
        if other:
            raise ConfigError(
                f"{subject} has an installation with another {', '.join(other)}. Uninstall that one "
                "first, leave the option out to share it, or install on a copy."
            )

    def make_engine(self) -> ContextEngine:
        """The engine of the installation.

        Raises:
            ConfigError: no call could ever be governed, as `CE_SECRET` is too short.
            StoreUrlError: the store's URL is not understood, or nothing can ever be kept there.
        """
        engine = self.engine
        if engine is None:
            engine = create_context_engine(store=self.store, config=self.call_config())
        engine.check_possible()
        return engine

    def call_config(self) -> RuntimeConfig | None:
        """The configuration of each call, where it is not that of the engine."""
        changes: dict[str, object] = {"fail": "closed"} if self.fail == "closed" else {}
        if self.budget is not None and (self.config is None or self.config.budget != self.budget):
            changes["budget"] = self.budget
        if self.history is not None:
            changes["history"] = "session" if self.history else "app"
        if not changes:
            return self.config
        engines = self.engine.config if self.engine is not None else RuntimeConfig()
        return (self.config or engines).model_copy(update=changes)

    def check_history(self, target: object, *, converses: bool) -> None:
        """Raise ConfigError if history is asked for on what holds no conversation."""
        config = self.config
        is_wanted = self.history or (config is not None and config.history == "session")
        if is_wanted and self.history is not False and not converses:
            raise ConfigError(
                f"history is asked for on a {kind_of(target)}, which holds no conversation: what was "
                "said before would go into every prompt that it is asked. Install with history=True "
                "on the chain or engine that holds the conversation, or leave it out here."
            )


def _budget(budget: object, config: RuntimeConfig | None) -> BudgetConfig | None:
    """The budget of the calls, where somebody set it.

    Raises:
        ConfigError: it is none, or `config` has another one.
    """
    set_there = config.budget if config is not None and config.budget.model_fields_set else None
    if budget is None:
        return set_there
    if isinstance(budget, int) and not isinstance(budget, bool):
        window: dict[str, Any] = {"max_input_tokens": budget}
        if set_there is not None and "max_input_tokens" not in set_there.model_fields_set:
            return BudgetConfig(**{**set_there.model_dump(exclude_unset=True), **window})
        if set_there is not None and set_there.max_input_tokens == budget:
            return set_there
        budget = BudgetConfig(**window)
    if not isinstance(budget, BudgetConfig):
        raise ConfigError(
            f"budget is a {kind_of(budget)}; expected a number of tokens, such as 8000, or a "
            "BudgetConfig, such as BudgetConfig(max_input_tokens=8000)"
        )
    if set_there is not None and set_there != budget:
        raise ConfigError(
            f"budget says {budget.max_input_tokens} tokens, and config has a budget of its own "
            f"({set_there.max_input_tokens}). Give one of the two."
        )
    return budget


def _is_same(value: object, before: object) -> bool:
    """Whether two options mean the same; a function written again on each call does."""
    if isinstance(value, FunctionType) and isinstance(before, FunctionType):
        return (value.__code__, value.__defaults__, _closed_over(value)) == (
            before.__code__,
            before.__defaults__,
            _closed_over(before),
        )
    return value is before or value == before


def _closed_over(function: FunctionType) -> list[object]:
    return [cell.cell_contents for cell in function.__closure__ or ()]


def kind_of(value: object) -> str:
    """A class by its full name, for people."""
    return f"{type(value).__module__}.{type(value).__qualname__}"


def check_one(target: object) -> None:
    """See that a target which nobody accepts is not several.

    Raises:
        UnsupportedTargetError: it is a list or the like.
    """
    if isinstance(target, list | tuple | set | frozenset):
        raise UnsupportedTargetError(
            f"install_ce takes one target, and was given a {type(target).__name__} of {len(target)}. "
            "Install on each, with one engine for all: "
            "`engine = create_context_engine(); for each in targets: install_ce(each, engine=engine)`"
        )
