"""What a turn did with messages and pieces by its record alone: of a turn that cannot be made again as it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ce_engine.audit.places.message_places import MessagePlaces
from ce_engine.audit.places.quoted_pieces import PinsAfter, quoted_pieces, standing_pins
from ce_engine.schema.document import SessionDocument
from ce_engine.schema.replay import BroughtIn, BroughtInBefore, Explanation
from ce_engine.schema.report import RECALLED
from ce_engine.schema.rows import TurnRow


@dataclass(frozen=True, slots=True)
class RecordedChoice:
    """What a turn did, by its record.

    Attributes:
        fates: what became of each message: a key of `whereabouts.FATES`, by its id.
        quotes: ids of questions that went out with the quotes that the attempt has for them, too.
    """

    fates: Mapping[str, str]
    quotes: frozenset[str] = frozenset()


def recorded_choice(
    fates: Mapping[str, str],
    attempt: Explanation | None,
    document: SessionDocument,
    turns: Sequence[TurnRow],
    at: int,
) -> tuple[RecordedChoice, Explanation | None]:
    """What became of messages in a turn and what was brought in, where making it again gave something else.

    Args:
        fates: of the messages, by the turn's record (`recorded_fates`).
        attempt: what the turn made again brought in.
        document: of the session.
        turns: all of it, oldest first.
        at: the turn's place among them.
    """
    if attempt is None:
        return RecordedChoice(fates), None
    record = as_recorded(attempt, document, turns, at)
    groups = {(group.asked, *group.ids): group.parts for group in attempt.earlier}
    quotes = {
        group.asked
        for group in record.earlier
        if groups.get((group.asked, *group.ids)) == group.parts
    }
    pieces, own = (
        {(piece.id, piece.is_part) for piece in each.brought_in} for each in (attempt, record)
    )
    if pieces == own:
        quotes |= {name for name in fates if name not in {group.asked for group in record.earlier}}
    return RecordedChoice(fates, frozenset(quotes)), record


def recorded_fates(places: MessagePlaces, row: TurnRow) -> dict[str, str]:
    """What became of messages in one turn, as it is stored: a key of `whereabouts.FATES` each.

    Args:
        places: of the messages.
        row: the turn.

    Returns:
        By id; without those that the turn had not, and empty of a turn that stores nothing of them.
    """
    if (turn_places := places.read_turn(row)) is None:
        return {}
    fates: dict[str, str] = {}
    for begin, end, fate in places.pieces(*turn_places):
        if fate is not None:
            fates |= dict.fromkeys(places.ids[begin:end], fate)
    return fates


def as_recorded(
    attempt: Explanation, document: SessionDocument, turns: Sequence[TurnRow], at: int
) -> Explanation:
    """What was brought in for a turn and stood there, by its record; of the attempt only what that confirms.

    Args:
        attempt: the turn made again, which chose something else.
        document: of the session.
        turns: all of it, oldest first.
        at: the turn's place among them.
    """
    row = turns[at]
    pieces = quoted_pieces(row, PinsAfter(turns).of(row))
    earlier = [
        BroughtInBefore(
            asked=anchor,
            ids=[name for name, _ in refs],
            tokens=tokens,
            parts=[name for name, is_part in refs if is_part],
        )
        for anchor, refs, tokens in standing_pins(row.report)
    ]
    named = {name for group in earlier for name in group.ids}
    # The evidence of a tool's result is named beside its message.
    named |= {
        ref.evidence_id
        for message in document.session.messages
        if message.message_id in pieces
        for ref in message.refs or ()
    }
    confirmed = {piece.id: piece for piece in attempt.brought_in}
    brought_in = [
        _confirmed(confirmed.get(name), name, is_part, document, row)
        for name, is_part in pieces.items()
        if name not in named
    ]
    others = [p for p in attempt.brought_in if p.kind not in ("message", "evidence")]
    # Of what was looked at besides, the record names the first of several, and no score.
    return attempt.model_copy(
        update={
            "brought_in": [*brought_in, *others],
            "earlier": earlier,
            "passed_over": [],
            "taken": None,
            "nearest": None,
        }
    )


def _confirmed(
    piece: BroughtIn | None, name: str, is_part: bool, document: SessionDocument, row: TurnRow
) -> BroughtIn:
    """A piece as it stood there: as the attempt has it, where that is the same, else what is stored of it."""
    if piece is not None and piece.is_part == is_part:
        return piece
    message = next((m for m in document.session.messages if m.message_id == name), None)
    evidence = document.evidences.get(name)
    kind = "message" if message is not None else "evidence"
    source = evidence.source if evidence is not None else None
    return BroughtIn(
        id=name,
        kind=kind,
        who=message.role.value if message is not None else (source.name or "" if source else ""),
        tokens=_tokens(row.report, name),
        is_part=is_part,
        text=message.content if message is not None else evidence.content if evidence else "",
    )


def _tokens(report: Any, name: str) -> int:
    """What a piece cost, where a decision is on it alone; else 0."""
    return next(
        (
            int(decision.get("token_estimate", 0))
            for decision in report.get("prune_decisions", ())
            if decision["block_id"].startswith(RECALLED)
            and decision["block_id"].partition(":")[2] == name
            and decision.get("count", 1) == 1
        ),
        0,
    )


__all__ = ["RecordedChoice", "as_recorded", "recorded_choice", "recorded_fates"]
