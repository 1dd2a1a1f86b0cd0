"""What is put in whatever the messages say: rules, settings, tasks, a summary; each within its layer's share (D-02)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ce_engine.config import BudgetConfig
from ce_engine.prepare.budget import share, shares
from ce_engine.prepare.material import LAYERS, Material
from ce_engine.prepare.prune import RANK
from ce_engine.schema.enums import Layer, Priority
from ce_engine.schema.report import PruneDecision


FACTS = "knowledge__context"
"""The section whose materials compete with what relevance nominates; all others stand."""

LINE = 2
"""Tokens that a line costs beyond its text: a number, a dash, the line's end."""

Render = Callable[[str, Sequence[Material]], str]
"""The text of a section with its heading."""


@dataclass(slots=True)
class Standing:
    """`contexts` by section, what they cost in `tokens`, and by layer; `warnings` are codes."""

    contexts: dict[str, str] = field(default_factory=dict)
    tokens: int = 0
    layers: dict[Layer, int] = field(default_factory=dict)
    truncated: set[Layer] = field(default_factory=set)
    decisions: list[PruneDecision] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def stand(
    materials: Sequence[Material],
    *,
    room: int | None,
    said: int,
    budget: BudgetConfig,
    count: Callable[[str], int],
    render: Render,
) -> Standing:
    """Choose among the materials of all sections but the facts, and render them.

    With room for all of it and what was `said`, all goes in. Else the layers' shares bind: settings
    go by their score, the lowest first; rules by priority, and what is `must` stays in any case.

    Args:
        materials: in the order of their sources.
        room: tokens for messages and materials together; `None` is no limit.
        said: tokens of the line's messages.
        budget: shares and minima of the layers.
        count: tokens of a text.
        render: makes a section's text of its materials.
    """
    made = Standing()
    costs = {m.id: count(m.text) + LINE for m in materials if m.section != FACTS}
    standing = [m for m in materials if m.id in costs]
    if not standing:
        return made
    wanted = {Layer.IMMEDIATE: said}
    for material in standing:
        layer = LAYERS[material.section]
        wanted[layer] = wanted.get(layer, 0) + costs[material.id]
    allotted = wanted if room is None else shares(room, budget, wanted)
    allotted = {**allotted, Layer.IMMEDIATE: wanted[Layer.IMMEDIATE]}  # the cut makes its room
    if room is not None and wanted.get(Layer.RULES, 0) > share(Layer.RULES, room, budget):
        made.warnings.append("CONTEXT_RULES_OVERBUDGET")
    kept = _kept(standing, costs, allotted, made)
    for section, layer in LAYERS.items():
        texts = [m for m in standing if m.section == section and m.id in kept]
        if not texts:
            continue
        made.contexts[section] = text = render(section, texts)
        tokens = count(text) + LINE
        made.tokens += tokens
        made.layers[layer] = made.layers.get(layer, 0) + tokens
    return made


def _kept(
    standing: Sequence[Material], costs: dict[str, int], allotted: dict[Layer, int], made: Standing
) -> set[str]:
    """What stays: by priority, then by score, while the layer has room; each fate is told."""
    left, kept = dict(allotted), set()
    for material in sorted(standing, key=lambda m: (RANK[m.priority], -(m.score or 0.0))):
        layer, tokens = LAYERS[material.section], costs[material.id]
        must = material.priority is Priority.MUST
        fits = must or tokens <= left.get(layer, 0)
        if fits:
            kept.add(material.id)
            left[layer] = left.get(layer, 0) - tokens
        else:
            made.truncated.add(layer)
        made.decisions.append(
            PruneDecision(
                block_id=material.id,
                action="kept" if fits else "dropped",
                reason="must" if must else "fits" if fits else "over_layer_budget",
                token_estimate=tokens,
            )
        )
    return kept
