"""Finds what an object of a framework holds or will call, without evaluating anything."""

from __future__ import annotations

import functools
import sys
import sysconfig
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any


__all__ = ["walk"]

MAX_DEPTH = 16
MAX_OBJECTS = 50_000
"""Bounds on the search; what lies beyond is reached by inherited callbacks, if at all."""

VECTOR = 16
"""What begins and ends with a number and is no shorter is a vector; a call's arguments may begin so, too."""

_LEAVES = (str, bytes, int, float, bool, type(None), type, ModuleType, BuiltinFunctionType)
_LIBRARIES = tuple(
    {str(Path(sysconfig.get_path(name))) for name in ("stdlib", "purelib", "platlib")}
)


def walk(
    root: object,
    packages: tuple[str, ...],
    more: Callable[[object], Iterable[object]] = lambda _: (),
) -> Iterator[object]:
    """Everything reachable from `root`, itself included, each object once.

    Objects of `packages` (beginnings of module names) are looked into, and callables: what they close
    over, and globals that the app's own name. Other objects are looked into one step deep. `more`
    gives what an object uses and does not hold, such as functions that are registered elsewhere.
    """
    seen: dict[int, object] = {}  # holds on to what it has seen, so that no id is used twice
    waiting: deque[tuple[object, int, bool]] = deque([(root, 0, True)])
    while waiting and len(seen) < MAX_OBJECTS:
        subject, depth, is_own = waiting.popleft()
        if _is_leaf(subject) or id(subject) in seen:
            continue
        seen[id(subject)] = subject
        yield subject
        if depth < MAX_DEPTH:
            for child, child_is_own in _children(subject, packages, is_own=is_own):
                if not _is_leaf(child):
                    waiting.append((child, depth + 1, child_is_own))
            waiting.extend((child, depth + 1, True) for child in more(subject))


def _is_leaf(subject: object) -> bool:
    """Whether nothing is in it that could ask a model: vectors are most of what an index holds."""
    if isinstance(subject, list | tuple) and len(subject) >= VECTOR:
        return isinstance(subject[0], int | float) and isinstance(subject[-1], int | float)
    return isinstance(subject, _LEAVES)


def _children(
    subject: Any, packages: tuple[str, ...], *, is_own: bool
) -> Iterator[tuple[object, bool]]:
    """What an object holds, and whether that is the framework's or a callable's own (`is_own`)."""
    if isinstance(subject, Mapping):
        values: Iterable[object] = list(subject.values()) if isinstance(subject, dict) else ()
        yield from ((value, is_own) for value in values)
    elif isinstance(subject, list | tuple | set | frozenset | deque):
        yield from ((value, is_own) for value in list(subject))
    elif isinstance(subject, FunctionType):
        yield from ((value, True) for value in _of_function(subject))
    elif isinstance(subject, MethodType):
        yield from ((subject.__self__, True), (subject.__func__, True))
    elif isinstance(subject, functools.partial):
        yield from ((value, True) for value in (subject.func, subject.args, subject.keywords))
    elif _is_of(subject, packages):
        yield from ((value, True) for value in _attributes(subject))
    elif is_own:
        # An object of the app, held by the framework or by a function: one step, no further.
        yield from ((value, False) for value in _attributes(subject))


def _is_of(subject: object, packages: tuple[str, ...]) -> bool:
    """Whether its class is of the framework, or derived from one: a user's own tool or node."""
    return any(base.__module__.startswith(packages) for base in type(subject).__mro__)


def _attributes(subject: object) -> Iterator[object]:
    """Values of instance attributes and slots, never of properties."""
    for name in ("__dict__", "__pydantic_private__"):
        with suppress(Exception):  # a property of that name may raise anything
            # Not by `getattr`: a proxy would ask what it stands for.
            yield from list((object.__getattribute__(subject, name) or {}).values())
    for cls in type(subject).__mro__:
        slots = vars(cls).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            member = vars(cls).get(name)
            if isinstance(member, MemberDescriptorType):
                try:
                    yield member.__get__(subject, cls)
                except AttributeError:  # not set
                    continue


def _of_function(function: FunctionType) -> Iterator[object]:
    """What a function will use: closure, defaults, what it wraps, and globals by name where it is the app's."""
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not filled yet
            continue
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    yield getattr(function, "__wrapped__", None)
    if not _is_library(function.__code__.co_filename):
        for name in _names(function.__code__):
            yield function.__globals__.get(name)


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _is_library(filename: str) -> bool:
    return filename.startswith((*_LIBRARIES, "<frozen", sys.prefix))
