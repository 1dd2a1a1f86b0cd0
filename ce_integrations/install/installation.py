"""What is attached to one target, and what each of those who installed on it has to take away."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable
from functools import cache
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, cast

from ce_engine import ContextEngine, Report, Scope
from ce_engine.schema import environment
from ce_integrations.calls.hooks import Hooks
from ce_integrations.identity.session import Choice
from ce_integrations.install.attacher import Attacher
from ce_integrations.install.options import Options
from ce_integrations.wrapping.guard import Fault, Guard


Target = TypeVar("Target")
Native = TypeVar("Native")


class Wiring(Generic[Target, Native]):
    """What is attached to one target, for all who installed on it.

    Attributes:
        installers: how many did, and have not taken it away.
        heirs: targets that others installed on, and that share what is attached here.
    """

    def __init__(self, adapter: Attacher[Target, Native], target: Target, options: Options) -> None:
        self.adapter = adapter
        self.target = target
        self.options = options
        self.engine = options.make_engine()
        self.installers = 0
        config = options.call_config()
        closed = (config or self.engine.config).fail == "closed"
        choice = Choice(options.scope, options.session_id, options.user_id)
        self.hooks: Hooks[Native] = Hooks(
            adapter,
            self.engine,
            choice,
            Guard("closed" if closed else "open"),
            self.engine.config_of(config) if config and options.engine is not None else None,
        )
        self.hooks.wiring = self
        self._detach: Callable[[], None] | None = None
        self.heirs: dict[int, tuple[weakref.ref[Any], Options]] = {}
        try:
            self.attach()
        except BaseException:
            self.hooks.active = False
            _disinherit(target)
            raise

    def targets(self) -> list[Any]:
        """The target, and those that share what is attached here, as far as they live."""
        heirs = (target() for target, _ in list(self.heirs.values()))
        return [self.target, *(target for target in heirs if target is not None)]

    def attach(self) -> None:
        """Wire the target; again, where it lost what was wired."""
        if self._detach is not None:
            self._detach()
        self._detach = self.adapter.attach(self.target, self.hooks)

    def release(self) -> None:
        """One installer goes; with the last one goes what is attached."""
        with _lock:
            self.installers -= 1
            if self.installers <= 0:
                self.detach()

    def detach(self) -> None:
        """Restore what was there before, whoever installed; copies of the target fall silent."""
        with _lock:
            if not self.hooks.active:
                return
            self.hooks.active = False
            _wirings.pop(id(self.target), None)
            _disinherit(self.target)
            if self._detach is not None:
                self._detach()
            for target, options in [(ref(), options) for ref, options in self.heirs.values()]:
                if target is not None:
                    with self.hooks.guard("inherit"):
                        wiring = _wirings.get(id(target))
                        heir = _wired(self.adapter, target, options)
                        if heir is wiring:
                            heir.attach()  # a master that goes later is to know it for an heir
                        heir.installers = max(1, heir.installers)


class Installation(Generic[Target, Native]):
    """Context engineering on one target as one of its installers has it, and the way out."""

    def __init__(self, wiring: Wiring[Target, Native]) -> None:
        self._wiring = wiring
        self._is_mine = True

    @property
    def adapter(self) -> Attacher[Target, Native]:
        return self._wiring.adapter

    @property
    def target(self) -> Target:
        return self._wiring.target

    @property
    def engine(self) -> ContextEngine:
        return self._wiring.engine

    @property
    def hooks(self) -> Hooks[Native]:
        return self._wiring.hooks

    def uninstall(self) -> None:
        """Go; where nobody else installed on the target, it is what it was. Again, it does nothing."""
        with _lock:
            if not self._is_mine:
                return
            self._is_mine = False
            self._wiring.release()
        self.flush()

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Wait until everything recorded so far is stored; false if it is not in time."""
        settled = self.hooks.settle(timeout_s)
        with self.hooks.guard("flush"):
            return self.engine.sync.flush(timeout_s) and settled
        return False

    def last_report(self, session: Scope | str) -> Report | None:
        """The newest report of a session, with the codes of this installation's faults.

        An id alone means the session of no account and no user.
        """
        report = self.engine.last_report(session)
        if report is None or not self.faults:
            return report
        codes = [fault.code for fault in self.faults]
        return report.model_copy(update={"errors": [*report.errors, *codes]})

    @property
    def faults(self) -> tuple[Fault, ...]:
        """Faults of ours, oldest first, the newest 64: the host was spared them, if it fails open."""
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


_logger = logging.getLogger("ce_integrations")

_lock = threading.RLock()
_wirings: weakref.WeakValueDictionary[int, Wiring[Any, Any]] = weakref.WeakValueDictionary()
"""By identity of the target. What is attached to the target keeps its wiring alive."""


def install(
    adapter: Attacher[Target, Native], target: Target, options: Options
) -> Installation[Target, Native]:
    """An installation of one more who installs on a target."""
    _tell_of_variables()
    with _lock:
        wiring = _wired(adapter, target, options)
        wiring.installers += 1
        return Installation(wiring)


@cache
def _tell_of_variables() -> None:
    """Name variables that look like ours and are not, once a process."""
    for name, nearest in environment.unknown().items():
        _logger.warning(
            "the environment variable %s means nothing here; %s",
            name,
            f"did you mean {nearest}?" if nearest else f"known are {', '.join(environment.KNOWN)}",
        )


def _wired(
    adapter: Attacher[Target, Native], target: Target, options: Options
) -> Wiring[Target, Native]:
    """What is attached to a target: what is there, wired anew where that is undone, or a new one."""
    wiring = _wirings.get(id(target))
    if wiring is not None and wiring.target is target and wiring.hooks.active:
        wiring.options.check_same(options, "the target", wiring.engine)
        if not adapter.is_attached(target):
            wiring.attach()
        return cast("Wiring[Target, Native]", wiring)
    # An heir holds nothing of its own: who installed before may have let go of the installation.
    installers = int(any(id(target) in other.heirs for other in list(_wirings.values())))
    new_wiring = Wiring(adapter, target, options)
    new_wiring.installers = installers
    _wirings[id(target)] = new_wiring
    return new_wiring


def share(leaf: object, master: Hooks[Any], heir: Hooks[Any], *, agreed: bool) -> None:
    """Note that `master` governs a leaf in the target of `heir`, and goes on to: only one of two can.

    When the master goes, the heir's target is wired anew, as long as it lives.

    Raises:
        ConfigError: the two say different things, and must be `agreed`.
    """
    master_wiring, heir_wiring = master.wiring, heir.wiring
    if (
        not (isinstance(master_wiring, Wiring) and isinstance(heir_wiring, Wiring))
        or master_wiring is heir_wiring
    ):
        return
    if agreed:
        subject = f"the {type(leaf).__name__} in the target"
        master_wiring.options.check_same(heir_wiring.options, subject, master_wiring.engine)
    heirs, key = master_wiring.heirs, id(heir_wiring.target)
    heirs[key] = (
        weakref.ref(heir_wiring.target, lambda _: heirs.pop(key, None)),
        heir_wiring.options,
    )


def _disinherit(target: object) -> None:
    for wiring in list(_wirings.values()):
        wiring.heirs.pop(id(target), None)
