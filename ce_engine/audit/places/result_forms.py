"""Which tool results went out in fewer tokens: a turn tells it of its newest ones alone, and they stay as they went out."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ce_engine.prepare.tool_results.forms import CHANGED, FORMS, REPEATED
from ce_engine.schema.document import Message
from ce_engine.schema.enums import Role
from ce_engine.schema.json_text import canonical_json
from ce_engine.schema.rows import TurnRow


_REFERRING = frozenset({REPEATED, CHANGED})

_FormsByPlace = dict[int, tuple[int, str]]


class ResultForms:
    """The forms of the results in a list of messages, lane by lane.

    A form stays while something of its kind is saved, and while what it refers to stands above it.

    Args:
        messages: of the list, in order.
        at: places in it, by message ids.
        turns: of the session.
    """

    def __init__(
        self, messages: Sequence[Message], at: Mapping[str, int], turns: Sequence[TurnRow]
    ) -> None:
        self._order = {row.turn_id: n for n, row in enumerate(turns)}
        self._forms: dict[str, _FormsByPlace] = {}
        self._places: dict[str, list[int]] = {}
        for n, row in enumerate(turns):
            for decision in row.report.get("prune_decisions", ()):
                place = at.get(decision["block_id"])
                if (
                    place is None
                    or decision["reason"] not in FORMS
                    or decision["action"] != "degraded"
                ):
                    continue
                forms = self._forms.setdefault(row.lane, {})
                for result in _results(messages, place, decision.get("count", 1)):
                    if result not in forms:
                        forms[result] = (n, decision["reason"])
                        insort(self._places.setdefault(row.lane, []), result)
        kinds = {kind for forms in self._forms.values() for _, kind in forms.values()}
        self._base = _bases(messages) if kinds & _REFERRING else {}

    def of(self, row: TurnRow) -> Forms:
        """Those that may stand in a turn."""
        saved = row.report.get("results_saved", {})
        forms, places = self._forms.get(row.lane, {}), self._places.get(row.lane, [])
        return Forms(forms, places, self._base, self._order.get(row.turn_id, -1), saved)


class Forms:
    """The forms of one turn's results: those that were settled by then, by places."""

    def __init__(
        self,
        forms: _FormsByPlace,
        places: Sequence[int],
        base: Mapping[tuple[str, int], int],
        turn: int,
        saved: Mapping[str, Any],
    ) -> None:
        self._forms, self._places, self._base = forms, places, base
        self._turn, self._saved = turn, saved

    def within(self, begin: int, end: int) -> Sequence[int]:
        """The places from one to before another that may have a form."""
        if not self._saved:
            return ()
        return self._places[bisect_left(self._places, begin) : bisect_left(self._places, end)]

    def stands(self, place: int, is_whole: Callable[[int], bool]) -> bool:
        """Whether a result that goes out has a form; `is_whole` says of a place whether nothing was left out of it."""
        first, kind = self._forms.get(place, (self._turn + 1, ""))
        if first > self._turn:
            return False
        if first < self._turn and kind in _REFERRING:
            base = self._base.get((kind, place))
            if base is None or not is_whole(base):  # settled anew, as the other one was
                kind = self._forms.get(-1 if base is None else base, (0, ""))[1]
        return kind in self._saved


NO_FORMS = Forms({}, (), {}, -1, {})


def _results(messages: Sequence[Message], place: int, count: int) -> Iterator[int]:
    """The places of results that a decision is on: an earlier release told of those of one call as one."""
    yield place
    for result in range(place + 1, min(place + count, len(messages))):
        if messages[result].role is not Role.TOOL:
            return
        yield result


def _bases(messages: Sequence[Message]) -> dict[tuple[str, int], int]:
    """The result above each that says the same, and the one of the same call, or else of its tool."""
    calls = {
        (message.message_id, call.id): f"{call.name}{canonical_json(call.args)}"
        for message in messages
        for call in message.tool_calls or ()
    }
    last: dict[tuple[str, str], int] = {}
    bases: dict[tuple[str, int], int] = {}
    for place, message in enumerate(messages):
        if message.role is not Role.TOOL:
            continue
        tool = message.author.id if message.author else ""
        call = calls.get((message.parent_id, message.tool_call_id or ""), tool)
        names = {REPEATED: [message.content.strip()], CHANGED: [call, tool]}
        for kind, keys in names.items():
            base = next((at for name in keys if (at := last.get((kind, name))) is not None), None)
            if base is not None:
                bases[kind, place] = base
            last |= {(kind, name): place for name in keys}
    return bases


__all__ = ["FORMS", "NO_FORMS", "Forms", "ResultForms"]
