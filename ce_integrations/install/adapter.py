"""What adapters share: the adapter's contract, and how it is installed and taken away again."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeVar

from ce_engine import (
    BudgetConfig,
    ContextEngine,
    RuntimeConfig,
    Store,
    UnsupportedTargetError,
)
from ce_integrations.calls.governed_call import GovernedCall, begun_call
from ce_integrations.calls.hooks import Hooks
from ce_integrations.calls.open_turn import Turn, call_around, governing, is_inside
from ce_integrations.identity.session import CallInfo, IdChoice, ScopeChoice
from ce_integrations.identity.unnamed_sessions import Stateless
from ce_integrations.install.advice import Advice, advice_for
from ce_integrations.install.attacher import Attacher, Detach
from ce_integrations.install.installation import Installation, Wiring, install, share
from ce_integrations.install.options import Options, check_one, kind_of
from ce_integrations.install.version_check import check_requirements
from ce_integrations.wrapping.guard import Fail


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


Way = Literal["sync", "async", "stream", "astream", "push", "apush"]
"""How an app asks: for a whole answer or piece by piece, waiting or awaiting; or for a whole answer whose
pieces are pushed to a callback of the app."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a framework takes, and what its apps can do; `AdapterContract` asks for nothing else.

    Attributes:
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


class Adapter(Attacher[Target, Native]):
    """A framework as the engine sees it: what it installs on, and how its messages map.

    Attributes:
        requires: what must be installed, as in PEP 508; the one place of version facts.
        targets: the kinds of objects that it installs on, for people.
    """

    requires: ClassVar[tuple[str, ...]]
    targets: ClassVar[str] = ""
    capabilities: ClassVar[Capabilities] = Capabilities()

    @property
    def advice(self) -> tuple[Advice, ...]:
        """What is known to go wrong with the framework beside its versions; for `ce doctor`."""
        from packaging.requirements import Requirement  # noqa: PLC0415 - only `ce doctor` asks

        return advice_for([Requirement(text).name for text in self.requires])

    @abstractmethod
    def accepts(self, target: object) -> bool:
        """Whether `target` is an object to install on; must not import the framework."""

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
            config: everything else of how calls are prepared and recorded; defaults if not given. With an
                `engine`, what it leaves out of redaction, opt-out and `require_user` is the engine's.
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
        is_built_in = type(self).__module__.startswith("ce_integrations.")
        check_requirements(self.requires, self.name if is_built_in else "")
        if not self.accepts(target):
            check_one(target)
            raise UnsupportedTargetError(
                f"{self.name} cannot be installed on a {kind_of(target)}; expected "
                f"{self.targets or 'an object of the framework'}."
            )
        options.check_history(target, converses=self.converses(target))
        return install(self, target, options)
