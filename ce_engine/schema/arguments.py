"""What a caller may hand to a public method: its annotations, seen to where the caller comes in (A-13)."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from enum import Enum
from functools import cache, partial, wraps
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from ce_engine.errors import SchemaValidationError
from ce_engine.schema.scope import Scope, as_scope
from ce_engine.schema.tool_runs import Retrieval, RetrievedDoc, TaskRun, ToolRun


T = TypeVar("T")
Check = Callable[[Any], Any]
"""Gives the value as the method is to have it; `TypeError` for one that does not fit."""

CURES = {
    "Message": 'write Message(role="user", content=...)',
    "Ref": "write Ref(evidence_id=...)",
    "Mapping": "write a dict",
    "Answer": 'write Answer(Message(role="assistant", content=...))',
}

FACTS = (ToolRun, Retrieval, RetrievedDoc, TaskRun)
"""What a host fills in by hand, and nothing else checks: its enums and parts are looked at."""


def doors(cls: type[T]) -> type[T]:
    """Check what callers hand to the public methods of a class, inherited ones too.

    A text in the place of a scope is the id of a session of no account and no user, and the word of an
    enum is its member. What does not fit its annotation raises `SchemaValidationError`, which names
    the parameter, what it takes and the type that was found, never the value.
    """
    for name, method in _public(cls):
        setattr(cls, name, _door(method))
    return cls


def scoped(cls: type) -> None:
    """Let the methods of a class that begin with a scope take the id of a session, too; nothing else is seen to."""
    for name, method in _public(cls):
        if list(inspect.signature(method).parameters)[1:2] == ["scope"]:
            setattr(cls, name, _scoped(method))


def _public(cls: type) -> list[tuple[str, Callable[..., Any]]]:
    there = inspect.getmembers(cls, inspect.isfunction)
    return [(n, f) for n, f in there if not n.startswith("_") and "is_door" not in vars(f)]


def _scoped(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def door(self: Any, scope: Scope | str, *args: Any, **more: Any) -> Any:
        return method(self, as_scope(scope), *args, **more)

    vars(door)["is_door"] = True
    return door


def _door(method: Callable[..., Any]) -> Callable[..., Any]:
    names = list(inspect.signature(method).parameters)

    @cache
    def checks() -> dict[str, tuple[Check, Any]]:
        hints = get_type_hints(method)
        return {name: (_check(hints[name]), hints[name]) for name in names if name in hints}

    def check_arguments(args: tuple[Any, ...], more: dict[str, Any]) -> list[Any]:
        checks_by_name = checks()
        for name in more.keys() & checks_by_name.keys():
            more[name] = _checked(method.__name__, name, *checks_by_name[name], more[name])
        return [
            _checked(method.__name__, name, *checks_by_name[name], value)
            if name in checks_by_name
            else value
            for name, value in zip(names, args, strict=False)
        ] + list(args[len(names) :])

    if inspect.iscoroutinefunction(method):

        @wraps(method)
        async def door(*args: Any, **more: Any) -> Any:
            return await method(*check_arguments(args, more), **more)

    else:

        @wraps(method)
        def door(*args: Any, **more: Any) -> Any:
            return method(*check_arguments(args, more), **more)

    vars(door)["is_door"] = True
    return door


def _checked(method: str, name: str, check: Check, hint: Any, value: Any) -> Any:
    try:
        return check(value)
    except TypeError as error:
        wanted_text, found_text = _worded(hint), str(error) or type(value).__name__
        cure = next((CURES[word] for word in CURES if word in wanted_text), "")
        raise SchemaValidationError(
            f"{method}({name}=...) takes {wanted_text}; found {found_text}"
            + (f": {cure}" if cure else "")
        ) from None


def _check(hint: Any) -> Check:
    """How a value of an annotation is seen to; what cannot be told is let through."""
    inner, origin = get_args(hint), get_origin(hint)
    if origin is not tuple and Scope in (hint, *inner):
        return as_scope
    shape = SHAPES.get(origin)
    if shape is not None:
        return shape(inner)
    return _instance(hint if origin is None else origin)


def _instance(kind: Any) -> Check:
    if not isinstance(kind, type) or getattr(kind, "_is_protocol", False):
        return lambda value: value
    kinds = (float, int) if kind is float else (kind,)
    parts = _parts(kind) if kind in FACTS else {}

    def check(value: Any) -> Any:
        if isinstance(value, kinds):
            for name, (part, hint) in parts.items():
                try:
                    part(getattr(value, name))
                except TypeError:
                    raise TypeError(f"one whose {name} is no {_worded(hint)}") from None
            return value
        try:
            if issubclass(kind, Enum):
                return kind(value)
        except ValueError:
            pass
        raise TypeError

    return check


def _parts(kind: type) -> dict[str, tuple[Check, Any]]:
    """The fields of a fact that are enums or facts, or hold some."""
    hints = get_type_hints(kind)
    kinds = {
        name: [h for h in (hint, *get_args(hint)) if isinstance(h, type)]
        for name, hint in hints.items()
    }
    return {
        name: (_check(hints[name]), hints[name])
        for name, candidates in kinds.items()
        if any(issubclass(candidate, (Enum, *FACTS)) for candidate in candidates)
    }


def _literal(inner: tuple[Any, ...]) -> Check:
    def check(value: Any) -> Any:
        if value not in inner:
            raise TypeError
        return value

    return check


def _union(inner: tuple[Any, ...]) -> Check:
    checks = [_check(hint) for hint in inner]

    def check(value: Any) -> Any:
        for inner_check in checks:
            with suppress(TypeError):
                return inner_check(value)
        raise TypeError

    return check


def _items(kind: Any, inner: tuple[Any, ...]) -> Check:
    item = _check(inner[0])

    def check(value: Any) -> Any:
        if isinstance(value, str | bytes) or not isinstance(value, kind):
            raise TypeError
        for n, element in enumerate(value):
            try:
                item(element)
            except TypeError:
                raise TypeError(f"{type(element).__name__} as item {n}") from None
        return value

    return check


def _tuple(inner: tuple[Any, ...]) -> Check:
    checks = [_check(hint) for hint in inner]

    def check(value: Any) -> Any:
        if not isinstance(value, tuple) or len(value) != len(checks):
            raise TypeError
        return tuple(inner_check(item) for inner_check, item in zip(checks, value, strict=True))

    return check


SHAPES: dict[Any, Callable[[tuple[Any, ...]], Check]] = {
    Union: _union,
    types.UnionType: _union,
    Literal: _literal,
    Sequence: partial(_items, Sequence),
    Collection: partial(_items, Collection),
    tuple: _tuple,
}


def _worded(hint: Any) -> str:
    """An annotation as a person reads it."""
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(_worded(part) for part in get_args(hint))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return f"{hint.__name__} ({', '.join(str(member.value) for member in hint)})"
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(str, get_args(hint)))
    if get_origin(hint) is tuple:
        return f"({', '.join(map(_worded, get_args(hint)))})"
    name = getattr(hint, "__name__", str(hint))
    inner = [part for part in get_args(hint) if isinstance(part, type)]
    if inner and get_origin(hint) is Sequence:
        return f"Sequence of {_worded(inner[0])}"
    return "None" if hint is types.NoneType else name
