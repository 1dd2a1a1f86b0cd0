"""Wraps methods that ask a model: the engine is asked first, and what comes of it is recorded."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypedDict

from ce_engine import Usage
from ce_integrations.calls.governed_call import GovernedCall
from ce_integrations.calls.open_turn import is_inside
from ce_integrations.identity.session import CallInfo
from ce_integrations.wrapping.function_kinds import first_argument, read_once, same_kind


__all__ = ["Form", "Gives", "ModelMethodCall", "Owner", "as_one_text", "governed", "schema_of"]

Gives = Literal["whole", "stream", "astream"]
"""An answer, or its pieces."""

Answers = Callable[[Any], Iterable[tuple[Any, Usage | None]]]
"""The messages and usage in a whole result."""


class Owner(Protocol):
    """Who governs a call: a mark, or what else an adapter knows it by."""

    @property
    def hooks(self) -> Any:
        """The `Hooks` of its installation."""


@dataclass(slots=True)
class ModelMethodCall:
    """A call of a method that asks a model, as the app made it.

    Attributes:
        owner: who governs it.
        subject: the object whose method was called.
        argument: its messages, or the one text that stands for them.
        positional: the arguments behind them.
        keywords: its other arguments by name.
        mode: the method's name.
        memo: whatever `describe` keeps for `replace`.
    """

    owner: Any
    subject: Any
    argument: Any
    positional: tuple[Any, ...]
    keywords: Mapping[str, Any]
    mode: str
    memo: Any = None

    @property
    def messages(self) -> list[Any]:
        """Its messages as a list: the very same where it is one."""
        return self.argument if isinstance(self.argument, list) else list(self.argument)

    def by_name(self, *names: str) -> dict[str, Any]:
        """All other arguments by their names; `names` are those of the ones behind the messages."""
        return {**dict(zip(names, self.positional, strict=False)), **self.keywords}


def _as_sent(_: ModelMethodCall, messages: list[Any]) -> Any:
    return messages


def _is_answer(result: Any) -> Iterator[tuple[Any, None]]:
    yield result, None


class Form(TypedDict, total=False):
    """What a framework's methods take and give, in the words of `governed`."""

    describe: Callable[[ModelMethodCall], tuple[list[Any], CallInfo]]
    names: Sequence[str]
    replace: Callable[[ModelMethodCall, list[Any]], Any]
    answers: Answers
    is_last: Callable[[Any], bool]
    callback: str


@dataclass(frozen=True, slots=True)
class governed:  # noqa: N801 - reads like the maker of wrappers that it is
    """Makes the wrappers of methods that are given messages first, by place or by name.

    Generators, async generators and coroutines are seen in the function itself; `gives` tells the
    rest: `"stream"` for a plain function that asks at once and gives an iterator, and for a coroutine
    that gives an async one; `"astream"` for a plain function whose async iterator asks when it is
    read. A call that nobody governs, that is inside one of the same object, or that is given no
    messages goes to the original as it is.

    Attributes:
        find: who governs a call of the object, if anybody does; runs on every call, unguarded.
        describe: the messages of the call, `call.messages` as a rule, and what is known of it; the
            `mode` is set here. Guarded, like all that follow.
        names: those of the first argument.
        replace: the argument with other messages.
        answers: the messages and usage in a whole result.
        text: the text of a piece.
        join: the message that pieces make; without it their texts are joined.
        is_last: whether the app may ask for no more after a piece.
        gives: what a call gives, once it is awaited where it is to be.
        callback: the argument by which an app is pushed pieces of what is given whole, and the
            object's attribute that stands for it where a call has none; `text` is theirs, too.
    """

    find: Callable[[Any], Owner | None]
    describe: Callable[[ModelMethodCall], tuple[list[Any], CallInfo]]
    names: Sequence[str] = ("messages",)
    replace: Callable[[ModelMethodCall, list[Any]], Any] = _as_sent
    answers: Answers = _is_answer
    text: Callable[[Any], str] = str
    join: Callable[[list[Any]], Any] = lambda _: None
    is_last: Callable[[Any], bool] = lambda _: False
    gives: Gives = "whole"
    callback: str = ""

    def __call__(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Make the wrapper of a method (a `Make`)."""
        way = _way(original, self.gives)
        whole = way in ("run", "arun")
        place = _place_behind_the_first(original, self.callback)
        tools_place = _place_behind_the_first(original, "tools")
        readers: tuple[Any, ...] = (
            (self.answers,) if whole else (self.text, self.join, self.is_last)
        )

        @same_kind(original)
        def ask(subject: Any, /, *args: Any, **kwargs: Any) -> Any:
            owner = self.find(subject)
            argument, positional, keywords = first_argument(args, kwargs, *self.names)
            if owner is None or argument is None or is_inside(subject):
                return original(subject, *args, **kwargs)
            # Not guarded: what the app's own iterator raises is the app's.
            argument = read_once(argument)
            positional, keywords = _read_tools(positional, keywords, tools_place)
            method_call = ModelMethodCall(
                owner, subject, argument, positional, keywords, original.__name__
            )
            call = self._governed(method_call)

            def start(goes: Sequence[Any]) -> Any:
                others, by_name = (
                    self._with_listener(call, method_call, place)
                    if self.callback
                    else (positional, keywords)
                )
                if args:
                    return original(subject, goes[0], *others, **by_name)
                (name,) = kwargs.keys() - keywords.keys()
                return original(subject, **{**by_name, name: goes[0]})

            return getattr(call, way)(start, *readers)

        return ask

    def _with_listener(
        self, call: GovernedCall[Any], method_call: ModelMethodCall, place: int | None
    ) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        """The other arguments of a call, with a callback from which we hear the pieces, too.

        The object's own is given to a method that takes one; others would not know what to do with it.
        """
        positional, keywords = method_call.positional, method_call.keywords
        placed = () if place is None else positional[place : place + 1]
        callback = placed[0] if placed else keywords.get(self.callback)
        if callback is None and place is not None:
            callback = getattr(method_call.subject, self.callback, None)
        if callback is None:
            return positional, keywords
        listener = call.pushing(callback, self.text)
        if placed:
            others = (listener if n == place else argument for n, argument in enumerate(positional))
            return tuple(others), keywords
        return positional, {**keywords, self.callback: listener}

    def _governed(self, method_call: ModelMethodCall) -> GovernedCall[Any]:
        def describe() -> list[tuple[list[Any], CallInfo]]:
            natives, info = self.describe(method_call)
            info.mode = method_call.mode
            return [(natives, info)]

        return GovernedCall(
            method_call.owner.hooks,
            method_call.subject,
            [method_call.argument],
            describe,
            lambda _, messages: self.replace(method_call, messages),
        )


def _place_behind_the_first(original: Callable[..., Any], name: str) -> int | None:
    """Where an argument of a method stands behind its object and the messages; `None` if it has none."""
    names = list(inspect.signature(original).parameters)[2:] if name else []
    return names.index(name) if name in names else None


def _read_tools(
    positional: tuple[Any, ...], keywords: dict[str, Any], place: int | None
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The other arguments of a call with its tools, which both we and the model look at, as a list."""
    if place is not None and place < len(positional):
        tools = read_once(positional[place])
        return (*positional[:place], tools, *positional[place + 1 :]), keywords
    tools = keywords.get("tools")
    return positional, keywords if tools is None else {**keywords, "tools": read_once(tools)}


def _way(original: Callable[..., Any], gives: Gives) -> str:
    """The method of a `GovernedCall` by which a call of such a function goes."""
    if inspect.isasyncgenfunction(original):
        return "astream"
    if inspect.isgeneratorfunction(original):
        return "stream"
    if inspect.iscoroutinefunction(original):
        return "arun" if gives == "whole" else "aopen"
    return {"whole": "run", "stream": "open", "astream": "astream"}[gives]


def as_one_text(messages: Iterable[Any], text: Callable[[Any], str]) -> str:
    """Messages as one text, for a model that is given no more; one message stays its own text."""
    return "\n\n".join(map(text, messages))


def schema_of(schema: Any) -> Mapping[str, Any] | None:
    """The JSON schema of a structured answer that a call asks for: one, or a class of pydantic's."""
    if isinstance(schema, type) and hasattr(schema, "model_json_schema"):
        schema = schema.model_json_schema()
    return schema if isinstance(schema, Mapping) else None
