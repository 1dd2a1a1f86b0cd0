"""The base of adapters that wrap all of a framework's classes, and put one mark on what is in a target."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from importlib import import_module
from pkgutil import resolve_name
from typing import Any, ClassVar, TypeVar

from ce_engine import UnsupportedTargetError
from ce_integrations.install.adapter import Adapter, Detach, Hooks
from ce_integrations.install.marks import PLACE, LateMarks, Mark, mark_all
from ce_integrations.wrapping.patches import ClassPatches, Make, Place
from ce_integrations.wrapping.walk import walk


__all__ = ["ClassAdapter", "Entry", "SharedMark", "loaded"]

Native = TypeVar("Native")

Entry = tuple[Place | str, Make, str]
"""A class, or a module with functions, or its dotted path; a wrapper; and what it wraps: names with spaces between."""


def loaded(*paths: str) -> Any:
    """Those classes (a tuple), by module and name, that the app has imported; nothing is imported for that."""
    path_parts = (path.rpartition(".") for path in paths)
    candidates = (getattr(sys.modules.get(module), name, None) for module, _, name in path_parts)
    return tuple(cls for cls in candidates if isinstance(cls, type))


class SharedMark(Mark):
    """The mark of all that is in a target; copies have it, too.

    Attributes:
        wrapped: the classes that were wrapped when it was put.
        patches: what its adapter has wrapped.
    """

    copies = "share"
    wrapped: frozenset[Place] = frozenset()
    patches: ClassPatches

    def __init__(self, hooks: Hooks[Any]) -> None:
        super().__init__(hooks)
        self._late = LateMarks(PLACE)

    def put_on(self, subject: object) -> None:
        """Mark an object that was made since, too."""
        self._late.put(subject, self)

    def take_off(self) -> None:
        """Take the mark of all such objects."""
        self._late.take_off()


class ClassAdapter(Adapter[Any, Native]):
    """An adapter of a framework that has classes for what asks, runs and holds: those are wrapped once for all.

    Objects may be made and exchanged at any time, and classes be derived; who governs a call is told by
    the step around it (`governor`), else by the mark of an object, which stands in its `__dict__`. Classes
    are named by module and name, so that none is imported before the app does so.

    Attributes:
        kinds: what it installs on.
        alone: those of them that hold no conversation.
        packages: where to look into a target.
        inside: what is marked in a target, beside itself.
        served: beginnings of modules with agents whose conversation a provider keeps.
        asking: what is to be used in place of these.
        wraps: modules beside `mapper` with `MAKERS`, a sequence of `Entry`; imported at the first installation.
        imports: whether classes that `MAKERS` name are imported where they are there; else those count that
            the app has imported.
        patches: what is wrapped for all installations of a framework: two adapters of one kind wrap once.
    """

    kinds: ClassVar[tuple[str, ...]] = ()
    alone: ClassVar[tuple[str, ...]] = ()
    packages: ClassVar[tuple[str, ...]] = ()
    inside: ClassVar[tuple[str, ...]] = ()
    served: ClassVar[tuple[str, ...]] = ()
    asking: ClassVar[str] = ""
    wraps: ClassVar[tuple[str, ...]] = ("context_injection", "recorder")
    imports: ClassVar[bool] = False
    patches: ClassVar[ClassPatches]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if not hasattr(cls, "patches"):
            cls.patches = ClassPatches()

    def accepts(self, target: object) -> bool:
        """Whether it is one of `kinds`; who has one has imported what it is made of."""
        return isinstance(target, loaded(*self.kinds))

    def converses(self, target: object) -> bool:
        """Whether it is none of those that are `alone`."""
        return not isinstance(target, loaded(*self.alone))

    def find_parts(self, target: Any) -> list[Any]:
        """What is marked of a target, itself included."""
        kinds = loaded(*self.inside)
        parts = walk(target, self.packages)
        return [part for part in parts if part is target or isinstance(part, kinds)]

    def speaker(self, subject: Any) -> str:  # noqa: ARG002 - for those with agents that hear each other
        """The name under which an agent speaks to others; empty for what does not."""
        return ""

    def must_agree(self, target: Any) -> bool:  # noqa: ARG002 - for those with targets that share
        """Whether another installation that governs a part of the target must say the same as this one."""
        return False

    def make_mark(self, hooks: Hooks[Native]) -> SharedMark:
        """The mark of an installation."""
        return SharedMark(hooks)

    def more(self, parts: list[Any]) -> Iterable[tuple[Place, str, Make]]:  # noqa: ARG002 - as above
        """What is wrapped beside `MAKERS`, where a target has these objects in it."""
        return ()

    def attach(self, target: Any, hooks: Hooks[Native]) -> Detach:
        """Mark what is in a target, and wrap the framework's classes; all or nothing.

        Raises:
            UnsupportedTargetError: a provider keeps the conversation of something in it.
            ConfigError: another installation governs a part of it, and says something else.
        """
        parts = self.find_parts(target)
        self._check_governable(parts)
        hooks.agents.update(filter(None, map(self.speaker, parts)))
        hooks.attached = mark = self.make_mark(hooks)
        makers = self._makers
        mark.wrapped, mark.patches = frozenset(makers), self.patches
        agreed = self.must_agree(target)
        with ExitStack() as undo:
            undo.callback(self.patches.hold_all(makers, mark, self.more(parts)))
            undo.callback(mark.take_off)
            undo.callback(mark_all(parts, lambda _: mark, PLACE, hooks, agreed=agreed))
            return undo.pop_all().close

    def is_attached(self, target: Any) -> bool:
        """Whether all that has a mark, and what was imported since is wrapped."""
        marks = [PLACE.mark_of(part) for part in self.find_parts(target)]
        wrapped = self._makers.keys()
        return all(isinstance(mark, SharedMark) and wrapped <= mark.wrapped for mark in marks)

    def _check_governable(self, parts: list[Any]) -> None:
        for part in parts:
            if any(cls.__module__.startswith(self.served) for cls in type(part).__mro__):
                raise UnsupportedTargetError(
                    f"the {type(part).__name__} {getattr(part, 'name', '')!r} keeps its conversation at "
                    "the provider, where no message of it can be governed; expected agents that ask a "
                    f"model by themselves. Use {self.asking} in its place."
                )

    @property
    def _makers(self) -> dict[Place, dict[str, Make]]:
        makers: dict[Place, dict[str, Make]] = {}
        package = self.mapper.rpartition(".")[0]
        for module in self.wraps:
            for where, make, names in import_module(f"{package}.{module}").MAKERS:
                for place in self._places(where):
                    makers.setdefault(place, {}).update(dict.fromkeys(names.split(), make))
        return makers

    def _places(self, where: Place | str) -> Iterator[Place]:
        if not isinstance(where, str):
            yield where
        elif not self.imports:
            yield from loaded(where)
        else:
            with suppress(ImportError, AttributeError):  # not every release has all of them
                yield resolve_name(where)
