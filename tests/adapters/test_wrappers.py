"""Wrappers of methods: the kind of function stays, and whatever the caller does reaches the original."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import pytest

from ce_integrations.wrapping.function_kinds import (
    as_function,
    bound,
    first_argument,
    run_within,
    same_kind,
    within,
)
from ce_integrations.wrapping.patches import ClassPatches
from tests.adapters.spied import Spied


ASKS: list[Callable[[Any], bool]] = [
    inspect.isgeneratorfunction,
    inspect.isasyncgenfunction,
    inspect.iscoroutinefunction,
    asyncio.iscoroutinefunction,
]

KINDS: list[Callable[[Any], bool]] = [inspect.isgenerator, inspect.isasyncgen]

HEARD: list[Any] = []

INSIDE: ContextVar[str] = ContextVar("inside", default="")


def plain(x: int) -> int:
    return x


async def coroutine(x: int) -> int:
    return x


def generator(x: int) -> Generator[Any, Any, str]:
    try:
        while True:
            try:
                HEARD.append((yield x))
            except KeyError as error:
                x = error.args[0]
                if x < 0:
                    return "end"
    finally:
        HEARD.append("closed")


async def async_generator(x: int) -> AsyncGenerator[Any, Any]:
    try:
        while True:
            try:
                HEARD.append((yield x))
            except KeyError as error:
                x = error.args[0]
                if x < 0:
                    return
    finally:
        await asyncio.sleep(0)
        HEARD.append("closed")


@pytest.fixture(autouse=True)
def _forget() -> None:
    HEARD.clear()


def wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
    @same_kind(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        return original(*args, **kwargs)

    return call


@pytest.mark.parametrize("original", [plain, coroutine, generator, async_generator])
def test_the_kind_and_the_names_stay(original: Any) -> None:
    ours = wrapped(original)
    assert [ask(ours) for ask in ASKS] == [ask(original) for ask in ASKS]
    assert (ours.__name__, inspect.signature(ours)) == (
        original.__name__,
        inspect.signature(original),
    )


def test_a_generator_hears_all() -> None:
    pieces = wrapped(generator)(1)
    assert [next(pieces), pieces.send("hello"), pieces.throw(KeyError(2))] == [1, 1, 2]
    with pytest.raises(StopIteration) as end:
        pieces.throw(KeyError(-1))
    assert end.value.value == "end"
    pieces = wrapped(generator)(x=3)
    assert next(pieces) == 3
    with pytest.raises(ZeroDivisionError):
        pieces.throw(ZeroDivisionError)
    pieces = wrapped(generator)(4)
    next(pieces)
    pieces.close()
    assert HEARD == ["hello", "closed", "closed", "closed"]


async def test_an_async_generator_hears_all() -> None:
    pieces = wrapped(async_generator)(1)
    taken = [await anext(pieces), await pieces.asend("hello"), await pieces.athrow(KeyError(2))]
    assert taken == [1, 1, 2]
    with pytest.raises(StopAsyncIteration):
        await pieces.athrow(KeyError(-1))
    pieces = wrapped(async_generator)(x=3)
    assert await anext(pieces) == 3
    with pytest.raises(ZeroDivisionError):
        await pieces.athrow(ZeroDivisionError)
    pieces = wrapped(async_generator)(4)
    await anext(pieces)
    await pieces.aclose()
    assert HEARD == ["hello", "closed", "closed", "closed"]


async def test_a_generator_that_is_not_begun_runs_nothing() -> None:
    wrapped(generator)(1).close()
    await wrapped(async_generator)(1).aclose()
    assert HEARD == []


async def test_what_runs_within() -> None:
    inside: ContextVar[str] = ContextVar("inside", default="outside")

    @contextmanager
    def entered(original: Any, word: str, /) -> Any:
        token = inside.set(f"{original.__name__} {word}")
        try:
            yield
        finally:
            inside.reset(token)

    def now(word: str) -> str:
        return f"{word}: {inside.get()}"

    async def later(word: str) -> str:
        await asyncio.sleep(0)
        return now(word)

    def handed_on(word: str) -> Any:
        return later(word)

    assert within(entered)(now)("a") == "a: now a"
    assert await within(entered)(later)("b") == "b: later b"
    assert await within(entered)(handed_on)("c") == "c: handed_on c"
    assert inside.get() == "outside"


def test_the_first_argument_comes_by_place_or_by_name() -> None:
    assert first_argument((1, 2), {"x": 3}, "input") == (1, (2,), {"x": 3})
    assert first_argument((), {"x": 3, "input": 1}, "input") == (1, (), {"x": 3})
    assert first_argument((), {"prompts": 1}, "messages", "prompts") == (1, (), {})
    assert first_argument((), {}, "input") == (None, (), {})


def test_a_context_may_give_other_arguments() -> None:
    @contextmanager
    def doubled(_: object, n: int) -> Any:
        yield (2 * n,), {}

    def same(n: int) -> int:
        return n

    assert within(doubled)(same)(2) == 4


class Loose:
    """Something to call that is no function."""

    def __call__(self, n: int) -> int:
        return n


def test_a_method_is_called_as_python_does() -> None:
    seen: list[Any] = []

    class Host:
        def own(self, n: int) -> tuple[Any, int]:
            return self, n

        traced = Spied(own, lambda *told: seen.append(told))
        loose = Loose()  # no descriptor: nobody gives it the object

    host, found = Host(), vars(Host)
    assert bound(found["own"], host)(2) == (host, 2)
    assert bound(found["traced"], host)(2) == (host, 2)
    assert seen == [("own", host)]
    assert bound(found["loose"], host)(2) == 2
    assert as_function(found["own"]) is found["own"]
    assert as_function(found["traced"])(host, n=2) == (host, 2)


async def test_what_is_wrapped_of_a_class_is_given_as_a_function_of_its_kind() -> None:
    seen: list[Any] = []
    traced = {each.__name__: each for each in (plain, coroutine, generator, async_generator)}
    held: dict[str, Any] = {}

    class Host:
        def __init__(self, x: int) -> None:
            self.x = x

    def hold(original: Any) -> Any:
        held[original.__name__] = original
        return original

    for name, each in traced.items():
        setattr(Host, name, Spied(each, lambda *told: seen.append(told)))
    release = ClassPatches().hold([(Host, name, hold) for name in traced], traced["plain"])
    assert [[ask(held[name]) for ask in ASKS] for name in traced] == [
        [ask(each) for ask in ASKS] for each in traced.values()
    ]
    host: Any = Host(1)
    assert host.plain() is host
    assert await host.coroutine() is host
    assert next(host.generator()) is host
    assert await anext(host.async_generator()) is host
    assert seen == [(name, host) for name in traced]
    release()
    assert type(vars(Host)["plain"]) is Spied


@contextmanager
def counted(original: Any, *_: Any, **__: Any) -> Iterator[None]:
    """Notes where it is entered and left, and says so to what runs inside."""
    token = INSIDE.set(original.__name__)
    HEARD.append("in")
    try:
        yield
    finally:
        HEARD.append("out")
        INSIDE.reset(token)


def seeing(n: int) -> Generator[Any, Any, str]:
    try:
        yield from map(_seen, range(n))
        HEARD.append((yield "last"))
    except KeyError:
        yield "caught in " + INSIDE.get()
    finally:
        HEARD.append("closed in " + INSIDE.get())
    return "end"


async def aseeing(n: int) -> AsyncGenerator[Any, Any]:
    try:
        for each in range(n):
            await asyncio.sleep(0)
            yield _seen(each)
        HEARD.append((yield "last"))
    except KeyError:
        yield "caught in " + INSIDE.get()
    finally:
        await asyncio.sleep(0)
        HEARD.append("closed in " + INSIDE.get())


def _seen(n: int) -> tuple[int, str]:
    return n, INSIDE.get()


def test_each_step_of_a_generator_runs_within() -> None:
    pieces: Any = within(counted)(seeing)(1)
    assert [ask(pieces) for ask in KINDS] == [True, False]
    assert (next(pieces), INSIDE.get()) == ((0, "seeing"), "")
    assert (next(pieces), INSIDE.get()) == ("last", "")
    with pytest.raises(StopIteration) as end:
        pieces.send("hello")
    assert (end.value.value, INSIDE.get()) == ("end", "")
    assert HEARD[-4:] == ["in", "hello", "closed in seeing", "out"]
    assert HEARD.count("in") == HEARD.count("out") == 4


async def test_each_step_of_an_async_generator_runs_within() -> None:
    pieces: Any = within(counted)(aseeing)(1)
    assert [ask(pieces) for ask in KINDS] == [False, True]
    assert (await anext(pieces), INSIDE.get()) == ((0, "aseeing"), "")
    assert (await anext(pieces), INSIDE.get()) == ("last", "")
    with pytest.raises(StopAsyncIteration):
        await pieces.asend("hello")
    assert HEARD[-4:] == ["in", "hello", "closed in aseeing", "out"]
    assert HEARD.count("in") == HEARD.count("out") == 4


async def test_what_is_thrown_at_a_generator_and_its_end_come_within() -> None:
    pieces, apieces = within(counted)(seeing)(9), within(counted)(aseeing)(9)
    next(pieces), await anext(apieces)
    assert pieces.throw(KeyError()) == "caught in seeing"
    assert await apieces.athrow(KeyError()) == "caught in aseeing"
    HEARD.clear()
    pieces.close()
    await apieces.aclose()
    assert HEARD == ["in", "closed in seeing", "out", "in", "closed in aseeing", "out"]
    assert INSIDE.get() == ""


def test_what_a_plain_function_gives_to_be_read_runs_within() -> None:
    def begun(n: int) -> Generator[Any, Any, str]:
        HEARD.append("begun in " + INSIDE.get())
        return seeing(n)

    assert list(within(counted)(begun)(1)) == [(0, "begun"), "last"]
    assert HEARD[:3] == ["in", "begun in begun", "out"]


async def test_one_thing_may_be_entered_for_each_step() -> None:
    """What `within` cannot say: made once for the call, whatever it takes."""
    made: list[str] = []

    def wrapper(original: Any) -> Any:
        @same_kind(original)
        def call(*args: Any) -> Any:
            made.append(original.__name__)
            return run_within(functools.partial(counted, original), original, args, {})

        return call

    assert len(list(wrapper(seeing)(3))) == len([p async for p in wrapper(aseeing)(3)]) == 4
    assert made == ["seeing", "aseeing"]


@contextmanager
def noted() -> Iterator[None]:
    HEARD.append("begin")
    try:
        yield
    except BaseException as error:
        HEARD.append(type(error).__name__)
        raise
    HEARD.append("end")


def ran(original: Any, heard: list[Any]) -> Any:
    around = functools.partial(counted, original)
    return run_within(around, original, (1,), {}, noted, heard.append)


async def test_a_generator_lasts_from_its_first_step_to_its_end_and_is_heard() -> None:
    heard: list[Any] = []
    pieces, apieces = ran(seeing, heard), ran(aseeing, heard)
    assert "begin" not in HEARD
    assert list(pieces) == [(0, "seeing"), "last"]
    assert [piece async for piece in apieces] == [(0, "aseeing"), "last"]
    assert heard == [(0, "seeing"), "last", (0, "aseeing"), "last"]
    assert [each for each in HEARD if each in ("begin", "end")] == ["begin", "end"] * 2


async def test_how_a_generator_ended_is_known() -> None:
    left, aleft, broken = ran(seeing, []), ran(aseeing, []), ran(seeing, [])
    next(left)
    left.close()
    await anext(aleft)
    await aleft.aclose()
    next(broken)
    with pytest.raises(ZeroDivisionError):
        broken.throw(ZeroDivisionError())
    ends = ("GeneratorExit", "ZeroDivisionError", "end")
    assert [each for each in HEARD if each in ends] == [
        "GeneratorExit",
        "GeneratorExit",
        "ZeroDivisionError",
    ]
