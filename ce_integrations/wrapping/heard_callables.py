"""An app's callable as another one each call of which is heard: of the same kind, with all that the app gave it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from types import FunctionType
from typing import Any


_OURS = frozenset(
    (
        *("__new__", "__init__", "__init_subclass__", "__subclasshook__", "__class_getitem__"),
        *("__getattr__", "__del__", "__class__", "__dict__", "__weakref__", "__slots__"),
    )
)
"""What makes classes and objects, ends them and looks their attributes up: the object's own does that, once."""


def heard_callable(
    subject: Callable[..., Any], around: Callable[..., AbstractContextManager[None]]
) -> Callable[..., Any]:
    """A callable that calls `subject` inside `around(*args, **kwargs)`, awaited where it is to be.

    Of a function or a class it is a function. Of an object it stands in for that: attributes and operators are the
    object's own, and so is its class for who asks by `isinstance`.

    Raises:
        Exception: whatever such an object raises that does not let itself be looked at.
    """
    kind = type(subject)
    is_function = kind is FunctionType or inspect.isclass(subject)
    method = subject if is_function else kind.__call__
    first = 0 if is_function else 1  # a method's is the object that stands in

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        with around(*args[first:], **kwargs):
            return subject(*args[first:], **kwargs)

    @functools.wraps(method)
    async def acall(*args: Any, **kwargs: Any) -> Any:
        with around(*args[first:], **kwargs):
            return await subject(*args[first:], **kwargs)

    own_call = acall if _is_awaited(subject) or _is_awaited(method) else call
    return own_call if is_function else _stand_in(subject, own_call)


def _is_awaited(function: object) -> bool:
    with suppress(Exception):  # `inspect` asks for names that an object may not tell
        return inspect.iscoroutinefunction(function)
    return False


def _stand_in(subject: Any, call: Callable[..., Any]) -> Any:
    def get(self: Any, name: str) -> Any:
        return object.__getattribute__(self, name) if name == "__call__" else getattr(subject, name)

    kind = type(subject)
    names = {name for base in kind.__mro__ for name in vars(base) if _is_operator(name)}
    operators = {name: _operator(subject, getattr(kind, name)) for name in names}
    own_operators = {
        "__call__": call,
        "__getattribute__": get,
        "__setattr__": lambda _, name, value: setattr(subject, name, value),
        "__delattr__": lambda _, name: delattr(subject, name),
    }
    return type(kind.__name__, (), {**operators, **own_operators})()


def _is_operator(name: str) -> bool:
    return name.startswith("__") and name.endswith("__") and name not in _OURS


def _operator(subject: Any, original: Any) -> Any:
    """An operator of a class, of the object that is stood in for; what is none is as it is."""
    if not callable(original):  # `None` is one that the class does not have
        return original
    return lambda _, /, *args, **kwargs: original(subject, *args, **kwargs)
