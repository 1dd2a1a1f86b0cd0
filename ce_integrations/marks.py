"""Marks: ours among the listeners of a framework's objects, which say whose these are and hear what they do."""

from __future__ import annotations

import inspect
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any, Self

from ce_integrations.base import CallInfo, Detach, GovernedCall, Hooks, is_inside, share
from ce_integrations.patches import ClassPatches, definitions
from ce_integrations.runs import OpenRuns
from ce_integrations.walk import walk
from ce_integrations.wrappers import first_argument, same_kind


__all__ = ["Mark", "Marking", "heard"]


class Mark:
    """Base of a Recorder that stands among the listeners of an object, before the framework's own base.

    A copy of the object, a deep one too, stays in the installation. What is unpickled elsewhere is a
    listener of the framework's own kind, which does nothing.
    """

    def __init__(self, hooks: Hooks[Any]) -> None:
        self.hooks = hooks
        self.runs: OpenRuns[str] = OpenRuns(hooks)
        self.request_id = ""

    def new_request(self) -> None:
        """The app asks anew, where the framework has no id for that: an object has one run at a time."""
        self.request_id = secrets.token_hex(8)

    def info(self, subject: Any) -> CallInfo:
        """What is known of a call that the object is about to make."""
        raise NotImplementedError

    def __deepcopy__(self, memo: object) -> Self:
        return type(self)(self.hooks)  # whose runs are its own

    def __reduce__(self) -> tuple[type, tuple[()]]:
        theirs = (base for base in type(self).__mro__ if not issubclass(base, Mark))
        return next(theirs), ()

    def __repr__(self) -> str:
        return f"<ce {self.hooks.adapter.name}>"


def heard(method: Callable[..., None]) -> Callable[..., None]:
    """For a mark's methods that the framework calls, plain functions: nothing of ours is raised there."""

    @same_kind(method)
    def call(self: Mark, *args: Any, **kwargs: Any) -> None:
        with self.hooks.guard(method.__name__):
            if self.hooks.active:
                method(self, *args, **kwargs)

    return call


class Marking:
    """How the objects of a framework are marked, and which of their methods ask a model.

    Each method is given the `messages` first. It gives the framework's message, or chunks of one;
    whether it is to be awaited, and whether it streams, is seen in the function itself.

    Args:
        listeners: the attribute with an object's listeners, a list.
        methods: names of such methods, by the class that defines them.
        text: the text of a chunk.
        join: the message that chunks make; without it their texts are joined.
    """

    def __init__(
        self,
        listeners: str,
        methods: Mapping[type, Iterable[str]],
        text: Callable[[Any], str] = str,
        join: Callable[[list[Any]], Any] = lambda _: None,
    ) -> None:
        self._listeners = listeners
        self._makers = {cls: dict.fromkeys(names, self._governed) for cls, names in methods.items()}
        self._packages = tuple({cls.__module__.partition(".")[0] for cls in methods})
        self._text = text
        self._join = join
        self._patches = ClassPatches()

    def found(self, target: object) -> list[Any]:
        """The objects in a target, itself included, that ask a model."""
        classes = tuple(self._makers)
        return [each for each in walk(target, self._packages) if isinstance(each, classes)]

    def attach(
        self, target: object, hooks: Hooks[Any], make_mark: Callable[[Hooks[Any]], Mark]
    ) -> Detach:
        """Mark all that asks a model in a target, and wrap its methods; for `Adapter.attach` to give.

        An object that another installation governs stays that one's, until it goes.

        Raises:
            ConfigError: such an installation says something else.
        """
        subjects = self.found(target)
        with ExitStack() as undo:
            undo.callback(self._patches.hold(definitions(self._makers, subjects), hooks))
            for subject in subjects:
                if (other := self._mark_of(subject)) is not None:
                    share(subject, other.hooks, hooks, agreed=True)
                    continue
                mark = make_mark(hooks)
                getattr(subject, self._listeners).append(mark)
                undo.callback(self._unmark, subject, mark)
            return undo.pop_all().close

    def is_attached(self, target: object) -> bool:
        """Whether all of that is marked, by this installation or another."""
        return all(self._mark_of(subject) is not None for subject in self.found(target))

    def _unmark(self, subject: Any, mark: Mark) -> None:
        listeners = getattr(subject, self._listeners)
        for n in reversed(range(len(listeners))):
            if listeners[n] is mark:  # a listener of the app is never asked whether it is equal
                del listeners[n]

    def _mark_of(self, subject: Any) -> Mark | None:
        marks = (each for each in getattr(subject, self._listeners, ()) if isinstance(each, Mark))
        return next((mark for mark in marks if mark.hooks.active), None)

    def _governed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """The wrapper of a method: the engine is asked first, and what comes of it is recorded."""
        drive = self._drive(original)

        @same_kind(original)
        def ask(subject: Any, *args: Any, **kwargs: Any) -> Any:
            mark = self._mark_of(subject)
            if mark is None or is_inside(subject):
                return original(subject, *args, **kwargs)
            messages, rest, named = first_argument(args, kwargs, "messages")

            def describe() -> list[tuple[list[Any], CallInfo]]:
                info = mark.info(subject)
                info.mode = original.__name__
                return [(messages if isinstance(messages, list) else list(messages), info)]

            call = GovernedCall(mark.hooks, subject, [messages], describe, lambda _, sent: sent)
            return drive(call, lambda goes: original(subject, goes[0], *rest, **named))

        return ask

    def _drive(
        self, original: Callable[..., Any]
    ) -> Callable[[GovernedCall[Any], Callable[..., Any]], Any]:
        """How a call goes, by the kind of function that it goes to."""
        if inspect.isasyncgenfunction(original):
            return lambda call, start: call.astream(start, self._text, self._join)
        if inspect.isgeneratorfunction(original):
            return lambda call, start: call.stream(start, self._text, self._join)
        if inspect.iscoroutinefunction(original):
            return lambda call, ask: call.arun(ask, _answer)
        return lambda call, ask: call.run(ask, _answer)


def _answer(result: Any) -> Iterator[tuple[Any, None]]:
    yield result, None
