"""What the stages make of a line: a plan, and all that there is to tell about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ce_engine.prepare.blocks.material import LAYERS, Material
from ce_engine.prepare.choose.anchored_context import Pin
from ce_engine.prepare.choose.candidates import CHARS_A_TOKEN, MESSAGE, RoomShares
from ce_engine.prepare.choose.cut import Cut
from ce_engine.prepare.choose.standing_context import StandingContext
from ce_engine.prepare.compose.compose import NO_TEXTS, InputTexts
from ce_engine.prepare.compose.render import Snippet
from ce_engine.prepare.compose.shorter_texts import ShorterText
from ce_engine.prepare.message_groups import MessageItem, MessageLine
from ce_engine.prepare.tool_results.forms import Form
from ce_engine.schema.call import Step
from ce_engine.schema.enums import Layer
from ce_engine.schema.report import PruneDecision, RecallReport


@dataclass(slots=True)
class Outcome:
    """The plan and what there is to tell about it. Tokens are counted as `used`, of `limit`."""

    plan: list[Step]
    unchanged: bool
    used: int
    before: int
    cut: Cut
    line: MessageLine
    over_budget: bool = False
    crowded: bool = False  # whether what a question needs has no room behind the standing cut
    injected: str = ""
    injected_tokens: int = 0
    chunks: Counter[Layer] = field(default_factory=Counter)  # pieces that are put in
    evidence_ids: list[str] = field(default_factory=list)
    quoted_ids: list[str] = field(
        default_factory=list
    )  # messages whose text was chosen to stand in what is put in
    decisions: list[PruneDecision] = field(default_factory=list)
    restored: int = 0
    shortened: int = 0
    shorter: dict[int | str, ShorterText] = field(
        default_factory=dict
    )  # what is left of texts, by `Item.key`
    pruned: dict[int, str] = field(
        default_factory=dict
    )  # why the pruner left out groups, by position
    retrieved_cut: bool = False  # whether a retrieved piece had no room, or not the whole of it
    standing: StandingContext = field(default_factory=StandingContext)
    contexts: dict[str, str] = field(default_factory=dict)
    texts: InputTexts = NO_TEXTS
    recall: RecallReport | None = None  # how it was looked for what comes back
    shares: RoomShares | None = None  # where the tokens went that were free for it
    near_pin: tuple[str, float] | None = None  # the nearest quoted before, and its score
    near_share: float = 0.0  # of the score of the nearest that goes out, what another piece needs
    pins: dict[str, Pin] = field(default_factory=dict)  # what stands before a message, by its id
    saved: dict[int, int] = field(default_factory=dict)  # by short forms, by host index
    forms: dict[int | str, Form] = field(default_factory=dict)  # of tool results, by `Item.key`
    alone: Mapping[int | str, int] = field(default_factory=dict)  # see `CandidateSources`

    def leave_out(self, materials: Sequence[Material]) -> None:
        """Tell of what was collected beyond what may be."""
        for material in materials:
            layer = LAYERS[material.section]
            self.standing.truncated.add(layer)
            if layer is Layer.RULES:
                self.standing.rules_dropped.append(material.id)
            self.decisions.append(
                PruneDecision(
                    block_id=material.id,
                    action="dropped",
                    reason="over_limit",
                    token_estimate=len(material.text) // CHARS_A_TOKEN,
                )
            )

    def count_injected(self, loose: Sequence[Snippet], candidate_ids: Sequence[str]) -> None:
        """Count the pieces that are in, of the pins and the `loose` ones; name their evidence and messages.

        `candidate_ids` are ids of the candidates among them.
        """
        pins = self.pins.values()
        self.chunks[Layer.RETRIEVED] = len(loose) + sum(len(pin.refs) for pin in pins)
        ids = [evidence_id for pin in pins for evidence_id in pin.evidence_ids]
        ids += [snippet.evidence_id for snippet in loose if snippet.evidence_id]
        self.evidence_ids = list(dict.fromkeys(ids))
        quoted = (name.removeprefix(MESSAGE) for name in candidate_ids if name.startswith(MESSAGE))
        self.quoted_ids = list(quoted)

    def add_evidence(self, evidence: Mapping[str, Layer]) -> None:
        """Name evidence that is in beside the pieces, by id; each that is in no piece is one more."""
        self.chunks.update(
            layer for name, layer in evidence.items() if name not in self.evidence_ids
        )
        self.evidence_ids = list(dict.fromkeys([*evidence, *self.evidence_ids]))

    def alone_of(self, item: MessageItem) -> int:
        """Tokens that a message takes by itself: what it refers to need not go out with it."""
        return self.alone.get(item.key, item.tokens)

    def saved_of(self, item: MessageItem) -> int:
        """Tokens that a message's form saves."""
        form = self.forms.get(item.key)
        return 0 if form is None else form.saved

    @property
    def groups_dropped(self) -> int:
        """Groups that the cut or the pruner left out."""
        below = self.line.below
        return len(self.cut.dropped) + (below.groups if below else 0)
