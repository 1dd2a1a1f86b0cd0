"""How a framework's messages, answers and usage map to the engine's, and back."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from operator import attrgetter
from typing import Any, ClassVar, Generic, TypeVar, cast

from ce_engine import (
    Answer,
    Extend,
    HostMessage,
    Insert,
    Keep,
    Message,
    Restore,
    Shorten,
    Step,
    ToolRun,
    Usage,
)


Native = TypeVar("Native")

_FIELDS: Callable[[object], Mapping[str, Any]] = attrgetter("__dict__")


class MessageAdapter(Generic[Native]):
    """The half of an adapter that maps messages.

    Attributes:
        name: the framework's; tags every event, and names the extra of `pip install` of ours.
        mapper: a module with `to_schema`, `from_schema`, `edited`, and perhaps `to_answer`,
            `map_model_usage`, `split` and `join`, which imports the framework and is itself imported at first
            use; an adapter of one file defines those methods instead, or `to_native` for the second and third.
    """

    name: ClassVar[str]
    mapper: ClassVar[str] = ""
    has_fields: ClassVar[bool] = False
    """Whether all that is mapped of a native is in its `__dict__`, as plain data most often."""

    def converses(self, target: Any) -> bool:  # noqa: ARG002 - for those with other targets
        """Whether a target may hold a conversation; a model, a tool or a retriever alone does not."""
        return True

    def to_schema(self, native: Native) -> HostMessage:
        """Map a message of the framework; an unknown part is carried through, never filtered."""
        return cast("HostMessage", self._mapper.to_schema(native))

    def split(self, native: Native) -> Sequence[Native]:
        """The messages that a native stands for, such as the results of several calls in one.

        `to_schema` and `to_native` are given these. Never none: one that stands for itself is its
        only part. Parts do not hold the native, and each has another id, if it has one.
        """
        if hasattr(self._mapper, "split"):
            return cast("Sequence[Native]", self._mapper.split(native))
        return (native,)

    def join(self, native: Native, parts: Sequence[Native]) -> Native:
        """A copy of a native that was split, with what goes out of its parts, in order."""
        if hasattr(self._mapper, "join"):
            return cast("Native", self._mapper.join(native, parts))
        raise NotImplementedError(
            f"{self.name} splits a {type(native).__name__} and has no `join`; found {len(parts)} "
            "parts to put together, expected an adapter that does both"
        )

    def to_native(self, step: Step, native: Native | None) -> Native:
        """Make the framework's message for a step of the plan.

        For Shorten and Extend `native` is the host's own: give a copy of it with its ids and extras.
        For Insert and Restore there is none.
        """
        if isinstance(step, Insert):
            return self.from_schema(Message(role=step.role, content=step.text))
        if isinstance(step, Restore):
            return self.from_schema(step.message)
        if native is None:
            raise ValueError(f"{type(step).__name__} needs the host's message")
        return native if isinstance(step, Keep) else self.edited(native, step)

    def from_schema(self, message: Message) -> Native:
        """Make the framework's message of one of ours, with its calls, or the call that it answers."""
        return cast("Native", self._mapper.from_schema(message))

    def edited(self, native: Native, step: Shorten | Extend) -> Native:
        """A copy of a message with the text that a step wants (`blocks.changed`), and all else that it has."""
        return cast("Native", self._mapper.edited(native, step))

    def parts(self, native: Native) -> tuple[object, ...]:
        """What tells that a native is unchanged: its objects, and the lengths of those that may grow."""
        content = getattr(native, "content", None)
        return (content, len(content)) if isinstance(content, list) else (content,)

    def alike(self, native: Native) -> Hashable | None:  # noqa: ARG002 - for those who can tell
        """All that is mapped of a plain message, as one value: who has the same is mapped alike.

        `None` where it would cost more to tell than the mapping itself: such are known by identity.
        """
        return None

    def states(self, natives: Sequence[Native]) -> list[Mapping[str, Any]] | None:
        """All that each of these natives holds, live, at next to no cost; `None` where it is no plain data.

        A list that is sent again is known by them, message by message.
        """
        return [*map(_FIELDS, natives)] if self.has_fields else None

    def to_answer(self, native: Native) -> Answer:
        """Map what the model answered, with what it says of itself."""
        if hasattr(self._mapper, "to_answer"):
            return cast("Answer", self._mapper.to_answer(native))
        host = self.to_schema(native)
        return Answer(host.message, host.host_id, attachments=host.attachments)

    def map_message(self, native: Native) -> Message:
        """Map a message of the framework to the schema's (A-23)."""
        return self.to_schema(native).message

    def map_model_usage(self, native: Native) -> Usage | None:
        """Give the usage that an answer carries, if it does (A-23)."""
        if hasattr(self._mapper, "map_model_usage"):
            return cast("Usage | None", self._mapper.map_model_usage(native))
        return None

    @cached_property
    def _mapper(self) -> Any:
        return import_module(self.mapper) if self.mapper else None

    def map_tool_call(self, call: Any) -> ToolRun:
        """Map the framework's record of a tool's run, where it has one (A-23)."""
        raise NotImplementedError(f"{self.name} reports its tools' runs by callbacks: {call!r:.80}")
