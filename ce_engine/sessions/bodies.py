"""The last bodies of a lane, as they went out and as its app would have sent them; how much of the next one is the same."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from operator import itemgetter

from ce_engine.schema.call import HostMessage
from ce_engine.schema.rows import MessageRow


Unit = tuple[Hashable, int]
"""A part of a body: what it is, and its tokens."""

_TOKENS: Callable[[Unit], int] = itemgetter(1)


@dataclass(slots=True)
class OwnList:
    """The list that an app sent last: what its messages are, and the tokens up to and with each.

    Of a list that begins alike only the rest is looked at.
    """

    head: Unit | None = None
    places: Sequence[int | None] = ()
    texts: dict[int, int] = field(default_factory=dict)
    sums: array[int] = field(default_factory=lambda: array("q"))

    def follow(
        self,
        head: Unit,
        messages: Sequence[HostMessage],
        places: Sequence[int | None],
        tokens: Callable[[HostMessage], int],
    ) -> int | None:
        """The leading tokens that equal those of the list before; `None` of the first one.

        Args:
            head: what stands before the messages: who counts, and the tokens of the tools.
            messages: of the list.
            places: where they sit in the session's log; one without a place is told by its text.
            tokens: of a message.
        """
        is_first, same = self.head is None, self._alike(messages, places)
        if self.head is not None and self.head[0] != head[0]:
            same = 0
        prefix = head[1] + (self.sums[same - 1] if same else 0) if head == self.head else 0
        del self.sums[same:]
        total = self.sums[-1] if same else 0
        for message in messages[same:]:
            total += tokens(message)
            self.sums.append(total)
        self.texts = {at: text for at, text in self.texts.items() if at < same}
        self.texts |= {
            at: hash(messages[at].message.content)
            for at in range(same, len(messages))
            if places[at] is None
        }
        self.head, self.places = head, places
        return None if is_first else prefix

    @property
    def tokens(self) -> int:
        """Of the list's messages."""
        return self.sums[-1] if self.sums else 0

    def _alike(self, messages: Sequence[HostMessage], places: Sequence[int | None]) -> int:
        """How many leading messages are those of the list before."""
        old_places = self.places
        if old_places == places[: len(old_places)]:
            same = len(old_places)
        else:
            pairs = zip(old_places, places, strict=False)
            same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        return next((at for at in range(same) if self._differs(messages[at], at)), same)

    def _differs(self, message: HostMessage, at: int) -> bool:
        """Whether a message says something else than the one before, or is counted otherwise: a name was put to it."""
        text, counted = self.texts.get(at), message.counted
        if text is not None and hash(message.message.content) != text:
            return True
        before = self.sums[at - 1] if at else 0
        return counted is not None and counted[1] != self.sums[at] - before


@dataclass(slots=True)
class WholeTalk:
    """The whole of what was said in a lane, as an app would send it that keeps it all itself."""

    head: Unit | None = None
    rows: int = 0
    tokens: int = 0

    def follow(
        self,
        head: Unit,
        lane: str,
        rows: Sequence[MessageRow],
        tokens: Callable[[MessageRow], int],
    ) -> tuple[int, int | None]:
        """The tokens of all that was said, and the leading ones that were said at the call before.

        Args:
            head: what stands before: tools and system messages, and their tokens.
            lane: whose messages count.
            rows: of the session; those that were here before are not looked at again.
            tokens: of a message.
        """
        before, old_head = self.tokens, self.head
        for row in rows[self.rows :]:
            if row.lane_key == lane and not row.aside:
                self.tokens += tokens(row)
        self.rows, self.head = len(rows), head
        prefix = None if old_head is None else head[1] + before if head == old_head else 0
        return head[1] + self.tokens, prefix


@dataclass(slots=True)
class OwnMaterial:
    """What an app by hand would put into its input itself, beside the talk: rules it stored, evidence it recorded.

    Evidence stands with the question that it was recorded for, in all calls of that, and is not sent again later.
    """

    rules: Unit | None = None
    evidence_tokens: int = 0
    evidence_count: int = 0

    def follow(self, rules: Unit, new_tokens: int, *, goes_on: bool) -> tuple[int, int | None]:
        """The tokens, and those of them that stood there at the call before; `None` where the rules were others.

        Args:
            rules: what they are, and their tokens.
            new_tokens: tokens of the evidence since the call before.
            goes_on: the call is of the same question as the one before.
        """
        same = self.evidence_tokens if goes_on else 0
        prefix = rules[1] + same if self.rules == rules else None
        self.rules, self.evidence_tokens = rules, same + new_tokens
        return rules[1] + self.evidence_tokens, prefix


@dataclass(slots=True)
class LaneBodies:
    """What a lane sent last, as units; `own` and `whole` are what its app would have sent without us."""

    units: list[Unit] = field(default_factory=list)
    prefix_hash: str = ""
    is_own: bool = False  # what was sent is the app's own list as it is
    own: OwnList = field(default_factory=OwnList)
    whole: WholeTalk = field(default_factory=WholeTalk)
    material: OwnMaterial = field(default_factory=OwnMaterial)

    def follow(self, body: list[Unit]) -> tuple[int, int] | None:
        """How many leading units of a body are those of the one before, and their tokens; `None` of the first."""
        before, self.units = self.units, body
        if not before:
            return None
        same = body[: len(before)]
        if same != before:
            pairs = zip(before, body, strict=False)
            same = [new for _, new in takewhile(lambda pair: pair[0] == pair[1], pairs)]
        return len(same), sum(map(_TOKENS, same))
