"""What is put in whatever the messages say: rules, settings, tasks, a summary; each within its layer's share (D-02)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
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

TRIMMED = (Layer.SETTINGS, Layer.IMMEDIATE, Layer.RULES)
"""The layers of what stands, in the order in which they are trimmed."""

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
    most: int,
    budget: BudgetConfig,
    count: Callable[[str], int],
    render: Render,
    frame: Callable[[Mapping[str, str]], int] = lambda _: 0,
) -> Standing:
    """Choose among the materials of all sections but the facts, and render them.

    With room for all of it and what was `said`, all goes in. Else the layers' shares bind: settings
    go by their score, the lowest first; rules by priority, and what is `must` stays in any case.

    Args:
        materials: in the order of their sources.
        room: tokens for messages and materials together; `None` is no limit.
        said: tokens of the line's messages.
        most: tokens that all sections together may have, whatever the shares say: beside what may
            never be left out. Only what is `must` goes beyond.
        budget: shares and minima of the layers.
        count: tokens of a text.
        render: makes a section's text of its materials.
        frame: tokens that stand around the sections' texts; they count as the first one's layer.
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
    gone = _over_shares(standing, costs, allotted)
    _render(made, standing, gone, count, render, frame)
    while made.tokens > most and (more := _least(standing, gone, costs, made.tokens - most)):
        gone |= dict.fromkeys(more, "over_budget")
        _render(made, standing, gone, count, render, frame)
    made.truncated = {LAYERS[m.section] for m in standing if m.id in gone}
    made.decisions = [
        _decision(m, costs[m.id], gone.get(m.id)) for m in sorted(standing, key=_rank)
    ]
    over = room is not None and wanted.get(Layer.RULES, 0) > share(Layer.RULES, room, budget)
    if over or Layer.RULES in made.truncated:
        made.warnings.append("CONTEXT_RULES_OVERBUDGET")
    return made


def _rank(material: Material) -> tuple[int, float]:
    return RANK[material.priority], -(material.score or 0.0)


def _over_shares(
    standing: Sequence[Material], costs: dict[str, int], allotted: dict[Layer, int]
) -> dict[str, str]:
    """What goes, with the reason: by priority, then by score, each layer has room for so much."""
    left, gone = dict(allotted), {}
    for material in sorted(standing, key=_rank):
        layer, tokens = LAYERS[material.section], costs[material.id]
        if material.priority is Priority.MUST or tokens <= left.get(layer, 0):
            left[layer] = left.get(layer, 0) - tokens
        else:
            gone[material.id] = "over_layer_budget"
    return gone


def _render(
    made: Standing,
    standing: Sequence[Material],
    gone: Collection[str],
    count: Callable[[str], int],
    render: Render,
    frame: Callable[[Mapping[str, str]], int],
) -> None:
    """The sections' texts, and what they cost."""
    made.contexts, made.layers, made.tokens = {}, {}, 0
    for section, layer in LAYERS.items():
        found = [m for m in standing if m.section == section and m.id not in gone]
        for context in dict.fromkeys(m.context for m in found):
            text = render(context, [m for m in found if m.context == context])
            made.contexts[context] = text
            tokens = count(text) + LINE
            made.tokens += tokens
            made.layers[layer] = made.layers.get(layer, 0) + tokens
    if made.layers:
        around = frame(made.contexts)
        made.tokens += around
        made.layers[next(iter(made.layers))] += around


def _least(
    standing: Sequence[Material], gone: Collection[str], costs: dict[str, int], over: int
) -> list[str]:
    """What goes next so that it is `over` tokens less: settings, then tasks and summary, then rules (D-02)."""
    left = [m for m in standing if m.id not in gone and m.priority is not Priority.MUST]
    left.sort(key=_rank, reverse=True)
    found: list[str] = []
    for material in sorted(left, key=lambda m: TRIMMED.index(LAYERS[m.section])):
        if over <= 0:
            break
        found.append(material.id)
        over -= costs[material.id]
    return found


def _decision(material: Material, tokens: int, gone: str | None) -> PruneDecision:
    must = material.priority is Priority.MUST
    return PruneDecision(
        block_id=material.id,
        action="kept" if gone is None else "dropped",
        reason=gone or ("must" if must else "fits"),
        token_estimate=tokens,
    )
