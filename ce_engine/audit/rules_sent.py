"""Which rules of an owner went out in which turns, and with which text: archives have MACs of them, and texts where an app wants it (A-21)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ce_engine.prepare.blocks.material import RULES, Material
from ce_engine.schema.enums import Priority
from ce_engine.schema.ids import Fingerprinter
from ce_engine.schema.rows import TurnRow, archive_of
from ce_engine.schema.settings import CONSTRAINTS, Constraint
from ce_engine.turns.input.context_sources import RULE, rule_material
from ce_engine.turns.report.archive import material_mac


CHANGED = "[The text of this rule as it went out is not there any more: it was changed since.]"
UNSET = "[The text of this rule is not there any more: it is not set any more.]"
GONE = frozenset({CHANGED, UNSET})
"""What stands, where a turn is made again, in the place of a rule whose text of then is not there."""

NOW, EARLIER = "now", "earlier"
"""Stand for the text that a rule has now, and for one that it had before, where no MAC tells."""


class RuleText(NamedTuple):
    """The text that a rule had in a turn.

    Attributes:
        name: `NOW`, `EARLIER`, or the MAC that tells it from others.
        text: `""` where it is not there any more.
    """

    name: str
    text: str = ""


def is_rule(name: str) -> bool:
    """Whether a material of this id is a rule that an owner set."""
    return name.startswith(RULE)


def rule_of_then(
    name: str, mac: str, now: Material | None, archived_rule: Material | None, key: Fingerprinter
) -> Material:
    """A rule as it went out; where its text of then is not there, what says so stands in its place.

    Args:
        name: the material's id.
        mac: of the material as it went out.
        now: the rule as it is set; `None` where it is not. What is kept of it elsewhere is not looked at then.
        archived_rule: what the turn's archive has of it.
        key: by which MACs are made.
    """
    if now is None:
        return Material(name, RULES, UNSET, CONSTRAINTS, Priority.MUST, owned=True)
    for material in (now, archived_rule) if archived_rule is not None else (now,):
        for priority in Priority:
            then = replace(material, priority=priority)
            if material_mac(key, then) == mac:
                return then
    return replace(now, text=CHANGED)


def rules_sent(
    turns: Sequence[TurnRow], rules: Iterable[Constraint], key: Fingerprinter | None
) -> dict[str, dict[int, RuleText]]:
    """By the id of each rule the turns that had it, from 1, with the text that it had there.

    A text that was changed since is there where the turn's archive has it (`store_contexts`), and its rule is not deleted.

    Args:
        turns: of a session.
        rules: as they are set now.
        key: by which the session's MACs were made; `None` where it is not there, and only times tell.
    """
    texts_of: dict[str, dict[int, RuleText]] = {}
    rules_by_id = {rule.constraint_id: rule for rule in rules}
    macs = (
        {name: _macs(rule, key) for name, rule in rules_by_id.items()} if key is not None else None
    )
    for number, row in enumerate(turns, start=1):
        left = _list(row.report, "rules_dropped")
        for name, mac in _had(row, rules_by_id.values()):
            if name in left:
                continue
            rule, text = rules_by_id.get(name.removeprefix(RULE)), RuleText(mac or EARLIER)
            if rule is not None:
                by_time = row.opened_at >= rule.updated_at
                is_now = mac in macs[rule.constraint_id] if macs and mac else by_time
                text = RuleText(NOW, rule.text) if is_now else _archived(row, rule, mac, key)
            texts_of.setdefault(name, {})[number] = text
    return texts_of


def _macs(rule: Constraint, key: Fingerprinter) -> frozenset[str]:
    """The MACs of a rule with the text that it has now: where only its rank was changed, it says the same."""
    now = rule_material(rule)
    return frozenset(material_mac(key, replace(now, priority=priority)) for priority in Priority)


def _archived(row: TurnRow, rule: Constraint, mac: str, key: Fingerprinter | None) -> RuleText:
    """The text that a rule had, as far as the turn's archive has it, and it is what went out."""
    contexts = archive_of(row.report).get("contexts")
    context = contexts.get(f"{RULE}{rule.constraint_id}") if isinstance(contexts, Mapping) else None
    text = context.get("text") if isinstance(context, Mapping) else None
    if isinstance(text, str) and mac and key is not None:
        then = rule.model_copy(update={"text": text})
        return RuleText(mac, text if mac in _macs(then, key) else "")
    return RuleText(mac or EARLIER)


def _had(row: TurnRow, rules: Iterable[Constraint]) -> Iterator[tuple[str, str]]:
    """The rules that a turn was given, with their MACs; of one without an archive those that were set by then."""
    if archive := archive_of(row.report):
        yield from ((name, mac) for name, mac in _materials(archive) if is_rule(name))
        return
    token_counts = row.report.get("payload_tokens")
    if isinstance(token_counts, Mapping) and token_counts.get("rules"):
        yield from (
            (f"{RULE}{r.constraint_id}", "") for r in rules if row.opened_at >= r.created_at
        )


def _materials(archive: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The ids and MACs of an archive, as far as they are such: somebody may have changed it."""
    for pair in _list(archive, "materials"):
        match pair:
            case [str(name), str(mac)]:
                yield name, mac


def _list(record: Mapping[str, Any], name: str) -> list[Any]:
    value = record.get(name)
    return value if isinstance(value, list) else []
