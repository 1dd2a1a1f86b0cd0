"""What is put in whatever the messages say: rules, settings, tasks, a summary; each within its layer's share (D-02)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby

from ce_engine.config import BudgetConfig
from ce_engine.prepare.blocks.material import LAYERS, Material, block_of
from ce_engine.prepare.choose.budget import share, shares
from ce_engine.prepare.choose.prune import RANK
from ce_engine.prepare.choose.pruner_guard import BlockChooser, is_cut
from ce_engine.prepare.compose.sections import Sections
from ce_engine.schema.document import ContextBlock
from ce_engine.schema.enums import Layer
from ce_engine.schema.report import PruneDecision


FACTS = "knowledge__context"
"""The section whose materials compete with what relevance nominates; all others stand."""

LINE = 2
"""Tokens that a line costs beyond its text: a number, a dash, the line's end."""

TRIMMED = (Layer.SETTINGS, Layer.IMMEDIATE, Layer.RULES)
"""The layers of what stands, in the order in which they are trimmed."""

Near = Callable[[Mapping[str, str]], Mapping[str, float]]
"""How near texts are to the question, by name."""

Rank = tuple[bool, int, float, float]


@dataclass(slots=True)
class StandingContext:
    """`contexts` by section, what they cost in `tokens`, and by layer; `warnings` are codes.

    `rules_dropped` are the ids of the rules that do not go out, `evidence` has those of the evidence that does.
    """

    contexts: dict[str, str] = field(default_factory=dict)
    tokens: int = 0
    layers: dict[Layer, int] = field(default_factory=dict)
    truncated: set[Layer] = field(default_factory=set)
    decisions: list[PruneDecision] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    rules_dropped: list[str] = field(default_factory=list)
    evidence: dict[str, Layer] = field(default_factory=dict)


def stand(
    materials: Sequence[Material],
    *,
    room: int | None,
    size: int,
    most: int,
    budget: BudgetConfig,
    sections: Sections,
    chooser: BlockChooser,
    near: Near,
) -> StandingContext:
    """Choose among the materials of all sections but the facts, and render them.

    With room for all of it and `size`, all goes in that the pruner lets in. Else the layers'
    shares bind: settings go by their score, the lowest first; rules as `_Standing` has it. What
    must be kept stays in any case.

    Args:
        materials: in the order of their sources.
        room: tokens for messages and materials together; `None` is no limit.
        size: tokens of the line's messages.
        most: tokens that all sections together may have, whatever the shares say: beside what may
            never be left out. Only what must be kept goes beyond.
        budget: shares and minima of the layers.
        sections: renders and counts; what stands around texts counts as the first one's layer.
        chooser: the call's pruner.
        near: asked for rules, where not all of them go in.
    """
    standing = [m for m in materials if m.section != FACTS]
    if not standing:
        return StandingContext()
    choice = _Standing(standing, sections, chooser, near)
    needs = {Layer.IMMEDIATE: size}
    for material in standing:
        layer = LAYERS[material.section]
        needs[layer] = needs.get(layer, 0) + choice.costs[material.id]
    allotted = needs if room is None else shares(room, budget, needs)
    allotted = {**allotted, Layer.IMMEDIATE: needs[Layer.IMMEDIATE] - size}  # the cut makes room
    choice.choose(allotted)
    result = choice.within(most)
    over = room is not None and needs.get(Layer.RULES, 0) > share(Layer.RULES, room, budget)
    if over or Layer.RULES in result.truncated:
        result.warnings.append("CONTEXT_RULES_OVERBUDGET")
    return result


class _Standing:
    """Materials as they are chosen.

    Rules go in by steps: the owner's own before those that a program, a source or a text gave, and of
    each the more important first. In a step the nearest to the question come first; where one of a step
    had no room, none of a lower step takes its place (D-02, D-06).
    """

    def __init__(
        self, standing: Sequence[Material], sections: Sections, chooser: BlockChooser, near: Near
    ) -> None:
        self.standing = standing
        self.sections = sections
        self.chooser = chooser
        self._near = near
        self.costs = {m.id: sections.count(m.text) + LINE for m in standing}
        self.kept: dict[str, Material] = {}
        self.decisions: dict[str, PruneDecision] = {}

    def choose(self, allotted: Mapping[Layer, int]) -> None:
        for layer in dict.fromkeys(LAYERS.values()):
            materials = [m for m in self.standing if LAYERS[m.section] is layer]
            left = allotted.get(layer, 0)
            for step in _steps(materials) if layer is Layer.RULES else [materials]:
                tokens, is_whole = self._take(step, left)
                left = left - tokens if is_whole or layer is not Layer.RULES else 0

    def _take(self, step: Sequence[Material], left: int) -> tuple[int, bool]:
        """Let the pruner choose; return the tokens of what stays, and whether none had to go for its room."""
        if sum(self.costs[m.id] for m in step) > left or self.chooser.has_tiers:
            step = sorted(step, key=self._rank)
        fates = self.chooser.choose(
            [block_of(m, self.costs[m.id]) for m in reversed(step)], left, self._price
        )
        for material in step:
            fate = fates[material.id]
            if fate.decision.reason == "over_budget":
                fate.decision.reason = "over_layer_budget"
            self.decisions[material.id] = fate.decision
            if fate.stays:
                text = material.text if fate.text is None else fate.text
                self.kept[material.id] = replace(material, text=text)
        decisions = [self.decisions[m.id] for m in step]
        is_whole = all(decision.reason != "over_layer_budget" for decision in decisions)
        return sum(d.token_estimate for d in decisions if d.action != "dropped"), is_whole

    def _price(self, block: ContextBlock) -> int:
        return self.sections.count(block.content) + LINE

    def within(self, most: int) -> StandingContext:
        """The texts, without as much as must go for all of them to be within `most` tokens."""
        result = self._rendered()
        while result.tokens > most and (more := self._least(result.tokens - most)):
            for material in more:
                del self.kept[material.id]
                decision = self.decisions[material.id]
                decision.action, decision.reason = "dropped", "over_budget"
            result = self._rendered()
        dropped_materials = [m for m in self.standing if m.id not in self.kept]
        result.truncated = {
            LAYERS[m.section] for m in self.standing if is_cut(self.decisions[m.id])
        }
        result.rules_dropped = [m.id for m in dropped_materials if LAYERS[m.section] is Layer.RULES]
        result.decisions = [self.decisions[m.id] for m in sorted(self.standing, key=_importance)]
        return result

    def _rendered(self) -> StandingContext:
        """The sections' texts, and what they cost."""
        result = StandingContext()
        stays = [self.kept[m.id] for m in self.standing if m.id in self.kept]
        result.evidence = {m.evidence_id: LAYERS[m.section] for m in stays if m.evidence_id}
        for section, layer in LAYERS.items():
            materials = [m for m in stays if m.section == section]
            for context in dict.fromkeys(m.context for m in materials):
                text = self.sections.text(context, [m for m in materials if m.context == context])
                result.contexts[context] = text
                tokens = self.sections.count(text) + LINE
                result.tokens += tokens
                result.layers[layer] = result.layers.get(layer, 0) + tokens
        if result.layers:
            around = self.sections.around(result.contexts)
            result.tokens += around
            result.layers[next(iter(result.layers))] += around
        return result

    def _least(self, over: int) -> list[Material]:
        """What goes next so that it is `over` tokens less: settings, then tasks and summary, then rules (D-02)."""
        left = [m for m in self.kept.values() if m.priority not in self.chooser.must]
        left.sort(key=self._rank, reverse=True)
        materials: list[Material] = []
        for material in sorted(left, key=lambda m: TRIMMED.index(LAYERS[m.section])):
            if over <= 0:
                break
            materials.append(material)
            over -= self.decisions[material.id].token_estimate
        return self._needed(materials, -over)

    def _needed(self, materials: list[Material], spare: int) -> list[Material]:
        """Those without which it is still too much; where rules have to go, nothing stays in their place."""
        if any(LAYERS[m.section] is Layer.RULES for m in materials):
            return materials
        needed = []
        for material in reversed(materials):
            tokens = self.decisions[material.id].token_estimate
            if tokens > spare:
                needed.append(material)
            else:
                spare -= tokens
        return needed

    def _rank(self, material: Material) -> Rank:
        """Best first."""
        priority, score = _importance(material)
        if LAYERS[material.section] is not Layer.RULES:
            return False, priority, 0.0, score
        return not material.owned, priority, -self._nearness.get(material.id, 0.0), score

    @cached_property
    def _nearness(self) -> Mapping[str, float]:
        return self._near({m.id: m.text for m in self.standing if LAYERS[m.section] is Layer.RULES})


def _importance(material: Material) -> tuple[int, float]:
    return RANK[material.priority], -(material.score or 0.0)


def _steps(rules: Sequence[Material]) -> Iterator[list[Material]]:
    """Rules of one kind and priority together, best first."""

    def step(material: Material) -> tuple[bool, int]:
        return not material.owned, RANK[material.priority]

    for _, together in groupby(sorted(rules, key=step), key=step):
        yield list(together)
