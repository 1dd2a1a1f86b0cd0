"""What of a turn stood quoted in what was put in: which messages and evidence, whole or in part, and since when."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ce_engine.audit.explanation import THERE_ALREADY
from ce_engine.schema.report import RECALLED
from ce_engine.schema.rows import TurnRow, archive_of


Pins = Sequence[Sequence[Any]]
"""What stands before questions, as it is archived: each the question's id, and what stands before it."""


class PinsAfter:
    """What stood before the questions of a lane right after each turn: its own archive, or else the next one's."""

    def __init__(self, turns: Sequence[TurnRow]) -> None:
        self._after: dict[str, Pins] = {}
        following: dict[str, Pins] = {}
        for row in reversed(turns):
            archive = archive_of(row.report)
            new = archive.get("new_pins") if archive else None
            self._after[row.turn_id] = new or following.get(row.lane, ())
            if archive:
                following[row.lane] = archive.get("pins", ())

    def of(self, row: TurnRow) -> Pins:
        return self._after.get(row.turn_id, ())


def quoted_pieces(row: TurnRow, after: Pins) -> dict[str, bool]:
    """The messages and evidence that stood quoted in a turn, by their ids, and whether only in part.

    A turn's decisions name the first of several; the others are known by what the lane's next turn found there.
    """
    report = row.report
    result: dict[str, bool] = {}

    def add(name: str, *, is_part: bool) -> None:
        result[name] = is_part and result.get(name, True)

    pieces = dict[str, bool]()
    for _, refs, *_ in after:
        for name, is_part in map(_ref, refs):
            pieces[name] = is_part and pieces.get(name, True)
    chosen_ids = list[str](report.get("quoted_message_ids", ()))
    for decision in report.get("prune_decisions", ()):
        kind, _, name = decision["block_id"].partition(":")
        if f"{kind}:" in RECALLED and decision["action"] == "degraded":
            pieces[name] = True
            chosen_ids.append(name)
    for name in chosen_ids:
        add(name, is_part=pieces.get(name, False))
    for _, refs, _ in standing_pins(report):
        for name, is_part in refs:
            add(name, is_part=is_part)
    for name in report.get("injected_evidence_ids", ()):
        result.setdefault(name, pieces.get(name, False))
    return result


def quoted_sentences(row: TurnRow, after: Pins) -> dict[str, frozenset[int]]:
    """Of what stood quoted in part in a turn the sentences, by the ids of the texts and by their places in these."""
    sentences: dict[str, frozenset[int]] = {}
    for _, refs, *_ in (*_standing(row.report), *after):
        for ref in refs:
            if not isinstance(ref, str):
                sentences[ref[0]] = sentences.get(ref[0], frozenset()) | frozenset(ref[1:])
    return sentences


def quoted_since(turns: Sequence[TurnRow], at: int) -> dict[str, int]:
    """Since which turn, from 1, each text stands that a turn found before an earlier question, by that question's id.

    It may have been brought in by a later call for the question than the first.

    Args:
        turns: of the session.
        at: the turn's place among them.
    """
    lane = turns[at].lane
    own = [n for n in range(at, -1, -1) if turns[n].lane == lane and archive_of(turns[n].report)]
    standing = {anchor: [*refs] for anchor, refs, *_ in _pins(turns[at])}
    turn_of: dict[str, int] = {}
    for n in own[1:]:
        if not standing:
            break
        before = {anchor: [*refs] for anchor, refs, *_ in _pins(turns[n])}
        new = {anchor: refs for anchor, refs in standing.items() if before.get(anchor) != refs}
        for anchor, refs in new.items():
            # Calls that brought in nothing, such as one that failed, lie between.
            if _has_chosen(turns[n], refs) or turns[n].tip_message_id == anchor:
                turn_of[anchor] = n + 1
                del standing[anchor]
    return turn_of


def _has_chosen(row: TurnRow, refs: Iterable[str | Sequence[Any]]) -> bool:
    """Whether a turn brought in something of this."""
    names = {_ref(ref)[0] for ref in refs}
    chosen_ids = set(row.report.get("quoted_message_ids", ()))
    chosen_ids |= {
        decision["block_id"].partition(":")[2]
        for decision in row.report.get("prune_decisions", ())
        if decision["block_id"].startswith(RECALLED)
        and decision["action"] != "dropped"
        and decision["reason"] != THERE_ALREADY
    }
    return bool(names & chosen_ids)


def _pins(row: TurnRow) -> Pins:
    pins: Pins = archive_of(row.report).get("pins", ())
    return pins


def _ref(ref: str | Sequence[Any]) -> tuple[str, bool]:
    """An id, and whether only some sentences are meant."""
    return (ref, False) if isinstance(ref, str) else (ref[0], True)


def standing_pins(report: Mapping[str, Any]) -> Iterator[tuple[str, list[tuple[str, bool]], int]]:
    """What was brought in before, and stands where it was sent: the question, its pieces and whether each is a part, and their tokens.

    A decision may be on several questions' together: the first of these has its tokens.
    """
    for anchor, refs, tokens in _standing(report):
        yield anchor, [*map(_ref, refs)], tokens


def _standing(report: Mapping[str, Any]) -> Iterator[tuple[str, Sequence[Any], int]]:
    """The same, with the pieces as they are archived."""
    archive = archive_of(report)
    pins = [(anchor, refs) for anchor, refs, *_ in archive.get("pins", ()) if refs]
    begin = 0  # both are in one order, and several questions' may begin with the same
    for decision in report.get("prune_decisions", ()):
        if decision["reason"] != THERE_ALREADY:
            continue
        first, left = decision["block_id"].partition(":")[2], decision.get("count", 1)
        tokens = decision.get("token_estimate", 0)
        at = next((n for n in range(begin, len(pins)) if _ref(pins[n][1][0])[0] == first), None)
        if at is None:
            continue
        for n, (anchor, refs) in enumerate(pins[at:], start=at):
            if len(refs) <= left:
                left, begin = left - len(refs), n + 1
                yield anchor, refs, tokens
                tokens = 0


__all__ = ["PinsAfter", "quoted_pieces", "quoted_sentences", "quoted_since", "standing_pins"]
