"""What was brought in for a call, piece by piece, and why (A-21)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ce_engine.audit.rules_sent import GONE, is_rule
from ce_engine.prepare.blocks.material import Material
from ce_engine.prepare.choose.candidates import MESSAGE, NOT_NEARER
from ce_engine.prepare.compose.render import spans_of
from ce_engine.prepare.sources import Candidate
from ce_engine.schema.replay import (
    BroughtIn,
    BroughtInBefore,
    Explanation,
    NearestThere,
    PassedOver,
    RoomTaken,
)
from ce_engine.schema.report import RECALLED, PruneDecision
from ce_engine.text.redaction.placeholders import PLACEHOLDER
from ce_engine.text.relevance.terms import terms, tokens
from ce_engine.turns.input.recall import Recall
from ce_engine.turns.report.archive import Selection


THERE_ALREADY = "there_already"
PAIR = 2
"""Characters of the words that stand for those of unspaced scripts, at most."""

JOIN_TOKENS = 2
"""Tokens that a text may cost more or less where another one stands beside it than did."""

UNKNOWN_ROOM = {"room": None, "best": None, "best_room": None}

KINDS = {"m": "message", "e": "evidence"}

MOST_PASSED_OVER = 200
"""Pieces that were left out of which an explanation tells: of more, nobody reads."""


def explanation(
    turn_id: str,
    selection: Selection,
    recall: Recall,
    *,
    equal: bool,
    report: Mapping[str, Any] | None = None,
) -> Explanation:
    """What was brought in for a call, with every decision, and where it was cut.

    Args:
        turn_id: of the call.
        selection: once more, or with another configuration.
        recall: what was looked at.
        equal: whether all of it is what was sent.
        report: of the call, as it is stored: where the choice is the one that it has, a rule that is gone meanwhile
            changes nothing of what pieces were measured by, nor, where as many tokens are used, of the room.
    """
    near = equal or (report is not None and _is_near(selection, report))
    same = equal or (report is not None and same_choice(selection, report))
    cut = selection.outcome.cut
    is_cut = bool(cut.dropped or cut.shortened or selection.outcome.line.below)
    return Explanation(
        turn_id=turn_id,
        asked=recall.query,
        equal=equal,
        brought_in=brought_in(selection, recall),
        earlier=earlier(selection),
        passed_over=[
            piece if same else piece.model_copy(update=UNKNOWN_ROOM)
            for piece in passed_over(selection, recall)
        ],
        decisions=selection.outcome.decisions,
        cut=("moved" if cut.moved else "stands") if is_cut else "",
        cut_before=cut.marks.drop or "" if is_cut else "",
        cut_budget=selection.marks.budget,
        recall=selection.outcome.recall,
        taken=_room_taken(selection) if same else None,
        nearest=_nearest(selection, recall) if near else None,
    )


def same_choice(selection: Selection, report: Mapping[str, Any]) -> bool:
    """Whether a turn that is made again chooses what it chose, by its stored report, though a text may not be there any more."""
    outcome, recorded = selection.outcome, report.get("prune_decisions", ())
    if _fates(recorded, _is_no_rule) != _fates(_plain(selection), _is_no_rule):
        return False
    quoted = (*outcome.contexts.values(), *(pin.text for pin in outcome.pins.values()))
    # A placeholder may cost other tokens than the value that went out.
    is_same = abs(outcome.used - report.get("token_used", 0)) <= JOIN_TOKENS
    return is_same or any(map(PLACEHOLDER.search, quoted))


def _is_near(selection: Selection, report: Mapping[str, Any]) -> bool:
    """Whether the decisions on what was looked at are the same."""
    recorded = report.get("prune_decisions", ())
    return _fates(recorded, _is_looked_at) == _fates(_plain(selection), _is_looked_at)


def _plain(selection: Selection) -> list[dict[str, Any]]:
    return [decision.model_dump(mode="json") for decision in selection.outcome.decisions]


def _is_looked_at(name: str) -> bool:
    return name.startswith(RECALLED)


def _is_no_rule(name: str) -> bool:
    """A rule may cost another count of tokens than what says that its text is gone."""
    return not is_rule(name)


def _fates(
    decisions: Sequence[Mapping[str, Any]], is_wanted: Callable[[str], bool]
) -> list[tuple[str, str, str, int, int]]:
    """The decisions on what is wanted; those side by side and alike as one, as they are stored.

    What is left out is compared without its tokens: masked, it may cost more or less.
    """
    fates: list[tuple[str, str, str, int, int]] = []
    for decision in decisions:
        name, fate = decision["block_id"], (decision["action"], decision["reason"])
        if not is_wanted(name):
            continue
        count, tokens = decision.get("count", 1), decision.get("token_estimate", 0)
        if fate[0] == "dropped":
            tokens = 0
        if fates and fates[-1][1:3] == fate:
            first, _, _, more, others = fates.pop()
            name, count, tokens = first, count + more, tokens + others
        fates.append((name, *fate, count, tokens))
    return fates


def _nearest(selection: Selection, recall: Recall) -> NearestThere | None:
    """What the pieces were measured by that are no nearer."""
    if not any(decision.reason == NOT_NEARER for decision in selection.outcome.decisions):
        return None
    sent_piece, pin = recall.near_sent, selection.outcome.near_pin
    is_quoted = pin is not None and (sent_piece is None or pin[1] > sent_piece[1])
    nearest = pin if is_quoted else sent_piece
    if nearest is None:
        return None
    return NearestThere(
        id=nearest[0].removeprefix(MESSAGE),
        score=nearest[1],
        is_quoted=is_quoted,
        needed=nearest[1] * selection.outcome.near_share,
    )


def _room_taken(selection: Selection) -> RoomTaken | None:
    shares, recall = selection.outcome.shares, selection.outcome.recall
    if shares is None or recall is None or recall.state != "looked":
        return None
    return RoomTaken(
        around=shares.around,
        taken=shares.for_pieces,
        pieces=shares.pieces,
        kept=shares.withheld.tokens,
        why=shares.withheld.why,
        left=shares.left,
    )


def brought_in(selection: Selection, recall: Recall) -> list[BroughtIn]:
    """The pieces that went in for this call: what relevance chose, the best first, then what was given."""
    materials = {material.id: material for material in selection.materials}
    parts = {
        name: part for pin in selection.outcome.pins.values() for name, part in pin.refs if part
    }
    pieces = [
        piece
        for decision in selection.outcome.decisions
        if decision.action != "dropped" and decision.reason != THERE_ALREADY
        for piece in _piece(decision, materials, recall, parts)
    ]
    return sorted(pieces, key=lambda piece: -(piece.score if piece.score is not None else -1.0))


def earlier(selection: Selection) -> list[BroughtInBefore]:
    """What was brought in before, and stands where it was sent."""
    costs: dict[str, list[int]] = {}
    for decision in selection.outcome.decisions:
        if decision.reason == THERE_ALREADY:
            costs.setdefault(decision.block_id, []).append(decision.token_estimate)
    before = selection.marks.pins
    return [
        BroughtInBefore(
            asked=anchor,
            ids=[name.partition(":")[2] for name, _ in pin.refs],
            tokens=costs[pin.refs[0][0]].pop(0),
            parts=[name.partition(":")[2] for name, sentences in pin.refs if sentences],
        )
        # Several may begin with the same text, and what this call put in may, too.
        for anchor, pin in selection.outcome.pins.items()
        if anchor in before and pin.refs and costs.get(pin.refs[0][0])
    ]


def passed_over(selection: Selection, recall: Recall) -> list[PassedOver]:
    """The pieces that were looked at to be brought in and left out, the nearest first."""
    materials = {material.id: material for material in selection.materials}
    pieces, shares = list[PassedOver](), selection.outcome.shares
    for decision in selection.outcome.decisions:
        if decision.action != "dropped" or len(pieces) == MOST_PASSED_OVER:
            continue
        name = decision.block_id
        if (material := materials.get(name)) is not None:
            piece = PassedOver(
                id=name,
                kind=material.section.partition("__")[0],
                reason=decision.reason,
                tokens=decision.token_estimate,
                room=decision.room,
                who=material.source,
                at=material.at,
                score=material.score,
            )
            pieces.append(piece)
        elif (candidate := recall.candidate(name)) is not None:
            piece = _passed_over(decision, candidate, recall)
            if shares is not None and name in shares.parts:
                piece.best, piece.best_room = shares.parts[name]
            pieces.append(piece)
    return sorted(pieces, key=lambda piece: -(piece.score if piece.score is not None else -1.0))


def _passed_over(decision: PruneDecision, candidate: Candidate, recall: Recall) -> PassedOver:
    kind, _, name = decision.block_id.partition(":")
    features, snippet = recall.explain(name), candidate.snippet
    return PassedOver(
        id=name,
        kind=KINDS[kind],
        reason=decision.reason,
        tokens=decision.token_estimate,
        room=decision.room,
        who=snippet.name or ("" if kind == "e" else snippet.kind),
        at=snippet.at,
        score=sum(features.values()) if features else None,
        features=features,
    )


def _piece(
    decision: PruneDecision,
    materials: Mapping[str, Material],
    recall: Recall,
    parts: Mapping[str, tuple[int, ...]],
) -> Iterator[BroughtIn]:
    name, is_part = decision.block_id, decision.action == "degraded"
    material, candidate = materials.get(name), recall.candidate(name)
    if material is not None:
        yield BroughtIn(
            id=name,
            kind=material.section.partition("__")[0],
            who=material.source,
            at=material.at,
            # Of a text that is not there, nobody can say what it alone cost.
            tokens=0 if material.text in GONE else decision.token_estimate,
            is_part=is_part,
            score=material.score,
            text=material.text,
        )
    elif candidate is not None:
        features = recall.explain(name.partition(":")[2])
        snippet = candidate.snippet
        yield BroughtIn(
            id=name.partition(":")[2],
            kind=KINDS[name[:1]],
            who=snippet.name or ("" if name[:1] == "e" else snippet.kind),
            at=snippet.at,
            tokens=decision.token_estimate,
            is_part=is_part,
            score=sum(features.values()),
            features=features,
            words=shared(recall.query, snippet.text),
            text=snippet.text,
            spans=spans_of(snippet.text, parts[name]) if is_part and name in parts else [],
        )


def shared(query: str, text: str) -> list[str]:
    """The words of a query that a text has, as it has them; of unspaced scripts the longest stretches."""
    query_terms = set(terms(query))
    words = [
        word
        for word in dict.fromkeys(tokens(text))
        if query_terms.intersection(terms(word) if word.isascii() or len(word) > PAIR else [word])
    ]
    query_text = query.lower()
    stretches: list[str] = []
    for word in words:
        last = stretches[-1] if stretches else ""
        if not word.isascii() and last and last[-1] == word[0] and last + word[1:] in query_text:
            stretches[-1] = last + word[1:]
        elif not any(word in other and not word.isascii() for other in stretches):
            stretches.append(word)
    whole = [
        w for w in stretches if not any(w != o and w in o and not w.isascii() for o in stretches)
    ]
    return list(dict.fromkeys(whole))
