"""What the tokens of one input are for, kind by kind; together they are what goes out (B-17)."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Mapping

from ce_engine.prepare.blocks.material import NOTED, RULES
from ce_engine.prepare.choose.standing_context import FACTS
from ce_engine.prepare.compose.sections import FRAMING
from ce_engine.prepare.compose.shorter_texts import saved_in
from ce_engine.prepare.message_groups import MessageItem
from ce_engine.prepare.outcome import Outcome
from ce_engine.schema.enums import Origin


KIND_OF = {
    RULES: "rules",
    NOTED: "rules",
    "experience__context": "memory",
    FACTS: "knowledge",
    "todo__context": "state",
    "compression__context": "summary",
}
"""The kind of each context that is put in beside the messages."""

PUT_IN = tuple(dict.fromkeys(KIND_OF.values()))
"""The kinds of what is put in, together what `injected` was."""

KINDS = (
    "system",
    *PUT_IN,
    "conversation",
    "agents",
    "tool_results",
    "task",
    "tools",
    "response_format",
    "priming",
)
"""All kinds, in the order in which they are told."""

CONVERSATION, TOOL_RESULTS, AGENTS = "conversation", "tool_results", "agents"


def payload_tokens(
    outcome: Outcome, extras: Mapping[str, int], count: Callable[[str], int]
) -> dict[str, int]:
    """Tokens by kind, without those that there are none of; they add up to `outcome.used`.

    Args:
        outcome: what goes out.
        extras: what goes out beside the messages: tools, response format, the reply's priming.
        count: tokens of a text.
    """
    line, system = outcome.line, outcome.line.system
    task = line.groups[line.task].tokens if line.task is not None else 0
    tokens_by_kind = {
        "system": sum(item.tokens for item in system) - saved_in(system, outcome.shorter)
    }
    tokens_by_kind |= {**_by_kind(put_in(outcome, count)), "task": task, **extras}
    tokens_by_kind |= _split_tokens(outcome, outcome.used - sum(tokens_by_kind.values()))
    return {kind: tokens_by_kind[kind] for kind in KINDS if tokens_by_kind.get(kind)}


def injected(payload: Mapping[str, int]) -> int:
    """Tokens of what was put in beside the messages."""
    return sum(payload.get(kind, 0) for kind in PUT_IN)


def put_in(outcome: Outcome, count: Callable[[str], int]) -> dict[str, int]:
    """Tokens of what is put in, by context; together they are `outcome.injected_tokens`.

    Rules stand in the system's message, by themselves: they cost what their text does and its join, the same in each
    turn. What stands around the other texts is shared out among them.
    """
    left, tokens_by_context = outcome.injected_tokens, dict[str, int]()
    texts = [*outcome.contexts.items(), *((FACTS, pin.text) for pin in outcome.pins.values())]
    sizes: Tally[str] = Tally()
    for context, text in texts:
        sizes[context] += count(text)
    rules = count(f"\n\n{outcome.contexts[RULES]}") + FRAMING if sizes.pop(RULES, 0) else 0
    if rules:
        tokens_by_context[RULES] = min(rules, left) if sizes else left
        left -= tokens_by_context[RULES]
    size = sum(sizes.values())
    for context, tokens in sizes.items():
        tokens_by_context[context] = left * tokens // size if size else left
        left, size = left - tokens_by_context[context], size - tokens
    return tokens_by_context


def _by_kind(tokens: Mapping[str, int]) -> dict[str, int]:
    tokens_by_kind: Tally[str] = Tally()
    for context, count in tokens.items():
        tokens_by_kind[KIND_OF[context]] += count
    return tokens_by_kind


def _split_tokens(outcome: Outcome, most: int) -> dict[str, int]:
    """The messages before and behind the task message, `most` tokens together, by who said them."""
    cut, tokens_by_kind = outcome.cut, Tally[str]()
    placed_items = [
        (position, item)
        for position, group in enumerate(outcome.line.groups)
        for item in group.items
        if item.is_tool_result or item.origin is Origin.COLLEAGUE  # the others are what is left
    ]
    for position, item in placed_items:
        if position not in cut.dropped and position != outcome.line.task:
            kind = TOOL_RESULTS if item.is_tool_result else AGENTS
            tokens_by_kind[kind] += _tokens(outcome, item, shortened=position in cut.shortened)
    results = max(0, min(tokens_by_kind[TOOL_RESULTS], most))
    agents = min(tokens_by_kind[AGENTS], most - results)
    return {CONVERSATION: most - results - agents, AGENTS: agents, TOOL_RESULTS: results}


def _tokens(outcome: Outcome, item: MessageItem, *, shortened: bool) -> int:
    if shortened and item.is_tool_result and item.index is not None:
        return item.tokens - outcome.saved.get(item.index, 0)
    return item.tokens - saved_in([item], outcome.shorter)
