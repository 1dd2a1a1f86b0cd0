"""What adapters share: the adapter's contract, and how it is installed and taken away again."""

from __future__ import annotations

import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from types import FunctionType, TracebackType
from typing import Any, ClassVar, Generic, Self, TypeVar, cast

from ce_engine import (
    Answer,
    ConfigError,
    ContextEngine,
    HostMessage,
    Message,
    MissingDependencyError,
    Report,
    RuntimeConfig,
    Step,
    Store,
    ToolRun,
    UnsupportedTargetError,
    UnsupportedVersionError,
    Usage,
    create_context_engine,
)
from ce_integrations.calls import GovernedCall, begun_call
from ce_integrations.guard import Fail, Fault, Guard
from ce_integrations.hooks import Hooks
from ce_integrations.session import CallInfo, Choice, IdChoice, ScopeChoice
from ce_integrations.turns import Turn, governing, is_inside


__all__ = [
    "Adapter",
    "CallInfo",
    "Capabilities",
    "Detach",
    "GovernedCall",
    "Hooks",
    "Installation",
    "Turn",
    "begun_call",
    "governing",
    "is_inside",
]

Target = TypeVar("Target")
Native = TypeVar("Native")

Detach = Callable[[], None]
"""Undoes exactly what `attach` did."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a framework takes.

    Attributes:
        several_system_messages: messages of the system role may stand anywhere.
        single_string_input: some of its models take one text in place of messages.
    """

    several_system_messages: bool = False
    single_string_input: bool = False


class Adapter(ABC, Generic[Target, Native]):
    """A framework as the engine sees it: what it installs on, and how its messages map.

    Attributes:
        name: the framework's; tags every event, and names the extra of `pip install`.
        requires: what must be installed, as in PEP 508; the one place of version facts.
        targets: the kinds of objects that it installs on, for people.
        mapper: a module with `to_schema`, `to_native`, and perhaps `to_answer`, `map_model_usage`,
            which imports the framework and is itself imported at first use; an adapter of one
            file defines those methods instead.
    """

    name: ClassVar[str]
    requires: ClassVar[tuple[str, ...]]
    targets: ClassVar[str] = ""
    mapper: ClassVar[str] = ""
    capabilities: ClassVar[Capabilities] = Capabilities()

    @abstractmethod
    def accepts(self, target: object) -> bool:
        """Whether `target` is an object to install on; must not import the framework."""

    def to_schema(self, native: Native) -> HostMessage:
        """Map a message of the framework; an unknown part is carried through, never filtered."""
        return cast("HostMessage", self._mapper.to_schema(native))

    def to_native(self, step: Step, native: Native | None) -> Native:
        """Make the framework's message for a step of the plan.

        For Shorten and Extend `native` is the host's own: give a copy of it with its ids and extras.
        For Insert and Restore there is none.
        """
        return cast("Native", self._mapper.to_native(step, native))

    @abstractmethod
    def attach(self, target: Target, hooks: Hooks[Native]) -> Detach:
        """Wire the framework to the hooks; all or nothing."""

    def parts(self, native: Native) -> tuple[object, ...]:
        """What tells that a native is unchanged: its objects, and the lengths of those that may grow."""
        content = getattr(native, "content", None)
        return (content, len(content)) if isinstance(content, list) else (content,)

    def to_answer(self, native: Native) -> Answer:
        """Map what the model answered, with what it says of itself."""
        if hasattr(self._mapper, "to_answer"):
            return cast("Answer", self._mapper.to_answer(native))
        host = self.to_schema(native)
        return Answer(host.message, host.host_id)

    def map_message(self, native: Native) -> Message:
        """Map a message of the framework to the schema's (A-23)."""
        return self.to_schema(native).message

    def map_model_usage(self, native: Native) -> Usage | None:
        """Give the usage that an answer carries, if it does (A-23)."""
        if hasattr(self._mapper, "map_model_usage"):
            return cast("Usage | None", self._mapper.map_model_usage(native))
        return None

    @cached_property
    def _mapper(self) -> Any:
        return import_module(self.mapper) if self.mapper else None

    def map_tool_call(self, call: Any) -> ToolRun:
        """Map the framework's record of a tool's run, where it has one (A-23)."""
        raise NotImplementedError(f"{self.name} reports its tools' runs by callbacks: {call!r:.80}")

    def install_ce(
        self,
        target: Target,
        *,
        engine: ContextEngine | None = None,
        store: Store | str | None = None,
        config: RuntimeConfig | None = None,
        scope: ScopeChoice = None,
        session_id: IdChoice = None,
        user_id: IdChoice = None,
        fail: Fail = "open",
    ) -> Installation[Target, Native]:
        """Bring context engineering into `target`: one line, and nothing else of the app changes.

        Installing twice is one installation. The result takes it away again with `uninstall()`, and
        at the end of a `with` block.

        Args:
            target: what the framework's own code goes on using.
            engine: an engine to share; else one is made of `store` and `config`.
            store: a store or its URL; without one `CE_STORE_URL`, else `sqlite:///ce.db`.
            config: budget and the like; defaults if not given.
            scope: whose calls these are: a `Scope`, or a sync callable that gets the `CallInfo`.
            session_id: the session alone, in the same two ways.
            user_id: the user alone, in the same two ways.
            fail: `"open"` lets the app's call go on whatever happens to us; `"closed"` raises.

        Raises:
            UnsupportedTargetError: the target is nothing that can be governed.
            MissingDependencyError: the framework is not installed.
            UnsupportedVersionError: its release is outside the supported range.
            ConfigError: options contradict each other, or the installation that is there.
            StoreUrlError: the store's URL is not understood.
        """
        options = _Options(engine, store, config, scope, session_id, user_id, fail)
        check_requirements(self.requires, self.name)
        if not self.accepts(target):
            raise UnsupportedTargetError(
                f"{self.name} cannot be installed on a {_kind(target)}; expected "
                f"{self.targets or 'an object of the framework'}."
            )
        with _lock:
            known = _installed.get(id(target))
            if known is not None and known.target is target and known.hooks.active:
                known.options.check_same(options, "the target")
                return cast("Installation[Target, Native]", known)
            made = Installation(self, target, options)
            _installed[id(target)] = made
            return made


@dataclass(frozen=True, slots=True)
class _Options:
    """What `install_ce` was called with; `None` and `"open"` are not said."""

    engine: ContextEngine | None
    store: Store | str | None
    config: RuntimeConfig | None
    scope: ScopeChoice
    session_id: IdChoice
    user_id: IdChoice
    fail: Fail

    def __post_init__(self) -> None:
        if self.engine is not None and self.store is not None:
            raise ConfigError(
                "install_ce was given an engine and a store; an engine has its store already. "
                "Pass one of the two."
            )
        if self.fail not in ("open", "closed"):
            raise ConfigError(f"fail is {self.fail!r}; expected 'open' or 'closed'")
        if self.config is not None and not isinstance(self.config, RuntimeConfig):
            raise ConfigError(
                f"config is a {_kind(self.config)}; expected a RuntimeConfig, such as "
                "RuntimeConfig(budget=BudgetConfig(max_input_tokens=8000))"
            )

    def check_same(self, again: _Options, what: str) -> None:
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
        config = self.config
        if self.fail == "closed":
            base = config or (self.engine.config if self.engine is not None else RuntimeConfig())
            config = base.model_copy(update={"fail": "closed"})
        return config


class Installation(Generic[Target, Native]):
    """Context engineering on one target, and the way out."""

    def __init__(self, adapter: Adapter[Target, Native], target: Target, options: _Options) -> None:
        self.adapter = adapter
        self.target = target
        self.options = options
        self.engine = options.make_engine()
        config = options.call_config()
        closed = (config or self.engine.config).fail == "closed"
        choice = Choice(options.scope, options.session_id, options.user_id)
        self.hooks: Hooks[Native] = Hooks(
            adapter,
            self.engine,
            choice,
            Guard("closed" if closed else "open"),
            config if options.engine is not None else None,
        )
        self.hooks.installation = self
        try:
            self._detach = adapter.attach(target, self.hooks)
        except BaseException:
            self.hooks.active = False
            raise

    def check_shared(self, leaf: object, other: Installation[Any, Any] | None) -> None:
        """For a leaf that another installation governs already, and only one of the two can.

        Raises:
            ConfigError: the two say different things.
        """
        if other is not None and other is not self:
            other.options.check_same(self.options, f"the {type(leaf).__name__} in the target")

    def uninstall(self) -> None:
        """Restore what was there before; copies of the target fall silent. Again, it does nothing."""
        with _lock:
            if not self.hooks.active:
                return
            self.hooks.active = False
            _installed.pop(id(self.target), None)
            self._detach()
        self.flush()

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Wait until everything recorded so far is stored; false if it is not in time."""
        settled = self.hooks.settle(timeout_s)
        with self.hooks.guard("flush"):
            return self.engine.sync.flush(timeout_s) and settled
        return False

    def last_report(self, session_id: str) -> Report | None:
        """The newest report of a session, with the codes of what this installation was spared."""
        report = self.engine.last_report(session_id)
        if report is None or not self.faults:
            return report
        codes = [fault.code for fault in self.faults]
        return report.model_copy(update={"errors": [*report.errors, *codes]})

    @property
    def faults(self) -> tuple[Fault, ...]:
        """Faults of ours that the host was spared, oldest first; the newest 64."""
        return tuple(self.hooks.guard.faults)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.uninstall()


_lock = threading.RLock()
_installed: weakref.WeakValueDictionary[int, Installation[Any, Any]]
_installed = weakref.WeakValueDictionary()
"""By identity of the target. What is attached to the target keeps the installation alive."""


def check_requirements(
    requires: tuple[str, ...], extra: str, found: Mapping[str, str] | None = None
) -> None:
    """Compare what is installed with what is required (`found`: other versions than those, by name).

    Raises:
        MissingDependencyError: a distribution is not installed.
        UnsupportedVersionError: its version is outside the range.
    """
    from packaging.requirements import Requirement  # noqa: PLC0415 - only an installation needs it

    for text in requires:
        requirement = Requirement(text)
        cure = f"pip install 'ce-integrations[{extra}]'"
        try:
            installed = (found or {}).get(requirement.name) or version(requirement.name)
        except PackageNotFoundError:
            raise MissingDependencyError(
                f"{requirement.name} is not installed; expected {text}. Run: {cure}"
            ) from None
        if not requirement.specifier.contains(installed, prereleases=True):
            raise UnsupportedVersionError(
                f"{requirement.name} {installed} is installed; expected {text}. "
                f"Run: pip install '{text}'"
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


def _kind(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"
