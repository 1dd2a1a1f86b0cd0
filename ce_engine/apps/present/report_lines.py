"""The reasons of a report, in words."""

from __future__ import annotations

from collections.abc import Iterator

from ce_engine.apps.present.language import ENGLISH, Say
from ce_engine.apps.present.output import short_id
from ce_engine.prepare.choose.conflict import NOTE_ID
from ce_engine.schema.report import RECALLED, PruneDecision, Report, error_parts
from ce_engine.sessions.spending import WORDS as COST_CAUSES
from ce_engine.turns.report.over_budget import WORDS as PARTS
from ce_engine.turns.report.payload import injected


_DECISIONS = {
    ("dropped", "below_cut"): (
        "older message or tool call left out",
        "older messages or tool calls left out",
    ),
    ("dropped", "older_step_of_this_turn"): (
        "older step of this turn left out",
        "older steps of this turn left out",
    ),
    ("dropped", "orphaned_tool_result"): (
        "tool result without its call removed",
        "tool results without their calls removed",
    ),
    ("dropped", "repeated_system_message"): (
        "repeated system message left out",
        "repeated system messages left out",
    ),
    ("dropped", "unanswered_tool_call"): (
        "tool call without its results removed",
        "tool calls without their results removed",
    ),
    ("degraded", "older_tool_result"): (
        "tool call with older results shortened",
        "tool calls with older results shortened",
    ),
    ("degraded", "retrieved_text"): (
        "message with retrieved text shortened",
        "messages with retrieved text shortened",
    ),
    ("degraded", "rendered_conversation"): (
        "helper's prompt shortened by the oldest of the conversation in it",
        "helpers' prompts shortened by the oldest of the conversation in them",
    ),
    ("dropped", "over_budget"): (
        "piece that found no room in what was left",
        "pieces that found no room in what was left",
    ),
    ("dropped", "over_share"): (
        "piece kept out for an agent's next steps",
        "pieces kept out for an agent's next steps",
    ),
    ("dropped", "over_credit"): (
        "piece beyond what is saved so far",
        "pieces beyond what is saved so far",
    ),
    ("dropped", "over_reserve"): (
        "piece kept out so that the cut lasts",
        "pieces kept out so that the cut lasts",
    ),
    ("dropped", "over_length"): (
        "piece too long, without a telling sentence",
        "pieces too long, without a telling sentence",
    ),
    ("dropped", "not_nearer"): (
        "piece no nearer than what stands there",
        "pieces no nearer than what stands there",
    ),
    ("dropped", "below_floor"): (
        "piece far behind the best one",
        "pieces far behind the best one",
    ),
    ("dropped", "over_layer_budget"): (
        "piece without room in its layer",
        "pieces without room in their layers",
    ),
    ("dropped", "over_limit"): (
        "piece beyond how many may be",
        "pieces beyond how many may be",
    ),
    ("dropped", "duplicate"): ("piece that says the same", "pieces that say the same"),
    ("dropped", "conflict"): (
        "piece that a conflict took out",
        "pieces that a conflict took out",
    ),
    ("dropped", "said_by_results"): (
        "answer that gives way to tool results",
        "answers that give way to tool results",
    ),
    ("dropped", "not_chosen"): (
        "piece that the pruner did not choose",
        "pieces that the pruner did not choose",
    ),
    ("degraded", "repeated_result"): (
        "tool result as a reference to the same one",
        "tool results as references to the same ones",
    ),
    ("degraded", "changed_fields"): (
        "tool result as what changed",
        "tool results as what changed",
    ),
    ("degraded", "compact_json"): (
        "tool result as compact JSON",
        "tool results as compact JSON",
    ),
    ("degraded", "selected_lines"): (
        "tool result as some of its lines",
        "tool results as some of their lines",
    ),
    ("degraded", "excerpt"): ("piece as an excerpt", "pieces as excerpts"),
    ("degraded", "shorter"): ("piece shortened by the pruner", "pieces shortened by the pruner"),
    ("dropped", "over_tier_budget"): (
        "piece beyond its tier's tokens",
        "pieces beyond their tiers' tokens",
    ),
    ("dropped", "sensitivity"): (
        "piece too sensitive",
        "pieces too sensitive",
    ),
    ("dropped", "expired"): ("piece expired", "pieces expired"),
    ("kept", "never_out"): (
        "message or tool call that is never left out",
        "messages or tool calls that are never left out",
    ),
    ("kept", "pinned"): (
        "message that stays with what was brought in for it",
        "messages that stay with what was brought in for them",
    ),
    ("kept", "fits"): ("message or tool call that fits", "messages or tool calls that fit"),
    ("kept", "must"): ("piece that must be kept", "pieces that must be kept"),
}

_GROUPS = (("dropped", "below_cut"), ("dropped", "older_step_of_this_turn"))
"""What leaves out messages of the app's list by the group."""

_FORMS = {
    "repeated_result": "references",
    "changed_fields": "what changed",
    "compact_json": "compact JSON",
    "selected_lines": "some lines",
}

_CODES = {
    "CONTEXT_OVER_BUDGET": "OVER BUDGET: what is never left out is more than the budget",
    "CONTEXT_DEARER": "the session is DEARER by this turn than it would be without us",
    "CONTEXT_BUDGET_UNKNOWN": "no budget is known, so nothing is left out",
    "CONTEXT_STORE_UNAVAILABLE": "the store was unavailable",
    "CONTEXT_RECORDING_GAP": "records before this turn were lost: the store was away for too long",
    "CONTEXT_EVIDENCE_CONFLICT": "sources disagree; none of them was left out because of that",
    "CONTEXT_REDACTION_FAILED": "redaction failed: what it failed on is stored without its content",
    "CONTEXT_INGEST_FAILED": "the app's ingestor failed; evidence is stored as it came",
    "CONTEXT_DEDUP_SKIPPED": "evidence could not be compared with what is stored already",
    "CONTEXT_DERIVE_FAILED": "evidence could not be made into context, and was left out",
    "CONTEXT_BUDGET_EXCEEDED": "what is never left out is more than the budget: it went out all the same",
    "CONTEXT_VERSION_CONFLICT": "somebody else wrote to the session at the same time; it was tried once more",
    "CONTEXT_JUDGE_FAILED": "nobody could say whether the answer keeps its constraints",
    "CONTEXT_SUMMARIZE_FAILED": "no summary could be made before this turn",
    "CONTEXT_PRUNE_FAILED": "the pruner failed; the default one stood in for it",
    "CONTEXT_RENDER_FAILED": "a block could not be rendered; its own text stands for it",
    "CONTEXT_SELECTOR_UNRESOLVED": "a selector found nothing; the block's own text stands for it",
    "CONTEXT_EVIDENCE_NOT_FOUND": "evidence is gone; the block's own text stands for it",
    "CONTEXT_BUDGET_FALLBACK": "the budget could not be worked out; another calculation took its place",
    "CONTEXT_MEDIA_ESTIMATED": "the size of a picture or file is not known; a default was counted",
    "CONTEXT_MESSAGE_UNMAPPED": "a message of the app could not be read; it went out as it is, and is recorded without content",
    "CONTEXT_BACKPRESSURE": "too many calls at once: this one went out as the app sent it",
    "CONTEXT_SETTING_FORGED": "a stored setting is not what its owner set: it was left out",
    "CONTEXT_SETTING_UNVERIFIED": "a stored setting has no MACs, and cannot be verified",
    "CONTEXT_BLOCK_UNVERIFIED": "a stored instruction is not what the app put there: it was quoted",
    "CONTEXT_SOURCE_UNAVAILABLE": "a source gave nothing in time",
    "CONTEXT_SOURCE_MALFORMED": "a source gave what is no context",
    "CONTEXT_SCOPE_VIOLATION": "a source gave what belongs to somebody else; it was refused",
    "CONTEXT_RULES_OVERBUDGET": "the rules are more than their share of the budget",
    "CONTEXT_EMBED_FAILED": "texts could not be embedded: they were found by their words alone",
    "CONTEXT_REDACTION_LIMIT": "too long to be redacted in time: stored without its content",
    "CONTEXT_INPUT_TOO_LARGE": "more context was collected than may be",
}


def decision_words(decision: PruneDecision, say: Say = ENGLISH) -> str:
    """A decision with its count; a reason that is not known here is told as it is."""
    count, is_recalled = decision.count, decision.block_id.startswith(RECALLED)
    if decision.action == "kept" and is_recalled:
        return say("{count} found relevant again", count=count)
    forms = _DECISIONS.get((decision.action, decision.reason))
    if forms is None:
        return f"{count:,} {say(decision.action)}: {decision.reason.replace('_', ' ')}"
    return f"{count:,} {say(*forms, count=count)}"


def code_words(code: str, say: Say = ENGLISH) -> str:
    """What a warning's or degradation's code means; one that is not known here stands for itself."""
    word, _, about = code.partition(": ")
    words = _CODES.get(word)
    if words is None:
        return code
    return f"{say(words)} ({about})" if about else say(words)


def report_lines(report: Report, say: Say = ENGLISH) -> Iterator[str]:
    """Why the input went out as it did: what deserves attention first, then what was left out."""
    yield from _troubles(report, say)
    if any(d.block_id == NOTE_ID and d.action == "dropped" for d in report.prune_decisions):
        yield say("the note on what sources say differently found no room")
    summed = _summed(report)
    yield from (decision_words(decision, say) for decision in summed)
    groups = sum(total.count for total in summed if (total.action, total.reason) in _GROUPS)
    if 0 < groups < report.dropped:
        yield say(
            "{messages} messages left out in all, as a tool call and its results count as one",
            messages=report.dropped,
        )
    if report.results_saved:
        saved = report.results_saved.items()
        savings = ", ".join(f"{say(_FORMS.get(name, name))} {tokens:,}" for name, tokens in saved)
        tokens = sum(report.results_saved.values())
        yield say("{tokens} tokens saved in tool results: {told}", tokens=tokens, told=savings)
    if report.restored:
        yield say("{restored} stored messages brought back", restored=report.restored)
    if report.inserted:
        of = _from(report, say)
        tokens = injected(report.payload_tokens)
        if rules := report.payload_tokens.get("rules", 0):
            yield say(
                "{tokens} tokens brought in{of}, headings and {rules} tokens of rules included",
                tokens=tokens,
                of=of,
                rules=rules,
            )
        else:
            yield say("{tokens} tokens brought in{of}, headings included", tokens=tokens, of=of)


def _from(report: Report, say: Say) -> str:
    """How many pieces were brought in, and how many of them are evidence."""
    evidence, pieces = (
        len(report.injected_evidence_ids),
        sum(layer.chunks for layer in report.layers.values()),
    )
    if pieces > evidence:
        singular, plural = (
            " from {pieces} piece, {evidence} of them evidence",
            " from {pieces} pieces, {evidence} of them evidence",
        )
        return say(singular, plural, count=pieces, pieces=pieces, evidence=evidence)
    return say(" from {pieces} evidence", pieces=evidence) if evidence else ""


def own_sent(report: Report) -> int:
    """How many of the messages that the app gave went out; older releases counted a shortened stored one as its."""
    if report.restored:
        return min(report.messages_in, report.messages_sent - report.restored)
    return report.messages_in - max(0, report.dropped) - report.orphans_removed


def sent_words(report: Report, say: Say = ENGLISH) -> str:
    """How many messages went out: of those that the app gave, of those that are stored, and texts put in."""
    own = own_sent(report)
    words = say("{sent} of the {given} that the app gave", sent=own, given=report.messages_in)
    if report.restored:
        words += say(", {count} brought back whole", count=report.restored)
    more = report.messages_sent - own - report.restored
    if more > 0:
        words += say(", {count} put in", count=more)
    if report.restored or more > 0:
        words = say("{sent} sent: {told}", sent=report.messages_sent, told=words)
    else:
        words = say("{sent} sent of {given}", sent=own, given=report.messages_in)
    if report.dropped > 0:
        words += " · " + say("{count} left out", count=report.dropped)
    if report.shortened:
        words += " · " + say("{count} shortened", count=report.shortened)
    return words


def _troubles(report: Report, say: Say) -> Iterator[str]:
    """What deserves attention."""
    for code in dict.fromkeys([*report.warnings, *report.degradations]):
        yield code_words(code, say)
    if count := len(report.rules_dropped):
        rules = ", ".join(map(short_id, report.rules_dropped))
        yield say(
            "{count} rule did not go out: {rules}",
            "{count} rules did not go out: {rules}",
            count=count,
            rules=rules,
        )
    if parts := report.over_budget_causes:
        items = ", ".join(
            f"{say(PARTS.get(name, name.replace('_', ' ')))} {n}" for name, n in parts.items()
        )
        yield say("alone too much: {parts}", parts=items)
    if causes := report.dearer_causes:
        items = ", ".join(f"{say(COST_CAUSES.get(name, name))} {n:,}" for name, n in causes.items())
        yield say("what it lost so far, in input tokens: {causes}", causes=items)
    if count := len(report.violations):
        yield say(
            "ANSWER BREAKS a constraint: {ids}",
            "ANSWER BREAKS {count} constraints: {ids}",
            count=count,
            ids=", ".join(map(short_id, report.violations)),
        )
    for code in report.errors:
        yield error_words(code, say)


def error_words(code: str, say: Say = ENGLISH) -> str:
    """What an error is called, and the HTTP status that its provider gave."""
    name, status = error_parts(code)
    if not status:
        return say("error {code}", code=code)
    return say("error {code}, HTTP status {status}", code=name, status=status)


def _summed(report: Report) -> list[PruneDecision]:
    """The decisions that left something out, one for each action and reason, the most first.

    What was nominated to come back is apart from what is sent anyhow.
    """
    totals: dict[tuple[str, str, bool], PruneDecision] = {}
    for decision in report.prune_decisions:
        if decision.action == "kept" or decision.block_id == NOTE_ID:
            continue
        is_recalled = decision.block_id.startswith(RECALLED)
        key = (decision.action, decision.reason, is_recalled)
        total = totals.get(key)
        if total is None:
            totals[key] = decision.model_copy()
        else:
            total.count += decision.count
            total.token_estimate += decision.token_estimate
    return sorted(totals.values(), key=lambda decision: -decision.count)
