"""Tool calls that were made again with the same arguments: in which turns, and whether they brought the same."""

from __future__ import annotations

import ast
import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from ce_engine.prepare.choose.conflict import MAX_CHARS, MAX_LITERAL_CHARS
from ce_engine.schema.document import Evidence, SessionDocument, ToolCall
from ce_engine.schema.enums import Role, ToolCallStatus
from ce_engine.schema.rows import TurnRow
from ce_engine.schema.tool_runs import are_whole


FIRST, SAME, OTHER, FAILED, UNKNOWN = "first", "same", "other", "failed", "unknown"
"""What came of a call: the first result of all, the same as the one before or another, none, or nobody knows."""

_UNREADABLE = (ValueError, TypeError, RecursionError, SyntaxError, MemoryError)


@dataclass(frozen=True, slots=True)
class CallResult:
    """One time that a call was made.

    Attributes:
        turn: the turn, from 1, whose answer asked for it; `None` where no turn is stored that did.
        evidence_id: of its result; `None` where that is not there.
        outcome: what came of it, beside the last result before it of which that is known.
        says: a number that results have in common which say the same; `None` of what failed, or is not there.
    """

    turn: int | None
    evidence_id: str | None
    outcome: str = UNKNOWN
    says: int | None = None


@dataclass(frozen=True, slots=True)
class RepeatedCall:
    """A tool and arguments with which it was called two times or more, with the results in the order of the calls."""

    tool: str
    args: Mapping[str, Any]
    results: tuple[CallResult, ...]

    @property
    def has_other(self) -> bool:
        """Whether a later result was another."""
        return any(each.outcome == OTHER for each in self.results)


def repeated_calls(
    document: SessionDocument, turns: Sequence[TurnRow], among: Collection[str] | None = None
) -> list[RepeatedCall]:
    """The tool calls of a session that were made again with the same arguments, by when they were made first.

    Arguments are compared as JSON values, and results as texts, or else as the JSON or Python values that they are. Calls that
    no answer of the session asked for, such as retrievals, and those whose arguments are not stored, are left out.

    Args:
        document: of the session.
        turns: all of it, oldest first.
        among: only calls that had one of these results, by the ids of the evidence; `None` is all calls.
    """
    numbers: dict[str | None, int] = {}
    for number, row in enumerate(turns, 1):
        numbers.setdefault(row.answer_message_id, number)
    failed_ids = _failed_ids(document)
    found = list[RepeatedCall]()
    for calls in _by_arguments(document).values():
        ids = {name for call in calls for name in call.result_evidence_ids}
        if len(calls) < 2 or (among is not None and ids.isdisjoint(among)):
            continue
        results = _results(calls, numbers, document.evidences, failed_ids)
        found.append(RepeatedCall(calls[0].tool, calls[0].args_digest, results))
    return found


def _by_arguments(document: SessionDocument) -> dict[tuple[str, str], list[ToolCall]]:
    """The calls that answers asked for, by tool and arguments, in the order in which they were asked for."""
    places = {m.message_id: n for n, m in enumerate(document.session.messages) if m.tool_calls}
    asked = list[tuple[int, int, ToolCall]]()
    for call in document.session.tool_state.tool_calls:
        name, _, position = call.tool_call_id.rpartition(":")
        if name in places and position.isdecimal() and len(position) < 9:
            asked.append((places[name], int(position), call))
    by_arguments = dict[tuple[str, str], list[ToolCall]]()
    for *_, call in sorted(asked, key=lambda each: each[:2]):
        args = call.args_digest
        if are_whole(args) and (text := _canonical(args)) is not None:
            by_arguments.setdefault((call.tool, text), []).append(call)
    return by_arguments


def _failed_ids(document: SessionDocument) -> frozenset[str]:
    """The evidence of results that are errors by their messages."""
    return frozenset(
        ref.evidence_id
        for message in document.session.messages
        if message.role is Role.TOOL and message.status == "error"
        for ref in message.refs or ()
    )


def _results(
    calls: Sequence[ToolCall],
    numbers: Mapping[str | None, int],
    evidences: Mapping[str, Evidence],
    failed_ids: frozenset[str],
) -> tuple[CallResult, ...]:
    numbers_of, before = dict[tuple[str, ...], int](), None
    results = list[CallResult]()
    for call in calls:
        pieces = [evidences[name] for name in call.result_evidence_ids if name in evidences]
        ids, texts = [p.evidence_id for p in pieces], [p.content for p in pieces]
        turn = numbers.get(call.tool_call_id.rpartition(":")[0])
        result = CallResult(turn, ids[0] if ids else None)
        if call.status is not ToolCallStatus.SUCCESS or not failed_ids.isdisjoint(ids):
            result = replace(result, outcome=FAILED)
        elif texts and all(texts) and len(texts) == len(call.result_evidence_ids):
            key = tuple(map(_said, texts))
            says = numbers_of.setdefault(key, len(numbers_of) + 1)
            outcome = FIRST if before is None else SAME if says == before else OTHER
            result, before = replace(result, outcome=outcome, says=says), says
        results.append(result)
    return tuple(results)


def _said(text: str) -> str:
    """What a text says: of a JSON or Python value the same for each way to write it."""
    value = _parsed(text)
    canonical = _canonical(value) if value is not None else None
    return f"={canonical}" if canonical is not None else text


def _parsed(text: str) -> Any:
    """The value of a JSON object or list, or of the `str` of a Python one; `None` of any other text."""
    begin = text.lstrip()[:1]
    with suppress(*_UNREADABLE):
        if begin in ("{", "[") and len(text) <= MAX_CHARS:
            with suppress(json.JSONDecodeError):
                return json.loads(text, object_pairs_hook=_object)
        if begin in ("{", "[", "(") and len(text) <= MAX_LITERAL_CHARS:
            return ast.literal_eval(text.strip())
    return None


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise TypeError("an object has two fields of one name")
    return fields


def _canonical(value: Any) -> str | None:
    """A value as JSON that is equal for equal values, `5` and `5.0` among them; `None` of what JSON has not."""
    try:
        return json.dumps(_plain(value), sort_keys=True, ensure_ascii=False)
    except _UNREADABLE:
        return None


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise TypeError("a key is no text")
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


__all__ = [
    "FAILED",
    "FIRST",
    "OTHER",
    "SAME",
    "UNKNOWN",
    "CallResult",
    "RepeatedCall",
    "repeated_calls",
]
