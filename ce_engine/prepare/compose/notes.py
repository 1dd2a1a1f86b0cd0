"""What is put in for the sake of what is left out: a line that names it, and a summary of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ce_engine.prepare.blocks.material import LAYERS, Material, block_of
from ce_engine.prepare.choose.pruner_guard import BlockChooser
from ce_engine.prepare.compose.sections import Sections
from ce_engine.prepare.outcome import Outcome
from ce_engine.prepare.sources import CandidateSources
from ce_engine.schema.document import ContextBlock
from ce_engine.schema.enums import Layer
from ce_engine.schema.report import PruneDecision


class Notes:
    """Adds texts to the contexts of one call while there is room.

    `summed` is what became of the summary, and `evidence` has its evidence, if it goes out.
    """

    def __init__(self, sections: Sections, chooser: BlockChooser) -> None:
        self.sections = sections
        self.chooser = chooser
        self.summed: PruneDecision | None = None
        self.evidence: dict[str, Layer] = {}

    def tell(
        self, contexts: dict[str, str], out: Outcome, sources: CandidateSources, left: int
    ) -> int:
        """Bring in the summary of what the cut of `out` leaves out; return its tokens."""
        groups = (out.line.groups[position] for position in out.cut.dropped)
        entries = frozenset(
            item.n for group in groups for item in group.items if item.n is not None
        )
        if out.line.below is not None:
            entries = entries | out.line.below.entries if entries else out.line.below.entries
        summary = sources.summary(entries) if entries else None
        return 0 if summary is None else self.sum_up(contexts, summary, left)

    def sum_up(self, contexts: dict[str, str], summary: Material, left: int) -> int:
        """Add a summary, if the pruner lets it in; return its tokens."""

        def text(content: str) -> str:
            return self.sections.text(summary.section, [replace(summary, text=content)])

        def price(block: ContextBlock) -> int:
            return self._cost_of({**contexts, summary.section: text(block.content)}, contexts)

        block = block_of(summary, 0)
        block.token_estimate = price(block)
        fate = self.chooser.choose([block], left, price)[summary.id]
        self.summed = fate.decision
        content = summary.text if fate.text is None else fate.text
        spent = self.add(contexts, summary.section, text(content), left) if fate.stays else 0
        if not spent:
            self.leave()
        elif summary.evidence_id:
            self.evidence = {summary.evidence_id: LAYERS[summary.section]}
        return spent

    def leave(self) -> None:
        """Tell that the summary had no room after all."""
        self.evidence = {}
        if self.summed is not None and self.summed.action != "dropped":
            self.summed.action, self.summed.reason = "dropped", "over_budget"

    def add(self, contexts: dict[str, str], name: str, note: str, left: int) -> int:
        """Add a text to its section, if there is room; return its tokens."""
        more = {**contexts, name: "\n".join(filter(None, [contexts.get(name), note]))}
        spent = self._cost_of({**contexts, name: note}, contexts)
        if not note or spent > left:
            return 0
        contexts[name] = more[name]
        return spent

    def _cost_of(self, more: Mapping[str, str], contexts: Mapping[str, str]) -> int:
        """Tokens of the one text that is new or another in `more`."""
        new = "".join(text for name, text in more.items() if contexts.get(name) != text)
        fences = self.sections.around(more) - self.sections.around(contexts)
        return self.sections.count(new) + 2 + fences
