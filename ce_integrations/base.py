"""What adapters share: the adapter's contract, and how it is installed and taken away again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, ClassVar, Generic, Literal, TypeVar, cast

from ce_engine import (
    Answer,
    BudgetConfig,
    ContextEngine,
    Extend,
    HostMessage,
    Insert,
    Keep,
    Message,
    Restore,
    RuntimeConfig,
    Shorten,
    Step,
    Store,
    ToolRun,
    UnsupportedTargetError,
    Usage,
)
from ce_integrations.advice import Advice, advice_for
from ce_integrations.calls import GovernedCall, begun_call
from ce_integrations.guard import Fail
from ce_integrations.hooks import Hooks
from ce_integrations.installation import Installation, Wiring, install, share
from ce_integrations.options import Options, check_one, kind_of
from ce_integrations.requirements import check_requirements
from ce_integrations.session import CallInfo, IdChoice, ScopeChoice
from ce_integrations.turns import Turn, call_around, governing, is_inside
from ce_integrations.unnamed import Stateless


__all__ = [
    "Adapter",
    "CallInfo",
    "Capabilities",
    "Detach",
    "GovernedCall",
    "Hooks",
    "Installation",
    "Stateless",
    "Turn",
    "Way",
    "Wiring",
    "begun_call",
    "call_around",
    "governing",
    "is_inside",
    "share",
]

Target = TypeVar("Target")
Native = TypeVar("Native")

Detach = Callable[[], None]
"""Undoes exactly what `attach` did."""


Way = Literal["sync", "async", "stream", "astream", "push", "apush"]
"""How an app asks: for a whole answer or piece by piece, waiting or awaiting; or for a whole answer whose
pieces are pushed to a callback of the app."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a framework takes, and what its apps can do; `AdapterContract` asks for nothing else.

    Attributes:
        several_system_messages: messages of the system role may stand anywhere.
        single_string_input: some of its models take one text in place of messages.
        ways: how its apps ask.
        tools: its apps run tools, and the adapter hears of each run.
        tool_errors: its messages with a tool's result say whether the tool failed.
        teams: one of its agents may ask another.
        groups: its agents may answer one after the other, and hear each other.
        helpers: it asks models on its own account, too (to condense, to route, to sum up).
        retrieval: its apps look documents up, and the adapter hears what they find.
        usage: its answers tell the usage that the provider told.
        history: its apps may leave the history to us: of such calls it says `takes_history`.
        threads: one app serves several conversations, told apart by an id, at the same time.
        elsewhere: its calls may run in tasks that began before the app asked, and inherit nothing.
        cancels: a model's call ends where the task that awaits it is cancelled; else it goes on, on a
            thread, and is recorded whole.
    """

    several_system_messages: bool = False
    single_string_input: bool = False
    ways: tuple[Way, ...] = ("sync", "async", "stream", "astream")
    tools: bool = True
    tool_errors: bool = True
    teams: bool = True
    groups: bool = False
    helpers: bool = False
    retrieval: bool = False
    usage: bool = True
    history: bool = False
    threads: bool = True
    elsewhere: bool = False
    cancels: bool = True


class Adapter(ABC, Generic[Target, Native]):
    """A framework as the engine sees it: what it installs on, and how its messages map.

    Attributes:
        name: the framework's; tags every event, and names the extra of `pip install` of ours.
        requires: what must be installed, as in PEP 508; the one place of version facts.
        targets: the kinds of objects that it installs on, for people.
        mapper: a module with `to_schema`, `from_schema`, `edited`, and perhaps `to_answer`,
            `map_model_usage`, `split` and `join`, which imports the framework and is itself imported at first
            use; an adapter of one file defines those methods instead, or `to_native` for the second and third.
    """

    name: ClassVar[str]
    requires: ClassVar[tuple[str, ...]]
    targets: ClassVar[str] = ""
    mapper: ClassVar[str] = ""
    capabilities: ClassVar[Capabilities] = Capabilities()

    @property
    def advice(self) -> tuple[Advice, ...]:
        """What is known to go wrong with the framework beside its versions; for `ce doctor`."""
        from packaging.requirements import Requirement  # noqa: PLC0415 - only `ce doctor` asks

        return advice_for([Requirement(text).name for text in self.requires])

    @abstractmethod
    def accepts(self, target: object) -> bool:
        """Whether `target` is an object to install on; must not import the framework."""

    def converses(self, target: Target) -> bool:  # noqa: ARG002 - for those with other targets
        """Whether a target may hold a conversation; a model, a tool or a retriever alone does not."""
        return True

    def to_schema(self, native: Native) -> HostMessage:
        """Map a message of the framework; an unknown part is carried through, never filtered."""
        return cast("HostMessage", self._mapper.to_schema(native))

    def split(self, native: Native) -> Sequence[Native]:
        """The messages that a native stands for, such as the results of several calls in one.

        `to_schema` and `to_native` are given these. Never none: one that stands for itself is its
        only part. Parts do not hold the native, and each has another id, if it has one.
        """
        if hasattr(self._mapper, "split"):
            return cast("Sequence[Native]", self._mapper.split(native))
        return (native,)

    def join(self, native: Native, parts: Sequence[Native]) -> Native:
        """A copy of a native that was split, with what goes out of its parts, in order."""
        if hasattr(self._mapper, "join"):
            return cast("Native", self._mapper.join(native, parts))
        raise NotImplementedError(
            f"{self.name} splits a {type(native).__name__} and has no `join`; found {len(parts)} "
            "parts to put together, expected an adapter that does both"
        )

    def to_native(self, step: Step, native: Native | None) -> Native:
        """Make the framework's message for a step of the plan.

        For Shorten and Extend `native` is the host's own: give a copy of it with its ids and extras.
        For Insert and Restore there is none.
        """
        if isinstance(step, Insert):
            return self.from_schema(Message(role=step.role, content=step.text))
        if isinstance(step, Restore):
            return self.from_schema(step.message)
        if native is None:
            raise ValueError(f"{type(step).__name__} needs the host's message")
        return native if isinstance(step, Keep) else self.edited(native, step)

    def from_schema(self, message: Message) -> Native:
        """Make the framework's message of one of ours, with its calls, or the call that it answers."""
        return cast("Native", self._mapper.from_schema(message))

    def edited(self, native: Native, step: Shorten | Extend) -> Native:
        """A copy of a message with the text that a step wants (`blocks.changed`), and all else that it has."""
        return cast("Native", self._mapper.edited(native, step))

    @abstractmethod
    def attach(self, target: Target, hooks: Hooks[Native]) -> Detach:
        """Wire the framework to the hooks; all or nothing."""

    def is_attached(self, target: Target) -> bool:  # noqa: ARG002 - for those who can tell
        """Whether what `attach` did is still there: an app may have put other things in its place."""
        return True

    def parts(self, native: Native) -> tuple[object, ...]:
        """What tells that a native is unchanged: its objects, and the lengths of those that may grow."""
        content = getattr(native, "content", None)
        return (content, len(content)) if isinstance(content, list) else (content,)

    def alike(self, native: Native) -> Hashable | None:  # noqa: ARG002 - for those who can tell
        """All that is mapped of a plain message, as one value: who has the same is mapped alike.

        `None` where it would cost more to tell than the mapping itself: such are known by identity.
        """
        return None

    def to_answer(self, native: Native) -> Answer:
        """Map what the model answered, with what it says of itself."""
        if hasattr(self._mapper, "to_answer"):
            return cast("Answer", self._mapper.to_answer(native))
        host = self.to_schema(native)
        return Answer(host.message, host.host_id, attachments=host.attachments)

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

    def install_ce(  # noqa: PLR0913 - one parameter an option
        self,
        target: Target,
        *,
        engine: ContextEngine | None = None,
        store: Store | str | None = None,
        config: RuntimeConfig | None = None,
        budget: int | BudgetConfig | None = None,
        scope: ScopeChoice = None,
        session_id: IdChoice = None,
        user_id: IdChoice = None,
        fail: Fail = "open",
        history: bool | None = None,
    ) -> Installation[Target, Native]:
        """Bring context engineering into `target`: one line, and nothing else of the app changes.

        Who installs twice is governed once. Each result takes its own away with `uninstall()`, and at
        the end of a `with` block; when the last one goes, the target is what it was.

        Args:
            target: what the framework's own code goes on using.
            engine: an engine to share; else one is made of `store` and `config`.
            store: a store or its URL; without one `CE_STORE_URL`, else `sqlite:///ce.db`.
            config: everything else of how calls are prepared and recorded; defaults if not given.
            budget: tokens of the model's whole window, the reply's included: 4000 is
                `BudgetConfig(max_input_tokens=4000)`, which sends 3,000 at most. Without one it is
                the model's own window, where that can be known.
            scope: whose calls these are: a `Scope`, or a sync callable that gets the `CallInfo`.
            session_id: the session alone, a text, a number or a UUID, or a callable that gives one.
            user_id: the user alone, in the same ways; `""` is nobody.
            fail: `"open"` lets the app's call go on whatever happens to us; `"closed"` raises.
            history: whether a chain or engine that sends no history is given what was said in its
                session before (`RuntimeConfig.history`); without it the model gets what the app sends.

        Raises:
            UnsupportedTargetError: the target is nothing that can be governed.
            MissingDependencyError: the framework is not installed.
            UnsupportedVersionError: its release is outside the supported range.
            ConfigError: options contradict each other, the installation that is there, or the target (a
                model alone takes no history); or no call could ever be governed: `CE_SECRET` is too short.
            StoreUrlError: the store's URL is not understood, or nothing can ever be kept there.
        """
        options = Options(engine, store, config, budget, scope, session_id, user_id, fail, history)
        ours = type(self).__module__.startswith("ce_integrations.")
        check_requirements(self.requires, self.name if ours else "")
        if not self.accepts(target):
            check_one(target)
            raise UnsupportedTargetError(
                f"{self.name} cannot be installed on a {kind_of(target)}; expected "
                f"{self.targets or 'an object of the framework'}."
            )
        options.check_history(target, converses=self.converses(target))
        return install(self, target, options)
