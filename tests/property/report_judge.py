"""Whether a report is what went out, by the texts that a test gave and by a count of its own."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ce_engine import (
    ContextBlock,
    ContextEngine,
    ContextPiece,
    MessagePart,
    PrepareResult,
    Report,
    Role,
    RuntimeConfig,
    Scope,
)
from ce_engine.audit.explanation import THERE_ALREADY
from ce_engine.schema.enums import Priority
from ce_engine.schema.report import PruneDecision
from ce_engine.schema.settings import Constraint


PRIMING, CALL = 3, 8
JOIN = 12
"""What a place where texts are put in costs at most beside them."""
ACTIONS = ("kept", "degraded", "dropped")


@dataclass
class Judged:
    """What a session has, by the ids of its decisions."""

    blocks: dict[str, ContextBlock] = field(default_factory=dict)
    rules: dict[str, Constraint] = field(default_factory=dict)
    evidence: dict[str, str] = field(default_factory=dict)
    sensitivity: dict[str, str] = field(default_factory=dict)
    pieces: Mapping[str, Sequence[ContextPiece]] = field(default_factory=dict)
    config: RuntimeConfig = field(default_factory=RuntimeConfig)


def fate(text: str, wire: str) -> str:
    """What became of a text whose sentences each begin with its number."""
    if text in wire:
        return "kept"
    return "degraded" if f"{text.split(maxsplit=1)[0]} " in wire else "dropped"


def judge(
    engine: ContextEngine, scope: Scope, result: PrepareResult, texts: Judged
) -> Counter[str]:
    """Counts what was judged; raises `AssertionError` where the report is not what went out."""
    report, parts = result.report, result.assembled_input.parts
    wire = "\n".join(part.content for part in parts)
    # What was brought in before an earlier question stays there, and more of the same may come in for this one.
    there = [d for d in report.prune_decisions if d.reason == THERE_ALREADY]
    own = [d for d in report.prune_decisions if d.reason != THERE_ALREADY]
    assert len({d.block_id for d in own}) == len(own), "a block is told of twice"
    told = {d.block_id: d for d in (*there, *own)}
    _tokens(report, parts, result.assembled_input.total_tokens)
    known = {name: block.content for name, block in texts.blocks.items()}
    known |= {name: rule.text for name, rule in texts.rules.items()}
    for name, text in known.items():
        assert told[name].action == fate(text, wire), (told[name], text)
        _priced(told[name], text)
    _pieces(texts, report, wire)
    _evidence(texts, report, told, wire)
    _policy(texts, told, wire)
    _groups(report, parts)
    rules = [name for name in report.rules_dropped if name in texts.rules]
    gone = [name for name, rule in texts.rules.items() if fate(rule.text, wire) == "dropped"]
    assert sorted(rules) == sorted(gone)
    _stored(engine, scope, report)
    done = Counter(f"{d.action} {d.reason}" for d in report.prune_decisions)
    return done + Counter(calls=1, over=int(report.over_budget))


def _tokens(report: Report, parts: Sequence[MessagePart], total: int) -> None:
    pins = sum(d.reason == THERE_ALREADY for d in report.prune_decisions)
    real = PRIMING + sum(map(cost, parts))
    assert real <= report.token_used <= real + JOIN * (4 + pins), (real, report.token_used)
    assert report.token_used == total == sum(report.payload_tokens.values())
    assert report.token_used == sum(each.tokens for each in report.layers.values()) + PRIMING
    assert report.messages_sent == len(parts)
    assert len(report.injected_evidence_ids) <= sum(each.chunks for each in report.layers.values())
    assert report.token_budget is not None
    assert report.over_budget == (report.token_used > report.token_budget)


def cost(part: MessagePart) -> int:
    tokens = len(part.content) + 4
    for call in part.tool_calls or ():
        tokens += len(f"{call.name}{json.dumps(call.args)}{call.id or ''}") + CALL
    return tokens + (len(part.tool_call_id) + CALL if part.tool_call_id else 0)


def _priced(decision: PruneDecision, text: str) -> None:
    """A whole text costs itself and its frame; a part of it less."""
    if decision.action == "kept":
        assert len(text) <= decision.token_estimate <= len(text) + 80, (decision, text)
    elif decision.action == "degraded":
        assert decision.token_estimate <= len(text) + 80, (decision, text)


def _pieces(texts: Judged, report: Report, wire: str) -> None:
    for name, pieces in texts.pieces.items():
        found = Counter(fate(piece.text, wire) for piece in pieces)
        told = Counter(
            d.action for d in report.prune_decisions if d.block_id.startswith(f"{name}:")
        )
        assert told == found, (name, told, found)


def _evidence(texts: Judged, report: Report, told: Mapping[str, PruneDecision], wire: str) -> None:
    pinned = any(d.reason == THERE_ALREADY for d in report.prune_decisions)
    is_chosen_before = report.recall is not None and report.recall.state == "chosen_before"
    for name, text in texts.evidence.items():
        decision, became = told.get(f"e:{name}"), fate(text, wire)
        if pinned and (decision is None or became != "dropped"):
            continue  # it may stand before an earlier question
        if decision is None and became == "dropped" and is_chosen_before:
            continue  # it is told of in the call in which its question was asked
        assert decision is not None, f"nothing is told of evidence {text}"
        if decision.count == 1:
            assert decision.action == became, (decision, text)
        if became != "dropped":
            assert name in report.injected_evidence_ids


def _policy(texts: Judged, told: Mapping[str, PruneDecision], wire: str) -> None:
    """What is too sensitive does not go out, and no tier has more than it may."""
    hidden = texts.config.prune.exclude_sensitivity
    for block in texts.blocks.values():
        if block.sensitivity in hidden and block.priority is not Priority.MUST:
            assert fate(block.content, wire) == "dropped"
    spent: Counter[Priority] = Counter()
    tiers = {name: block.priority for name, block in texts.blocks.items()}
    tiers |= {name: rule.priority for name, rule in texts.rules.items()}
    for name, tier in tiers.items():
        if told[name].action != "dropped":
            spent[tier] += told[name].token_estimate
    for tier, most in (texts.config.budget.tier_tokens or {}).items():
        assert spent[tier] <= most, (tier, spent)


def _groups(report: Report, parts: Iterable[MessagePart]) -> None:
    """As many messages and calls go out as are told to, and they cost what is told of them."""
    said = [p for p in parts if p.role in (Role.USER, Role.ASSISTANT) and "mk" in own_text(p)]
    other = ("block ", "c:", "e:", "m:", "notes")
    groups = [
        d
        for d in report.prune_decisions
        if not d.block_id.startswith(other) and d.reason != THERE_ALREADY
    ]
    stays = [d for d in groups if d.action != "dropped"]
    assert sum(d.count for d in stays) == len(said), (stays, said)
    kinds = ("task", "conversation", "agents", "tool_results")
    payload = sum(report.payload_tokens.get(kind, 0) for kind in kinds)
    assert sum(d.token_estimate for d in stays) == payload


def own_text(part: MessagePart) -> str:
    """What a part says without what was put in before it."""
    return part.content.rpartition("]\n\n")[2] if part.content.startswith("[") else part.content


def _stored(engine: ContextEngine, scope: Scope, report: Report) -> None:
    """The stored report says the same, with neighbours of one fate together."""
    engine.sync.flush()
    rows = engine.loop.run(engine.store.list_turns(scope))
    [row] = [row for row in rows if row.turn_id == report.turn_id]
    stored: Mapping[str, Any] = row.report
    assert stored["token_used"] == report.token_used
    assert actions(stored.get("prune_decisions", ())) == actions(
        [d.model_dump() for d in report.prune_decisions]
    )
    assert stored.get("rules_dropped", []) == report.rules_dropped


def actions(decisions: Iterable[Mapping[str, Any]]) -> dict[str, tuple[int, int]]:
    """How many blocks and tokens each action has."""
    found: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for told in decisions:
        count, tokens = found[told["action"]]
        found[told["action"]] = (count + told.get("count", 1), tokens + told["token_estimate"])
    return dict(found)
