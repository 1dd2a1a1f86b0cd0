"""What was brought in for a turn, piece by piece, with why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.text import Text

from ce_engine.apps.present.html_text import clip
from ce_engine.apps.present.output import clipped, moment, number, print_under, printable, short_id
from ce_engine.schema.replay import BroughtIn, Explanation


INDENT = 8
WORDS = 8
"""Shared words that are shown."""

SENT_CHARS, UNSENT_CHARS = 4000, 200
"""Characters that are shown of a stretch of a piece that went out in part, and of one that did not."""

FEATURES = {
    "words": "own words",
    "quoted": "word for word",
    "beside": "next to it",
    "near": "near it",
    "talk": "same talk",
    "speaker": "who speaks",
    "date": "the day",
    "time": "tells a time",
    "number": "tells a number",
    "related": "by another name",
    "meaning": "means the like",
}
"""What a score is made of, in words; others stand for themselves."""

LEGEND = (
    "A score adds up how rare the question's words are that stand in a text itself, next to it, near it and in the same "
    "stretch of talk; and whose words, which day, what kind of thing is asked for, what is quoted; and with an embedder how near its meaning is."
)


def print_brought_in(screen: Console, explanation: Explanation, turns: Mapping[str, int]) -> None:
    """Print the pieces, the best first.

    Args:
        screen: where to.
        explanation: what went in.
        turns: the numbers of the session's turns, by the message that each answers.
    """
    tokens = sum(piece.tokens for piece in explanation.brought_in)
    text = (
        f"{_pieces(len(explanation.brought_in))}, {number(tokens)} tokens"
        if explanation.brought_in
        else "nothing"
    )
    screen.print(Text(f"\nBrought in for this turn: {text}", style="bold"))
    if explanation.asked and any(piece.features for piece in explanation.brought_in):
        print_under(
            screen, INDENT, clipped(explanation.asked, screen.width - INDENT - 2), before="asked"
        )
    if not explanation.equal:
        for problem in explanation.problems:
            print_under(screen, INDENT, problem.detail, before="!")
    for piece in explanation.brought_in:
        _print(screen, piece)
    for before in explanation.earlier:
        turn = turns.get(before.asked)
        where = f"since turn {turn}" if turn else "since an earlier turn"
        stands = "stands where it was" if len(before.ids) == 1 else "stand where they were"
        text = f"{_pieces(len(before.ids))}, {number(before.tokens)} tokens, {stands} sent {where}"
        print_under(screen, INDENT, text, before="stays")
    if any(piece.features for piece in explanation.brought_in):
        print_under(screen, 0, LEGEND, style="dim")


def sent_stretches(piece: BroughtIn) -> list[tuple[bool, str, int]]:
    """The text of a piece in stretches: whether each went out, its beginning, and how many characters are behind it."""
    stretches, at = list[tuple[bool, str, int]](), 0
    for begin, end in [*piece.spans, (len(piece.text), len(piece.text))]:
        for is_sent, stretch in ((False, piece.text[at:begin]), (True, piece.text[begin:end])):
            excerpt, more = clip(stretch, SENT_CHARS if is_sent else UNSENT_CHARS)
            if stretch:
                stretches.append((is_sent, excerpt, more))
        at = end
    return stretches


def _pieces(count: int) -> str:
    return "1 piece" if count == 1 else f"{number(count)} pieces"


def _print(screen: Console, piece: BroughtIn) -> None:
    score = "-" if piece.score is None else f"{piece.score:.2f}"
    facts = [piece.kind, piece.who, moment(piece.at)[:16], short_id(piece.id)]
    part = ", its best sentences" if piece.is_part else ""
    tokens = f"{number(piece.tokens)} tokens{part}" if piece.tokens else ""
    head = " · ".join(filter(None, [*facts, tokens]))
    print_under(screen, INDENT, clipped(head, screen.width - INDENT), before=f"{score:>5}")
    if why := _why(piece.features, piece.words):
        print_under(screen, INDENT, why, style="dim")
    print_under(screen, INDENT, clipped(printable(piece.text), screen.width - INDENT))


def _why(features: Mapping[str, float], words: Sequence[str]) -> str:
    """A score's parts, with the words that it shares with the question."""
    word_list = ", ".join(words[:WORDS]) + (" ..." if len(words) > WORDS else "")
    return " + ".join(
        f"{FEATURES.get(name, name)} {weight:.2f}"
        + (f" ({word_list})" if name == "words" and word_list else "")
        for name, weight in features.items()
    )
