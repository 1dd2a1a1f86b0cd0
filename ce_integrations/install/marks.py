"""Marks: ours among the listeners of a framework's objects, which say whose these are and hear what they do."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Protocol, Self, Unpack

from ce_integrations.calls.agent_steps import Step, governing_step
from ce_integrations.calls.model_methods import Form, ModelMethodCall, Owner, governed
from ce_integrations.calls.tool_events import OpenRuns
from ce_integrations.install.adapter import CallInfo, Detach, Hooks, share
from ce_integrations.wrapping.bounded_maps import ByIdentity
from ce_integrations.wrapping.function_kinds import same_kind
from ce_integrations.wrapping.patches import ClassPatches, Make, definitions, is_of
from ce_integrations.wrapping.walk import walk


__all__ = [
    "PLACE",
    "Attribute",
    "Governor",
    "LateMarks",
    "Listed",
    "Mark",
    "Marking",
    "Place",
    "are_marked",
    "heard",
    "mark_all",
]


class Mark:
    """Base of a Recorder that stands among the listeners of an object, before the framework's own base.

    A copy of the object, a deep one too, stays in the installation. What is unpickled elsewhere is a
    listener of the framework's own kind, which does nothing, or `None` where there is no such kind.

    Attributes:
        copies: whether a deep copy of an object has the very same mark, or one of its own with runs
            of its own.
    """

    copies: ClassVar[Literal["share", "renew"]] = "renew"

    def __init__(self, hooks: Hooks[Any]) -> None:
        self.hooks = hooks
        self.runs: OpenRuns[Any] = OpenRuns(hooks)
        self.request_id = ""

    @property
    def active(self) -> bool:
        """Whether its installation is there."""
        return self.hooks.active

    def new_request(self) -> None:
        """The app asks anew, where the framework has no id for that: an object has one run at a time."""
        self.request_id = secrets.token_hex(8)

    def info(self, subject: Any) -> CallInfo:
        """What is known of a call that the object is about to make."""
        raise NotImplementedError

    def __deepcopy__(self, memo: object) -> Self:
        return self if self.copies == "share" else type(self)(self.hooks)

    def __reduce__(self) -> tuple[type, tuple[()]]:
        framework_kind = next(base for base in type(self).__mro__ if not issubclass(base, Mark))
        return type(None) if framework_kind is object else framework_kind, ()

    def __repr__(self) -> str:
        return f"<ce {self.hooks.adapter.name}>"


def heard(method: Callable[..., None]) -> Callable[..., None]:
    """For a mark's methods that the framework calls, plain functions: nothing of ours is raised there."""

    @same_kind(method)
    def call(self: Mark, /, *args: Any, **kwargs: Any) -> None:
        with self.hooks.guard(method.__name__):
            if self.hooks.active:
                method(self, *args, **kwargs)

    return call


class Place(Protocol):
    """Where objects of a framework carry their mark."""

    def mark_of(self, subject: Any) -> Mark | None:
        """The mark of an object, if its installation is there."""

    def put(self, subject: Any, mark: Mark) -> Detach:
        """Mark an object that has no such mark; gives the way back."""


class Listed:
    """Among an object's listeners: a list in this attribute."""

    def __init__(self, attribute: str) -> None:
        self._attribute = attribute

    def mark_of(self, subject: Any) -> Mark | None:
        marks = (
            entry for entry in getattr(subject, self._attribute, ()) if isinstance(entry, Mark)
        )
        return next((mark for mark in marks if mark.active), None)

    def put(self, subject: Any, mark: Mark) -> Detach:
        getattr(subject, self._attribute).append(mark)

        def undo() -> None:
            listeners = getattr(subject, self._attribute)
            for n in reversed(range(len(listeners))):
                if listeners[n] is mark:  # a listener of the app is never asked whether it is equal
                    del listeners[n]

        return undo


class Attribute:
    """Under this key of an object's `__dict__`, where no validation and no field of the framework is.

    Copies keep it, as they keep their other attributes; what is unpickled has `None` there.
    """

    def __init__(self, key: str) -> None:
        self._key = key

    def mark_of(self, subject: Any) -> Mark | None:
        mark = getattr(subject, "__dict__", {}).get(self._key)
        return mark if isinstance(mark, Mark) and mark.active else None

    def put(self, subject: Any, mark: Mark) -> Detach:
        vars(subject)[self._key] = mark

        def undo() -> None:
            if vars(subject).get(self._key) is mark:
                del vars(subject)[self._key]

        return undo


PLACE = Attribute("_ce_mark")
"""For all frameworks whose objects have a `__dict__`: no field shows it, and states and dumps do not look there."""


@dataclass(frozen=True, slots=True)
class Governor:
    """Who governs what objects of a framework do: the step around them, else their own mark.

    A step of another framework (whose tool runs an app of this one) knows nothing of these messages.

    Attributes:
        framework: the adapter's name.
    """

    framework: str

    def __call__(self, subject: Any) -> Owner | None:
        """Who governs a call of an object, if anybody does."""
        return self.step() or PLACE.mark_of(subject)

    def step(self, _: object = None) -> Step | None:
        """The innermost step here, where it is of this framework and an installation governs it."""
        step = governing_step()
        hooks = None if step is None else step.hooks
        return step if hooks is not None and hooks.adapter.name == self.framework else None


class LateMarks:
    """Marks of what was made after an installation: an app may make an agent for each request.

    They go with the installation, and nothing is kept alive until then, but what has no weak references.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._marks: ByIdentity[Mark] = ByIdentity()
        self._kept = ExitStack()

    def put(self, subject: Any, mark: Mark) -> None:
        undo = self._place.put(subject, mark)
        if not self._marks.put(subject, mark):
            self._kept.callback(undo)

    def take_off(self) -> None:
        for subject, mark in self._marks.items():
            if self._place.mark_of(subject) in (mark, None):
                self._place.put(subject, mark)()  # what takes it off again would hold the object
        self._kept.close()


def mark_all(
    subjects: Iterable[Any],
    make_mark: Callable[[Hooks[Any]], Mark],
    place: Place,
    hooks: Hooks[Any],
    *,
    agreed: bool,
) -> Detach:
    """Mark all of these objects, or none; for `Adapter.attach`, after the methods are wrapped.

    One that another installation governs stays that one's, until it goes (`share`).

    Raises:
        ConfigError: such an installation says something else, and the two must be `agreed`.
    """
    with ExitStack() as undo:
        for subject in subjects:
            if (other := place.mark_of(subject)) is None:
                undo.callback(place.put(subject, make_mark(hooks)))
            else:
                share(subject, other.hooks, hooks, agreed=agreed)
        return undo.pop_all().close


def are_marked(subjects: Iterable[Any], place: Place) -> bool:
    """Whether all of them are, by this installation or another; for `Adapter.is_attached`."""
    return all(place.mark_of(subject) is not None for subject in subjects)


class Marking:
    """How the objects of a framework are marked, and which of their methods ask a model.

    Each method is given the `messages` first. It gives the framework's message, or pieces of one, or
    a container of messages, of which `answers` tells the messages; whether it is to be awaited, and
    whether it is a generator, is seen in the function itself.

    Args:
        place: where an object has its mark; a text means the attribute with its listeners, a list.
        methods: names of such methods, by the class that defines them, or by a function that says
            whether an object is of the kind, where the framework looks for methods and not for classes.
            Methods that do something else (begin to work, run a tool) stand with their `Make`.
        text: the text of a piece.
        join: the message that pieces make; without it their texts are joined.
        streams: names of methods that ask at once and give pieces, though they are no generators.
        packages: where to look into objects; those of the classes without it.
        form: what else `governed` is to know, such as `answers`, `replace`, `callback`; and `describe`
            in place of `Mark.info`, where a call's own arguments tell of it.
    """

    def __init__(
        self,
        /,
        place: Place | str,
        methods: Mapping[Any, Iterable[str] | Mapping[str, Make]],
        text: Callable[[Any], str] = str,
        join: Callable[[list[Any]], Any] = lambda _: None,
        *,
        streams: Sequence[str] = (),
        packages: Sequence[str] = (),
        **form: Unpack[Form],
    ) -> None:
        self.place: Place = Listed(place) if isinstance(place, str) else place
        form.setdefault("describe", _describe)
        whole = governed(self.place.mark_of, text=text, join=join, **form)
        pieces = replace(whole, gives="stream")
        asking = dict.fromkeys(streams, pieces)
        self._makers = {
            kind: names if isinstance(names, Mapping) else {n: asking.get(n, whole) for n in names}
            for kind, names in methods.items()
        }
        own = {cls.__module__.partition(".")[0] for cls in methods if isinstance(cls, type)}
        self._packages = tuple(packages or own)
        self._patches = ClassPatches()

    def find_parts(self, target: object) -> list[Any]:
        """The objects in a target, itself included, that ask a model."""
        return [
            part
            for part in walk(target, self._packages)
            if any(is_of(part, kind) for kind in self._makers)
        ]

    def attach(
        self, target: object, hooks: Hooks[Any], make_mark: Callable[[Hooks[Any]], Mark]
    ) -> Detach:
        """Mark all that asks a model in a target, and wrap its methods; for `Adapter.attach` to give.

        Raises:
            ConfigError: another installation governs one of them, and says something else.
        """
        subjects = self.find_parts(target)
        with ExitStack() as undo:
            undo.callback(self._patches.hold(definitions(self._makers, subjects), hooks))
            hooks.attached = attached = _Attached(make_mark, LateMarks(self.place))
            undo.callback(attached.late.take_off)
            undo.callback(mark_all(subjects, make_mark, self.place, hooks, agreed=True))
            return undo.pop_all().close

    def extend(self, target: object, hooks: Hooks[Any]) -> None:
        """Mark what has come to a target since `attach`, too; it goes when that is undone.

        For methods of the framework by which an app begins to run, guarded: parts may be added and
        exchanged at any time. What somebody governs already stays his.
        """
        attached = hooks.attached
        if not isinstance(attached, _Attached) or not hooks.active:
            return
        new = [part for part in self.find_parts(target) if self.place.mark_of(part) is None]
        if new:
            self._patches.extend(definitions(self._makers, new), hooks)
        for part in new:
            attached.late.put(part, attached.make_mark(hooks))

    def is_attached(self, target: object) -> bool:
        """Whether all of that is marked, by this installation or another."""
        return are_marked(self.find_parts(target), self.place)


@dataclass(frozen=True, slots=True, eq=False)
class _Attached:
    """What an installation has marked, for what comes later."""

    make_mark: Callable[[Hooks[Any]], Mark]
    late: LateMarks


def _describe(call: ModelMethodCall) -> tuple[list[Any], CallInfo]:
    return call.messages, call.owner.info(call.subject)
