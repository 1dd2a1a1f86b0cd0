"""Results of tools that stood before a model though a later result of the same call said something else."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ce_engine.audit.places.message_places import LEFT_OUT, QUOTED, QUOTED_PART
from ce_engine.audit.places.quoted_pieces import PinsAfter, quoted_pieces
from ce_engine.audit.places.whereabouts import THERE, Whereabouts
from ce_engine.audit.repeated_calls import FAILED, CallResult, RepeatedCall, repeated_calls
from ce_engine.schema.document import SessionDocument
from ce_engine.schema.enums import Role
from ce_engine.schema.rows import TurnRow


@dataclass(frozen=True, slots=True)
class NewerResult:
    """The newest result before a turn of a call of which an older one stood there: the turn that asked for it, its evidence, and what became of it (a key of `whereabouts.FATES`)."""

    turn: int
    evidence_id: str
    fate: str


def stale_results(
    document: SessionDocument, turns: Sequence[TurnRow], at: int, fates: Mapping[str, str]
) -> dict[str, NewerResult]:
    """The results that stood before the model in a turn and are older than another result from before it.

    Args:
        document: of the session.
        turns: all of it, oldest first.
        at: the turn's place among them.
        fates: what became of each message in it, by id (`recorded_fates`).

    Returns:
        The newest result of the same call by the ids of each stale one: of its evidence and of its message.
    """
    message_ids = _message_ids(document)
    fate_of = dict(_evidence_fates(message_ids, turns, at, fates))
    shown = {name for name, fate in fate_of.items() if fate != LEFT_OUT}
    stale = dict[str, NewerResult]()
    for call in repeated_calls(document, turns, shown) if shown else ():
        newest = _newest(call, document, turns, at, fate_of)
        if newest is None:
            continue
        place, result = newest
        newer = NewerResult(
            result.turn or 0,
            result.evidence_id or "",
            fate_of.get(result.evidence_id or "", LEFT_OUT),
        )
        for older in call.results[:place]:
            name = older.evidence_id or ""
            is_known = older.says is not None or older.outcome == FAILED
            if name in shown and is_known and older.says != result.says:
                stale |= dict.fromkeys([name, *message_ids.get(name, ())], newer)
    return stale


def stale_turns(call: RepeatedCall, places: Mapping[str, Whereabouts]) -> set[int]:
    """The turns in which an older result of a call stood before the model, though the newest one before them says something else.

    Args:
        call: that was made again.
        places: where its results went, by the ids of the evidence (`evidence_whereabouts`).
    """
    newest = [
        (each.turn, each.says) for each in call.results if each.turn and each.says is not None
    ]
    newest.sort(key=lambda each: each[0])
    stale = set[int]()
    for older in call.results:
        where = places.get(older.evidence_id or "")
        if where is None or (older.says is None and older.outcome != FAILED):
            continue
        for turn in where.turns_as(THERE):
            at = bisect_left(newest, turn, key=lambda each: each[0])
            if at and newest[at - 1][0] > (older.turn or 0) and newest[at - 1][1] != older.says:
                stale.add(turn)
    return stale


def _message_ids(document: SessionDocument) -> dict[str, list[str]]:
    """The ids of the messages of results, by that of the evidence that each is stored as."""
    ids = dict[str, list[str]]()
    for message in document.session.messages:
        for ref in (message.refs or ()) if message.role is Role.TOOL else ():
            ids.setdefault(ref.evidence_id, []).append(message.message_id or "")
    return ids


def _evidence_fates(
    message_ids: Mapping[str, Sequence[str]],
    turns: Sequence[TurnRow],
    at: int,
    fates: Mapping[str, str],
) -> Iterator[tuple[str, str]]:
    """What became of results in a turn, by their evidence: with their messages, or quoted where they have none."""
    for name, is_part in quoted_pieces(turns[at], PinsAfter(turns).of(turns[at])).items():
        yield name, QUOTED_PART if is_part else QUOTED
    for name, ids in message_ids.items():
        own = [fates[each] for each in ids if each in fates]
        if own:
            yield name, next((fate for fate in own if fate != LEFT_OUT), LEFT_OUT)


def _newest(
    call: RepeatedCall,
    document: SessionDocument,
    turns: Sequence[TurnRow],
    at: int,
    fate_of: Mapping[str, str],
) -> tuple[int, CallResult] | None:
    """The newest result of a call that was there before a turn, with its place."""
    for place, result in reversed([*enumerate(call.results)]):
        is_earlier = result.says is not None and result.turn is not None and result.turn <= at
        evidence = document.evidences.get(result.evidence_id or "")
        if not is_earlier or evidence is None:
            continue
        # Another line's call may have been asked for before the turn and have ended after it.
        is_there = fate_of.get(evidence.evidence_id, LEFT_OUT) != LEFT_OUT
        if is_there or str(evidence.metadata.get("created_at", "")) <= turns[at].opened_at:
            return place, result
    return None


__all__ = ["NewerResult", "stale_results", "stale_turns"]
