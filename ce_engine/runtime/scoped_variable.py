"""What an app says round its calls holds inside its block: not for the caller of a paused generator.

A `ContextVar` is not local to a generator: what is set between two `yield`s holds for whoever asked for
the next value, too, and two generators that take turns mix. So a block that is opened in a generator
belongs to the generator's frame, and holds where that frame is on the stack, whatever the thread, task
or context that drives it. The context has the block as well, for tasks and threads that are begun
inside and inherit it; whether one was begun inside or by the paused generator's caller, Python does not
tell. There a block is taken only while its generator is at work (no `yield` waits), and only where no
other one could be meant; in doubt nothing was said.
"""

from __future__ import annotations

import asyncio
import dis
import inspect
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import Context, ContextVar, Token
from dataclasses import dataclass
from types import FrameType
from typing import Any, Generic, TypeVar

from ce_engine.runtime.context_variables import unset


T = TypeVar("T")

_GENERATOR = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR

_WITH = frozenset({"contextlib", "_pytest.fixtures", "pytest_asyncio.plugin"})
"""Modules that resume a generator once to enter and once to leave: its blocks are those of its user."""

_OURS = {__name__}
"""Modules with blocks of their own: who calls them has the `with`."""

_ENTERING = frozenset({"__enter__", "__aenter__", "enter_context", "enter_async_context"})
"""Functions that end while the block that they opened goes on."""

_YIELD, _RESUME = (dis.opmap.get(name, -1) for name in ("YIELD_VALUE", "RESUME"))
_CALLBACK = asyncio.Handle._run.__code__  # noqa: SLF001 - a loop's own frame around what it calls
_AWAIT = 3
"""How a `RESUME` says that what comes back is an awaited result (CPython 3.11 on)."""


class _Opened(Generic[T]):
    """The blocks that a generator has open. They keep it alive, and nothing else of ours does."""

    __slots__ = ("__weakref__", "blocks", "frame")

    def __init__(self, frame: FrameType) -> None:
        self.frame = frame
        self.blocks: list[_Block[T]] = []


Place = tuple[int, int]
"""(thread, task)"""


@dataclass(frozen=True, slots=True, eq=False)
class _Block(Generic[T]):
    """What is said in a block.

    Attributes:
        value: `None` is nothing.
        owner: whose it is, if it belongs to a generator.
        place: where it was opened then.
        is_sure: who inherits it was begun inside.
        is_guess: it was in doubt where it was first asked for, and was kept to.
    """

    value: T | None
    owner: weakref.ref[_Opened[T]] | None = None
    place: Place | None = None
    is_sure: bool = False
    is_guess: bool = False

    @property
    def is_open(self) -> bool:
        opened = None if self.owner is None else self.owner()
        return opened is not None and self in opened.blocks

    @property
    def is_at_work(self) -> bool:
        """Whether it is open, and its generator runs or awaits now."""
        opened = None if self.owner is None else self.owner()
        return opened is not None and self in opened.blocks and not _is_paused(opened.frame)


_Blocks = tuple[_Block[T], ...]
"""Those of a context, the innermost last; of generators that wait, too."""


@dataclass(frozen=True, slots=True, eq=False)
class _Found(Generic[T]):
    """What blocks say, and the one that this is in doubt for.

    Lost is what a generator's block may have said to who began this, and says no more.
    """

    value: T | None
    doubt: _Block[T] | None
    is_guess: bool
    is_lost: bool


@dataclass(frozen=True, slots=True, eq=False)
class ScopeEntry(Generic[T]):
    """A block that was opened, to be closed."""

    block: _Block[T]
    token: Token[_Blocks[T]]
    opened: _Opened[T] | None
    place: Place


class ScopedVariable(Generic[T]):
    """A value that holds inside a block, and for what is begun there; `module` has the blocks."""

    def __init__(self, name: str, module: str) -> None:
        _OURS.add(module)
        self._var: ContextVar[_Blocks[T]] = ContextVar(name, default=())
        self._opened: dict[int, weakref.ref[_Opened[T]]] = {}
        """By the id of a frame, which lives as long."""
        _all.append(self)

    def open(
        self, value: T | None, *, is_brief: bool = False, is_guess: bool = False
    ) -> ScopeEntry[T]:
        """Say something from now on. A brief block is closed before any generator around it waits."""
        here = place_here()
        frame, is_called = generator_around(sys._getframe(1))  # noqa: SLF001 - whose it is
        opened = None if frame is None else self._of(frame) or self._begin(frame)
        if opened is None:
            block = _Block(value, is_guess=is_guess)
        else:
            block = _Block(value, weakref.ref(opened), here, is_brief or is_called, is_guess)
            opened.blocks.append(block)
        around = (b for b in self._var.get() if b.place != here or b.is_sure or b.is_open)
        return ScopeEntry(block, self._var.set((*around, block)), opened, here)

    def close(self, entered: ScopeEntry[T]) -> None:
        """End a block, in whatever order, thread, task or context it ends."""
        block, opened = entered.block, entered.opened
        if opened is not None and block in opened.blocks:
            opened.blocks.remove(block)
            if not opened.blocks:
                self._opened.pop(id(opened.frame), None)
        now = self._var.get()
        with suppress(ValueError):  # another context: there nothing was set
            self._var.reset(entered.token)
            self._var.set(tuple(other_block for other_block in now if other_block is not block))

    def get(self, context: Context | None = None, origin: Context | None = None) -> T | None:
        """What is said here, or was in another `context`.

        `origin` is where the run began that asks, and counts where nothing certain is said here.
        """
        return self.heard(context, origin)[0]

    def heard(
        self, context: Context | None = None, origin: Context | None = None
    ) -> tuple[T | None, bool]:
        """(the same, whether that is a guess: who asks may have been begun by the generator's caller)."""
        if context is not None:
            verdict = self._judge(context.get(self._var, ()))
            return verdict.value, verdict.is_guess
        if (block := self._on_stack()) is not None:
            return block.value, block.is_guess
        blocks = self._var.get()
        verdict = self._judge(blocks)
        if origin is not None and (verdict.value is None or verdict.is_guess):
            return self.heard(origin)
        if (doubt := verdict.doubt) is not None:  # keep to it in this task; in its own it is void
            kept_block = _Block(
                verdict.value, doubt.owner, doubt.place, is_sure=True, is_guess=True
            )
            self._var.set((*blocks, kept_block))
        return verdict.value, verdict.is_guess

    def is_lost(self) -> bool:
        """Whether who began this task or thread may have been told something that nobody can tell any more."""
        return self._on_stack() is None and self._judge(self._var.get()).is_lost

    def is_untold(self) -> bool:
        """Whether nothing was ever said around this, nor to who began it."""
        return not self._var.get() and self._on_stack() is None

    def is_on_stack(self) -> bool:
        """Whether a generator around us has a block open."""
        return self._on_stack() is not None

    def settle(self, value: T | None, is_guess: bool = False) -> Token[_Blocks[T]]:
        """Make it all that is said in this context, for whoever is begun in it."""
        return self._var.set((_Block(value, is_guess=is_guess),))

    def unsettle(self, token: Token[_Blocks[T]]) -> None:
        """Leave it as it was."""
        unset(self._var, token)

    def _of(self, frame: FrameType) -> _Opened[T] | None:
        reference = self._opened.get(id(frame))
        return None if reference is None else reference()

    def _begin(self, frame: FrameType) -> _Opened[T]:
        opened, key = _Opened[T](frame), id(frame)

        def forget(reference: weakref.ref[_Opened[T]]) -> None:
            if self._opened.get(key) is reference:
                del self._opened[key]

        self._opened[key] = weakref.ref(opened, forget)
        return opened

    def _on_stack(self) -> _Block[T] | None:
        references = self._opened
        if not references:
            return None
        for frame in _stack(sys._getframe(1)):  # noqa: SLF001 - who runs counts
            if (
                id(frame) in references
                and (opened := self._of(frame)) is not None
                and opened.blocks
            ):
                return opened.blocks[-1]
        return None

    def _judge(self, blocks: _Blocks[T]) -> _Found[T]:
        """What they say to code that runs in no generator of theirs."""
        base: _Block[T] | None = None
        doubtful, here = list[_Block[T]](), None
        for block in reversed(blocks):
            here = here or (place_here() if block.place else None)
            if block.place is not None and block.place == here:
                continue  # its generator waits: it would be on the stack
            if block.is_sure or block.place is None:
                base = block
                break
            # Of one generator the innermost counts: it was open when this context was copied.
            if all(block.owner != doubt.owner for doubt in doubtful):
                doubtful.append(block)
        value, is_guess = (None, False) if base is None else (base.value, base.is_guess)
        voices = {doubt.value for doubt in doubtful}
        if not any(doubt.is_open for doubt in doubtful):
            was_lost = is_guess and value is None
            return _Found(value, None, is_guess, is_lost=was_lost or not voices <= {value})
        if len(voices) == 1 and (value in voices or any(doubt.is_at_work for doubt in doubtful)):
            return _Found(doubtful[0].value, doubtful[0], is_guess=True, is_lost=False)
        return _Found(None, doubtful[0], is_guess=True, is_lost=True)


_all: list[ScopedVariable[Any]] = []


def innermost(entered: list[ScopeEntry[T]]) -> ScopeEntry[T]:
    """Takes out the block that ends: one object may be entered by several generators, tasks and threads."""
    if len(entered) == 1:
        return entered.pop()
    frame, _ = generator_around(sys._getframe(1))  # noqa: SLF001 - who leaves it
    here = place_here()
    for entry in reversed(entered):
        owner = None if entry.opened is None else entry.opened.frame
        if owner is frame and (frame is not None or entry.place == here):
            entered.remove(entry)
            return entry
    return entered.pop()


def settled() -> Context:
    """A context that says what is said here, wherever it is looked at; all else is left out."""
    context = Context()
    for variable in _all:
        context.run(variable.settle, *variable.heard())
    return context


def asked_here() -> Context | None:
    """The same for a run that begins in a generator's block; elsewhere contexts say it themselves."""
    return settled() if any(variable.is_on_stack() for variable in _all) else None


@contextmanager
def handing_over() -> Iterator[None]:
    """What a generator's block says is not in doubt in tasks that begin inside; no `yield` is to be."""
    variables = [v for v in _all if v.is_on_stack()]
    tokens = [(v, v.settle(*v.heard())) for v in variables]
    try:
        yield
    finally:
        for variable, token in tokens:
            variable.unsettle(token)


def generator_around(frame: FrameType | None) -> tuple[FrameType | None, bool]:
    """(the innermost generator on the stack, whether a function that it calls has the `with`).

    Such a function ends, and its block with it, before the generator waits. A generator that is the
    body of a `with` itself is none: its block is its user's.
    """
    is_called: bool | None = None
    frames = _stack(frame)
    for inner in frames:
        flags = inner.f_code.co_flags
        if flags & _GENERATOR and not flags & inspect.CO_ITERABLE_COROUTINE:
            above = inner.f_back
            if above is None or _module(above) not in _WITH:
                return inner, bool(is_called)
            next(frames, None)  # who resumes it
        elif is_called is None and _module(inner) not in _OURS:
            is_called = inner.f_code.co_name not in _ENTERING
    return None, False


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    """The frames from this one on, up to where the running task or callback was begun.

    What lies further out waits for the loop: a loop that runs within a callback of its own (nest_asyncio), or
    again and again, gives turns to tasks of others.
    """
    last: object = None
    with suppress(RuntimeError):  # no loop runs
        task = asyncio.current_task()
        last = getattr(task.get_coro(), "cr_frame", None) if task is not None else None
    while frame is not None and frame.f_code is not _CALLBACK:
        yield frame
        if frame is last:
            return
        frame = frame.f_back


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__"))


def place_here() -> Place:
    """The thread and task that run here."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop runs
        task = None
    return threading.get_ident(), id(task)


def _is_paused(frame: FrameType) -> bool:
    """Whether a generator waits at a `yield`, so that its caller works; in doubt it does."""
    code, at = frame.f_code.co_code, frame.f_lasti
    if _RESUME < 0 or not 0 <= at < len(code) - 3:
        return True
    if code[at] == _YIELD:  # until 3.12 the last instruction, from 3.13 on the next one
        at += 2
    return code[at] == _RESUME and code[at + 1] & 3 not in (0, _AWAIT)
