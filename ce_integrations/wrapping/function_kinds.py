"""What wrappers of a framework's methods share: they stay the kind of function that they wrap."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import FunctionType
from typing import Any


__all__ = [
    "Arguments",
    "Around",
    "MutedMethod",
    "as_function",
    "bound",
    "first_argument",
    "read_once",
    "run_within",
    "same_kind",
    "within",
]

Function = Callable[..., Any]


def _nothing(_: object) -> None:
    pass


def same_kind(original: Function) -> Callable[[Function], Function]:
    """Like `functools.wraps`; the wrapper is a generator or coroutine function where `original` is one.

    Frameworks and apps ask `inspect` for the kind before they call. What is decorated takes the
    arguments and gives what a call of `original` gives. A generator's runs at the first `next`, and
    `send`, `throw` and `close` reach what it gave.
    """

    def wrap(wrapper: Function) -> Function:
        return functools.wraps(original)(_of_kind(original, wrapper))

    return wrap


def _of_kind(original: Function, wrapper: Function) -> Function:
    def plain(*args: Any, **kwargs: Any) -> Any:
        return wrapper(*args, **kwargs)

    def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        return (yield from wrapper(*args, **kwargs))

    async def coroutine(*args: Any, **kwargs: Any) -> Any:
        return await wrapper(*args, **kwargs)

    if inspect.isgeneratorfunction(original):
        return generator
    if inspect.isasyncgenfunction(original):
        return _async_generator(wrapper, nullcontext)
    return coroutine if inspect.iscoroutinefunction(original) else plain


def bound(original: Any, subject: object) -> Function:
    """A class's attribute as `subject` would give it: Python asks descriptors, and functions are some.

    Instrumentation libraries leave others in their place (`wrapt.FunctionWrapper`), which lose sight
    of the object where they are called with it as an argument.
    """
    get = getattr(type(original), "__get__", None)
    return original if get is None else get(original, subject, type(subject))  # type: ignore[no-any-return]  # whatever it is


def as_function(original: Any) -> Any:
    """A method that is no plain function as one of the same kind, called with its object first."""
    if type(original) is FunctionType or isinstance(original, staticmethod | type):
        return original
    if not callable(original):  # a property and the like
        return original

    @same_kind(original)
    def call(subject: object, /, *args: Any, **kwargs: Any) -> Any:
        return bound(original, subject)(*args, **kwargs)

    return call


Arguments = tuple[tuple[Any, ...], dict[str, Any]]

Around = Callable[[], AbstractContextManager[Any]]
"""Gives a context; where what that gives is `Arguments`, they are those to call with."""


def within(enter: Callable[..., AbstractContextManager[Any]]) -> Callable[[Function], Function]:
    """Makes wrappers whose original runs inside `enter(original, *args, **kwargs)`.

    What it gives is awaited inside, too, and so is each step of a generator: entered anew, and never
    open while the generator waits. The context may give other arguments (`Arguments`) to call it with.
    For one that is made once a call, such as a step, there is `run_within`, or `steps.in_step`.
    """

    def make(original: Function) -> Function:
        @same_kind(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            return run_within(partial(enter, original, *args, **kwargs), original, args, kwargs)

        return call

    return make


def run_within(
    around: Around,
    original: Function,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    lasting: Callable[[], AbstractContextManager[None]] = nullcontext,
    heard: Callable[[Any], object] = _nothing,
) -> Any:
    """Call `original`, and await or step through what it gives, each time inside a new `around()`.

    For wrappers that make something once a call, which `within` could not hand from step to step. A
    generator is inside one `lasting()`, too, from its first step to its end, and what it gives is `heard`.
    """
    with around() as arguments:
        positional, keywords = arguments if isinstance(arguments, tuple) else (args, kwargs)
        result = original(*positional, **keywords)
    if inspect.isawaitable(result):
        return _awaited(result, around)
    if inspect.isgenerator(result):
        return _steps(result, around, lasting, heard)
    if inspect.isasyncgen(result):
        return _async_generator(lambda: result, around, lasting, heard)()
    return result


async def _awaited(result: Awaitable[Any], around: Around) -> Any:
    with around():
        return await result


def _steps(
    source: Generator[Any, Any, Any],
    around: Around,
    lasting: Callable[[], AbstractContextManager[None]],
    heard: Callable[[Any], object],
) -> Generator[Any, Any, Any]:
    step = partial(source.send, None)
    with lasting():
        while True:
            with around():
                try:
                    value = step()
                except StopIteration as end:
                    return end.value
            heard(value)
            try:
                reply = yield value
            except GeneratorExit:
                with around():
                    source.close()
                raise
            except BaseException as error:  # noqa: BLE001 - handed on, whatever it is
                step = partial(source.throw, error)
            else:
                step = partial(source.send, reply)


def _async_generator(
    start: Function,
    around: Around,
    lasting: Callable[[], AbstractContextManager[None]] = nullcontext,
    heard: Callable[[Any], object] = _nothing,
) -> Function:
    async def async_generator(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        # What `yield from` is for generators (PEP 380), which Python does not have for these.
        source = start(*args, **kwargs)
        step = partial(source.asend, None)
        with lasting():
            while True:
                with around():
                    try:
                        value = await step()
                    except StopAsyncIteration:
                        return
                heard(value)
                try:
                    reply = yield value
                except GeneratorExit:
                    with around():
                        await source.aclose()
                    raise
                except BaseException as error:  # noqa: BLE001 - handed on, whatever it is
                    step = partial(source.athrow, error)
                else:
                    step = partial(source.asend, reply)

    return async_generator


class MutedMethod:
    """Stands in for an object one of whose methods is to do nothing for now."""

    def __init__(self, subject: object, method: str) -> None:
        self._subject = subject
        vars(self)[method] = lambda *_, **__: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._subject, name)


def read_once(value: Any) -> Any:
    """What can be read once as a list, for us and whom it is for; anything else is the very same."""
    return list(value) if hasattr(type(value), "__next__") else value


def first_argument(
    args: tuple[Any, ...], kwargs: dict[str, Any], *names: str
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """(the first argument, other positional ones, named ones), by whichever of its `names` it came."""
    if args:
        return args[0], args[1:], kwargs
    name = next((name for name in names if name in kwargs), "")
    return kwargs.get(name), (), {key: value for key, value in kwargs.items() if key != name}
