"""Calls of tools that models asked for: which one a run is, where the framework does not tell its tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from ce_engine import ModelCall, ToolRequest
from ce_integrations.identity.session import CallInfo
from ce_integrations.wrapping.bounded_maps import BoundedMap


MAX_LINES = 256
"""Lines of runs whose calls are remembered."""

MAX_ANSWERS = 16
"""Answers of a line whose calls are remembered, the newest."""

_Waiting = dict[int, ToolRequest]
"""The calls of an answer that no run has claimed, by their place."""


class RequestedTools:
    """The calls that wait to be run, for each line of each run (request)."""

    def __init__(self) -> None:
        self._lines: BoundedMap[tuple[str, str], list[_Waiting]] = BoundedMap(MAX_LINES)

    def note(self, call: ModelCall, requests: Iterable[ToolRequest] | None) -> None:
        """Note what an answer asks for."""
        if requests:
            line = self._lines.put((call.request_id, call.lane_key or ""), [])
            line.append(dict(enumerate(requests)))
            del line[:-MAX_ANSWERS]

    def clear(self) -> None:
        """Forget all of them, such as when somebody's words were deleted."""
        self._lines.forget(lambda _: True)

    def claim(self, info: CallInfo, name: str, args: Mapping[str, Any]) -> ToolRequest | None:
        """The call that a run with these arguments answers; each is claimed once.

        Of the newest answer that asks for it, the first one that has this name, and no argument that the
        run has not: frameworks add some of their own. What nobody claims is known by its result, when
        that is sent to the model.
        """
        line = self._lines.get((info.request_id, info.lane_key or "")) or ()
        for waiting in reversed(list(line)):
            for place, call in list(waiting.items()):
                if call.name != name or not _is_part(call.args, args):
                    continue
                if waiting.pop(place, None) is not None:  # who takes it out first has it
                    return call
        return None


def _is_part(requested: Mapping[str, Any], args: Mapping[str, Any]) -> bool:
    return all(name in args and _is_same(value, args[name]) for name, value in requested.items())


def _is_same(requested: Any, value: Any) -> bool:
    """Whether a tool was given what the model wrote, which the framework may have made an object of."""
    with suppress(Exception):  # what an app's object says when it is compared
        if requested == value:
            return True
        dumped = value.model_dump(mode="json", include=set(requested))
        return bool(dumped == requested)
    return False
