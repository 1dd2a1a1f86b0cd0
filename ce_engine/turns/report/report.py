"""The report of a preparation: every decision in numbers and refs, and how much of the prefix stayed the same."""

from __future__ import annotations

import hashlib
from collections import Counter as Tally
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from ce_engine.errors import (
    BudgetExceededError,
    ContextEngineError,
    EncryptionKeyError,
    StoreUnavailableError,
)
from ce_engine.prepare.blocks.material import CONTEXTS
from ce_engine.prepare.compose.compose import NOTED, STANDING
from ce_engine.prepare.compose.shorter_texts import saved_in
from ce_engine.prepare.message_groups import MessageItem
from ce_engine.prepare.outcome import Outcome
from ce_engine.prepare.tool_results.compact import saved_by_kind
from ce_engine.prepare.tool_results.forms import FORMS
from ce_engine.schema.call import Extend, Insert, Keep, ModelCall, Restore, Shorten, Step
from ce_engine.schema.degradation import SETTING_UNVERIFIED
from ce_engine.schema.enums import Layer
from ce_engine.schema.events import EventType
from ce_engine.schema.ids import Fingerprinter
from ce_engine.schema.report import LayerReport, PruneDecision, Report
from ce_engine.schema.rows import TurnRow
from ce_engine.schema.settings import CONSTRAINTS
from ce_engine.sessions.bodies import LaneBodies, Unit
from ce_engine.turns.record.write_group import RecordGroup
from ce_engine.turns.report.over_budget import causes, figures
from ce_engine.turns.report.payload import (
    AGENTS,
    CONVERSATION,
    TOOL_RESULTS,
    injected,
    payload_tokens,
    put_in,
)


TEXT, RULES, TOOLS = "text", "rules", "tools"
"""What the names of units begin with: of what was put in, of an owner's rules, and of the tools' schemas."""


@dataclass(frozen=True, slots=True)
class ReportWriter:
    """Tells about one outcome; `lane` remembers the body of a chat for the next one.

    `count` knows what it counted before.
    """

    call: ModelCall
    outcome: Outcome
    count: Callable[[str], int]
    bodies: LaneBodies

    def report(self, report: Report, budget: int | None, extras: dict[str, int]) -> Report:
        """Fill the report in; `extras` are the tokens that go out beside the messages."""
        outcome = self.outcome
        report.token_budget, report.token_used = budget, outcome.used
        report.tokens_before = outcome.before
        self._messages_of(report)
        report.results_saved = saved_by_kind(outcome)
        report.over_budget = outcome.over_budget
        report.prune_decisions = outcome.decisions
        report.injected_evidence_ids = outcome.evidence_ids
        report.quoted_message_ids = outcome.quoted_ids
        report.recall = outcome.recall
        cut = outcome.cut
        report.cut = "moved" if cut.moved else "stands" if cut.stands else ""
        report.rules_dropped = outcome.standing.rules_dropped
        report.warnings += outcome.standing.warnings
        if outcome.over_budget:
            report.warnings.append("CONTEXT_OVER_BUDGET")
        if budget is None:
            report.warnings.append("CONTEXT_BUDGET_UNKNOWN")
        self._layers(report, extras)
        if outcome.over_budget and budget is not None:
            report.over_budget_causes = causes(self._parts(report.payload_tokens), budget)
        self._prefix(report, extras)
        return report

    def _messages_of(self, report: Report) -> None:
        """How many messages there were, and what became of them."""
        outcome, plan = self.outcome, self.outcome.plan
        report.messages_in = len(self.call.messages)
        report.messages_sent = len(plan)
        kinds = Tally(map(type, plan))
        report.kept = kinds[Keep] + kinds[Extend]
        report.shortened, report.restored = outcome.shortened, outcome.restored
        report.inserted = kinds[Insert] + kinds[Extend]
        report.orphans_removed = len(outcome.line.orphans)
        # Of the app's own alone: by hand, stored ones are shortened, too.
        orphans = sum(item.index is not None for item in outcome.line.orphans)
        report.dropped = report.messages_in - report.kept - kinds[Shorten] - orphans

    def _parts(self, payload: Mapping[str, int]) -> dict[str, int]:
        """The payload by what an app can do something about."""
        parts = {kind: payload.get(kind, 0) for kind in ("tools", "response_format")}
        own = {kind: payload.get(kind, 0) for kind in ("system", "task")}
        results = payload.get(TOOL_RESULTS, 0)
        history = payload.get(CONVERSATION, 0) + payload.get(AGENTS, 0)
        parts["injected"] = injected(payload)
        if self.call.purpose == "helper":
            return parts | {"helper": sum(own.values()) + results + history}
        return {**own, **parts, "results": results, "history": history}

    def _layers(self, report: Report, extras: dict[str, int]) -> None:
        outcome = self.outcome
        report.payload_tokens = payload_tokens(outcome, extras, self.count)
        system = report.payload_tokens.get("system", 0)
        tokens, cut_off = self._put_in(), outcome.standing.truncated
        tokens[Layer.RULES] = tokens.get(Layer.RULES, 0) + system
        tokens[Layer.IMMEDIATE] = tokens.get(Layer.IMMEDIATE, 0) + outcome.cut.tokens
        if outcome.retrieved_cut:
            cut_off = cut_off | {Layer.RETRIEVED}
        truncated = bool(outcome.groups_dropped or outcome.shortened)
        report.layers = {
            layer.value: LayerReport(
                tokens=tokens.get(layer, 0),
                chunks=outcome.chunks[layer],
                truncated=truncated if layer is Layer.IMMEDIATE else layer in cut_off,
            )
            for layer in Layer
        }

    def _put_in(self) -> dict[Layer, int]:
        """What was put in by layer."""
        tokens_by_layer = dict[Layer, int]()
        for context, tokens in put_in(self.outcome, self.count).items():
            tokens_by_layer[CONTEXTS[context]] = tokens_by_layer.get(CONTEXTS[context], 0) + tokens
        return tokens_by_layer

    def _prefix(self, report: Report, extras: dict[str, int]) -> None:
        """Hash what should be stable (D-05), and compare with the lane's last chat (decision 8)."""
        rules = hashlib.sha256()
        for item in self.outcome.line.system:
            if item.index is not None:
                content = self.call.messages[item.index].message.content
                rules.update(content.encode("utf-8", "surrogatepass") + b"\x00")
        for name, layer in CONTEXTS.items():
            if layer in (Layer.RULES, Layer.SETTINGS):
                rules.update(self.outcome.standing.contexts.get(name, "").encode() + b"\x00")
        report.stable_prefix_hash = rules.hexdigest()
        if self.call.purpose != "chat":
            return  # a helper call has a prompt of its own, and comes in between
        bodies = self.bodies
        before, body = bodies.units, self.body(report.estimator, extras)
        if (same := bodies.follow(body)) is not None:
            units, report.prefix_tokens_unchanged = same
            if units < len(before):
                report.prefix_broken_by = self._broken_by(before[units], body[units:])
        report.stable_prefix_unchanged = bodies.prefix_hash == report.stable_prefix_hash
        bodies.prefix_hash = report.stable_prefix_hash

    def _broken_by(self, old_unit: Unit, instead: Sequence[Unit]) -> str:
        """Why a unit does not stand where it stood, in whose place there is something else, or nothing."""
        system = [item for item in self.outcome.line.system if item.index is not None]
        if {key for key, _ in instead[:1]} & {self._name(item, item.index or 0) for item in system}:
            return "system"
        if self.outcome.cut.moved:
            return "cut"
        if isinstance(old_unit[0], tuple) and old_unit[0][0] == TOOLS:
            return "tools"
        kinds = {key[0] for key, _ in (old_unit, *instead[:1]) if isinstance(key, tuple)}
        for kind, cause in ((RULES, "rules"), (TEXT, "brought_in")):
            if kind in kinds:
                return cause
        if self.outcome.pruned:
            return "pruned"
        return "left_out" if self.call.by_hand else "app"

    def body(self, estimator: str, extras: Mapping[str, int]) -> list[Unit]:
        """The body as units, in the order in which it goes out: the tools, as they are counted, before the messages."""
        return [((TOOLS, estimator), extras.get("tools", 0)), *self._messages()]

    def _messages(self) -> list[Unit]:
        line = self.outcome.line
        items: dict[Any, MessageItem] = {item.index: item for item in line.system}
        for group in line.groups:
            for item in group.items:
                items[item.message_id if item.index is None else item.index] = item
        if self.outcome.unchanged:
            kept_items = [items[step.index] for step in self.outcome.plan if isinstance(step, Keep)]
            return [
                (i.message_id if i.n is not None else self._name(i, i.index or 0), i.tokens)
                for i in kept_items
            ]
        units: list[Unit] = []
        for step in self.outcome.plan:
            if type(step) is Keep:
                item = items[step.index]
                units.append((self._name(item, step.index), item.tokens))
            else:
                units += self._changed(step, items)
        return units

    def _changed(self, step: Step, items: Mapping[Any, MessageItem]) -> Iterator[Unit]:
        """The units of a step that is no message of the host as it is."""
        if isinstance(step, Restore):
            name = step.message.message_id
            if step.before:
                yield self._injected(step.before)
            shorter = self.outcome.shorter
            saved = saved_in([items[name]], shorter) if shorter else 0
            # In whole it is the very message that the app sent when it was new.
            yield ((name, saved) if saved else name), items[name].tokens - saved
        elif isinstance(step, Insert):
            yield self._injected(step.text, RULES if step.layer is Layer.RULES else "")
        elif step.index in self.outcome.forms and isinstance(step, Shorten):
            item = items[step.index]
            yield (item.message_id, hash(step.text)), item.tokens
        else:
            item = items[step.index]
            yield from self._units(step, self._name(item, step.index), item.tokens)

    def _name(self, item: MessageItem, index: int) -> Hashable:
        """What a host message is known by: its id, or what it says where it is not stored."""
        if item.n is not None:
            return item.message_id
        return hash(self.call.messages[index].message.content)

    def _units(self, step: Step, key: Hashable, tokens: int) -> Iterator[Unit]:
        if isinstance(step, Shorten):
            yield (key, hash(step.text)), self.count(step.text)
        elif isinstance(step, Extend) and step.before:
            yield self._injected(step.text)
            yield key, tokens
        else:
            yield key, tokens
            if isinstance(step, Extend):  # only rules stand behind a message, the system's
                yield self._injected(step.text, RULES)

    def _injected(self, text: str, kind: str = "") -> Unit:
        """A text of ours; rules that were derived stand quoted before the first message of a person."""
        first, standing = self.outcome.texts.first, self.outcome.contexts.keys() & STANDING
        are_rules = standing == {NOTED} and text.startswith(first)
        return (kind or (RULES if are_rules else TEXT), hash(text)), self.count(text)


def announce(records: RecordGroup, turn: TurnRow, outcome: Outcome) -> None:
    """Tell what was left out; and, where somebody listens, what was derived and assembled (A-20)."""
    facts: list[tuple[EventType, dict[str, Any]]] = []
    gone_groups = outcome.groups_dropped
    if records.heard:
        kinds = Tally(str(decision.action) for decision in outcome.decisions)
        facts.append((EventType.BLOCKS_DERIVED, {"blocks": len(outcome.decisions), **kinds}))
    if (gone_groups or outcome.shortened) and (outcome.cut.moved or records.heard):
        reasons = Tally(d.reason for d in outcome.decisions if d.action != "kept")
        payload = {"groups_dropped": gone_groups, "shortened": outcome.shortened}
        facts.append((EventType.PRUNE_COMPLETED, {**payload, "reasons": dict(reasons)}))
    if records.heard:
        payload = {"messages": len(outcome.plan), "tokens": outcome.used}
        facts.append((EventType.ASSEMBLED, {**payload, "unchanged": outcome.unchanged}))
    of = {"turn_id": turn.turn_id, "request_id": turn.request_id}
    events = [records.ingest.event(kind, payload=payload, **of) for kind, payload in facts]
    records.events += events
    if not outcome.cut.moved:  # the log has the turn that moved it, and the report every one
        records.passing.update(event.event_id for event in events)


_USED = f"{SETTING_UNVERIFIED}: {CONSTRAINTS}"
"""Told of constraints that went out all the same."""


_AWAY = StoreUnavailableError.code, EncryptionKeyError.code
"""Told of a session whose records can neither be read nor added to."""


def refusal(report: Report) -> ContextEngineError | None:
    """Why `fail="closed"` refuses the call: it is over its budget, or it cannot be recorded."""
    if report.over_budget:
        return BudgetExceededError(
            f"the input needs {report.token_used} tokens, the budget has {report.token_budget}, and "
            f"nothing more may be left out ({figures(report.over_budget_causes)}). Raise budget.max_input_tokens, or shorten the system "
            "prompt, the task or the tools."
        )
    missing = [code for code in report.degradations if code in _AWAY]
    about = [warning for warning in report.warnings if warning.endswith(f": {CONSTRAINTS}")]
    missing += [warning for warning in about if warning != _USED]
    if missing:
        kind = EncryptionKeyError if EncryptionKeyError.code in missing else StoreUnavailableError
        return kind(
            f"the call cannot be recorded, or its constraints be read ({', '.join(missing)}), and "
            'fail="closed" is set. See that the store works: ce doctor'
        )
    return None


def stored_report(report: Report, fingerprinter: Fingerprinter) -> dict[str, Any]:
    """The report as it is stored: numbers and refs; hashes of what is not stored are keyed."""
    report = report.model_copy(update={"prune_decisions": _runs(report.prune_decisions)})
    data = report.model_dump(mode="json", exclude_defaults=True, exclude={"turn_id"})
    mac = fingerprinter.mac("prefix", report.stable_prefix_hash)
    data["stable_prefix_hash"] = f"mac:{mac.hex()}"
    return data


def _kind(decision: PruneDecision) -> tuple[str, str, str]:
    of = decision.block_id
    return (
        decision.action,
        decision.reason,
        of if decision.reason in FORMS else of.rpartition(":")[0],
    )


def _runs(decisions: Sequence[PruneDecision]) -> list[PruneDecision]:
    """Neighbours of one kind and fate as one, by the first: a replay names every one (decision 3).

    But for the forms of results, of which no decision follows to say where they end.
    """
    run_decisions: list[PruneDecision] = []
    for _, run in groupby(decisions, _kind):
        all_ = list(run)
        sums = {name: sum(getattr(d, name) for d in all_) for name in ("token_estimate", "count")}
        run_decisions.append(all_[0].model_copy(update=sums))
    return run_decisions
