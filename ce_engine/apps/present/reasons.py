"""Why a message went out or did not, and why it was not brought back, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ce_engine.apps.present.language import ENGLISH, Say
from ce_engine.apps.present.vocabulary import word
from ce_engine.prepare.compose.sections import FRAMING
from ce_engine.schema.replay import PassedOver, RoomTaken
from ce_engine.schema.report import Report
from ce_engine.schema.rows import TurnRow


BELOW_CUT, NEVER_OUT = ("dropped", "below_cut"), ("kept", "never_out")

WHY = {
    ("dropped", "below_cut"): "It stands before the cut, which was made when there was no room for all: the oldest messages go first. It then stays where it is, so that a provider can cache what follows.",
    ("dropped", "older_step_of_this_turn"): "An older step of this very turn: it made room for the newest ones. A line in the prompt names its evidence.",
    ("dropped", "orphaned_tool_result"): "A tool result whose call is not there: providers refuse it.",
    ("dropped", "unanswered_tool_call"): "A tool call without its results: providers refuse it.",
    ("dropped", "repeated_system_message"): "The same system message stands there already.",
    ("dropped", "not_chosen"): "The pruner did not choose it.",
    ("dropped", "over_budget"): "It found no room in what was left of the budget.",
    ("dropped", "over_reserve"): "It found no room in what may be taken: the question was not seen to go back to what was said earlier, so the rest of the budget stays free, and the new cut lasts for some turns.",
    ("dropped", "over_credit"): "It found no room in what may be taken: a talk brings back what its calls have saved by now, so that it does not cost more than without us.",
    ("dropped", "over_share"): "It found no room in the part of the budget that an agent with tools gives to what comes back: the rest stays free for its next steps, so that another cut does not follow soon.",
    ("dropped", "over_length"): "It is too long to go in whole, and none of its sentences can stand for it.",
    ("dropped", "not_nearer"): "The cut stands, and something that goes out is near to the question: only what is near enough beside that is added.",
    ("dropped", "below_floor"): "It scored far less than the best of its kind, and is not among the first four, which may go in whatever they score.",
    ("dropped", "over_limit"): "More pieces were found than may be brought in.",
    ("dropped", "over_layer_budget"): "Its layer's share of the budget was spent.",
    ("dropped", "over_tier_budget"): "Its priority tier had no tokens left.",
    ("dropped", "duplicate"): "Another piece says the same.",
    ("dropped", "conflict"): "Other evidence contradicts it, and counts more.",
    ("dropped", "said_by_results"): "Tool results go in before answers here, as most answers repeat them: no answer was brought back for itself.",
    ("dropped", "sensitivity"): "It is too sensitive to be sent.",
    ("dropped", "expired"): "It is not valid any more.",
    ("degraded", "older_tool_result"): "An older tool result, shortened to make room; the whole of it is stored as evidence.",
    ("degraded", "retrieved_text"): "The retrieved text in it was shortened; the best passages stay.",
    ("degraded", "rendered_conversation"): "A helper's prompt: the oldest of the conversation in it was left out.",
    ("degraded", "repeated_result"): "The same result went out before: a reference stands for it.",
    ("degraded", "changed_fields"): "A known record: only what changed of it goes out.",
    ("degraded", "compact_json"): "The same JSON in fewer tokens.",
    ("degraded", "selected_lines"): "Some of its lines; an agent can fetch the rest.",
    ("degraded", "excerpt"): "Its best sentences: the whole of it had no room.",
    ("degraded", "shorter"): "The pruner shortened it.",
    ("kept", "question"): "The question of this turn is never left out of it.",
    ("kept", "newest"): "The newest message of this turn is never left out of it.",
    ("kept", "newest_results"): "The newest complete tool call of this turn is never left out of it.",
    ("kept", "never_out"): "Not left out of this turn: the app protects it, or it waits for a tool's result.",
    ("kept", "pinned"): "It stays until the cut moves, since what was brought in for it does.",
    ("kept", "fits"): "It fits.",
    ("kept", "must"): "It must be kept.",
    ("kept", ""): "The app's own message, as it is.",
}  # fmt: skip
"""Why a piece went out or did not, in a sentence; the reports' codes."""

PASSED = {
    "over_budget": "Quoted, it needs {tokens} tokens, and {room} were free.",
    "over_reserve": "Quoted, it needs {tokens} tokens, and {room} might be taken: the question was not seen to go back to what was said earlier, so the rest of the budget stays free, and the new cut lasts for some turns.",
    "over_share": "Quoted, it needs {tokens} tokens, and {room} might be taken: an agent with tools gives only a part of its budget to what comes back, and keeps the rest free for its next steps.",
    "over_credit": "Quoted, it needs {tokens} tokens, and {room} might be taken: a talk brings back what its calls have saved by now, so that it does not cost more than without us.",
}  # fmt: skip
"""Why a piece that had no room was not brought back, where it is known how much it needed."""

NO_QUOTES = "Quoted, it needs {tokens} tokens; {free} were free, and the words around quotes alone need {around}."
"""The same, where nothing could be quoted."""

KEPT_FROM_QUOTES = "Quoted, it needs {tokens} tokens; {rest} of the {free} that were free might be taken, and the words around quotes alone need {around}."
LATER = "Smaller pieces took {tokens} of them after it."
BEST = "Its best sentences need {tokens} tokens, and {room} were left then of what might be taken."

KEPT = {
    "over_reserve": "{tokens} kept so that the new cut lasts",
    "over_share": "{tokens} kept for an agent's next steps",
    "over_credit": "{tokens} kept, as the calls have not saved more by now",
}
"""What tokens are kept for that are free, by `RoomTaken.why`."""

NOT_NEARER = "The question was not seen to go back to what was said earlier: only what is near enough to it beside what stands there is added, and this is not."  # fmt: skip
"""Why a piece was not brought back in a talk whose cut stands."""

CUT = {
    "moved": "It stands before the cut. The cut moved in this turn, since there was no room for all: it goes deep, so that it can stay for some turns.",
    "stands": "It stands before the cut, which turn {turn} made and which stands since, so that a provider can cache what follows.",
}  # fmt: skip
"""Why a message is left out that stands before the cut."""

RECALL = {
    "looked": "It was not among the nearest to the question, {most} at most, that were looked at.",
    "chosen_before": "What comes back for a question is chosen in its first call, and again where the cut moves; this call chose nothing.",
    "no_room": "Nothing was looked for to be brought back: no tokens were free for it.",
    "off": "Nothing may be put into this call.",
}  # fmt: skip
"""Why a message was not looked at to be brought back, by `RecallReport.state`."""

GOES_BACK = {
    True: "The question was seen to go back to what was said earlier: what it needs has the room.",
    False: "The question was not seen to go back to what was said earlier: little is brought back, and what is free stays free.",
}  # fmt: skip


ACTIONS = {
    "kept": "It went out as it is.",
    "dropped": "It was left out.",
    "injected": "Put in beside the app's own messages.",
    "restored": "Brought back from the store: the app did not send it.",
    "shortened": "It went out shortened.",
}


def reason_words(reason: tuple[str, str], say: Say = ENGLISH) -> str:
    """Why a piece went out or did not, in a sentence; a reason that is not known here is told as it is."""
    if reason in WHY:
        return say(WHY[reason])
    action, code = reason
    words = ACTIONS.get(action)
    if words and not code:
        return say(words)
    return f"{word(action, say)} {code.replace('_', ' ')}".strip()


def moved_in(turns: Sequence[TurnRow], turn: int) -> int | None:
    """The turn that made the cut which a turn stands behind, from 1; `None` where that is not stored."""
    lane = turns[turn - 1].lane
    numbers = (n for n in range(turn, 0, -1) if turns[n - 1].lane == lane)
    return next((n for n in numbers if turns[n - 1].report.get("cut") == "moved"), None)


@dataclass(frozen=True, slots=True)
class Reasons:
    """The reasons of one turn, in words; `moved_in` is the turn that made its cut, `room` where its room went."""

    report: Report
    moved_in: int | None = None
    say: Say = ENGLISH
    room: RoomTaken | None = None

    def of(self, reason: tuple[str, str]) -> str:
        """Why a message went out or did not."""
        cut = self.report.cut
        if reason == BELOW_CUT and (cut == "moved" or (cut == "stands" and self.moved_in)):
            return self.say(CUT[cut], turn=self.moved_in or 0)
        return reason_words(reason, self.say)

    def passed(self, piece: PassedOver) -> str:
        """Why a piece was looked at and not brought in."""
        recall, words = self.report.recall, PASSED.get(piece.reason)
        if piece.reason == "not_nearer" and recall is not None and recall.goes_back is False:
            return self.say(NOT_NEARER)
        if words is None or piece.room is None:
            return reason_words(("dropped", piece.reason), self.say)
        return " ".join(self._without_room(piece, words, piece.room))

    def _without_room(self, piece: PassedOver, words: str, room: int) -> Iterator[str]:
        """What it needed, and what there was; so that it adds up to what was free in the turn."""
        say, split = self.say, self.room
        if split is not None and split.left < 0 and not split.pieces:
            values = {"tokens": piece.tokens, "free": split.free, "around": split.around}
            yield say(
                KEPT_FROM_QUOTES if split.kept else NO_QUOTES,
                rest=split.free - split.kept,
                **values,
            )
            return
        yield say(words, tokens=piece.tokens, room=room)
        if split is not None:
            left = split.left + (split.kept if piece.reason == "over_budget" else 0)
            if room > left >= 0:
                yield say(LATER, tokens=room - left)
        if piece.best is not None and piece.best < piece.tokens:
            yield say(BEST, tokens=piece.best, room=piece.best_room or 0)

    def not_recalled(self) -> str:
        """Why a message that is left out was not looked at to be brought back; `""` where that is not stored."""
        recall = self.report.recall
        if recall is None or recall.state not in RECALL:
            return ""
        return self.say(RECALL[recall.state], most=recall.most)

    def notes(self) -> list[str]:
        """What is to be said of the turn as a whole: of its cut, and of its question."""
        report, say, notes = self.report, self.say, list[str]()
        if report.cut == "moved":
            notes.append(say("the cut moved in this turn"))
        elif report.cut == "stands" and self.moved_in:
            notes.append(say("the cut of turn {turn} stands", turn=self.moved_in))
        recall = report.recall
        if recall is not None and recall.goes_back is not None:
            notes.append(say(GOES_BACK[recall.goes_back]))
        if recall is not None:
            room = self.room.free if self.room is not None else recall.room
            free = say("{room} tokens were free for what comes back", room=room)
            free += self._aside(room)
            notes.append(say(": ").join([free, *self._shares()]))
        return notes

    def _aside(self, room: int) -> str:
        """Why a few tokens less were free than are left of the budget; `""` where they are not."""
        spare = (self.report.token_budget or 0) - self.report.token_used
        if not room < spare <= room + 2 * FRAMING:
            return ""
        return self.say(
            " ({spare} are left of the budget: a few stay aside for the headings of quotes)",
            spare=spare,
        )

    def _shares(self) -> list[str]:
        """Where the tokens went that were free, in one text; none where that is not known."""
        split, say, recall = self.room, self.say, self.report.recall
        if split is None and recall is not None and recall.state == "looked" and recall.room:
            if (self.report.token_budget or 0) - self.report.token_used >= recall.room:
                return [say("none of them was taken")]
            return [
                say("where they went cannot be told, as the turn cannot be made again as it was")
            ]
        if split is None or split.free <= 0:
            return []
        if split.left < 0:
            return [] if split.pieces else [self._no_quotes(split)]
        singular, plural = "{tokens} for {count} piece", "{tokens} for {count} pieces"
        parts = [
            say("{tokens} for the words around quotes", tokens=split.around),
            say(singular, plural, tokens=split.taken, count=split.pieces) if split.pieces else "",
            say(KEPT[split.why], tokens=split.kept) if split.kept and split.why in KEPT else "",
            say("{tokens} left over", tokens=split.left),
        ]
        return [say(", ").join(filter(None, parts))]

    def _no_quotes(self, split: RoomTaken) -> str:
        """That nothing could be quoted: what was not kept was too few for the words around it."""
        say = self.say
        few = say("too few for the words around quotes, which need {tokens}", tokens=split.around)
        if not (split.kept and split.why in KEPT):
            return few
        kept = say(KEPT[split.why], tokens=split.kept)
        rest = say("{tokens} left over", tokens=split.free - split.kept)
        return say(", ").join([kept, rest]) + say(": ") + few
