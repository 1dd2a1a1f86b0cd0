"""Evidence that disagrees: one field, several sources, different values, and what is done about it (A-18)."""

from __future__ import annotations

import ast
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Context, Decimal
from itertools import islice
from typing import Any, Literal

from ce_engine.config import ConflictStrategy
from ce_engine.prepare.blocks.material import Material
from ce_engine.schema.document import Evidence
from ce_engine.schema.enums import Priority, SourceKind
from ce_engine.schema.ids import short_id
from ce_engine.schema.report import ConflictRecord
from ce_engine.schema.times import parse_time
from ce_engine.text.quote import entry, heading, one_line, short_line


CONFLICT = "CONTEXT_EVIDENCE_CONFLICT"
"""The warning where sources disagree and none is left out for it: a note names what each of them says."""

NOTE_ID = "conflicts"
KEEP_BOTH: Literal["keep_both_and_warn"] = "keep_both_and_warn"
"""Nobody can tell who is right: both stay, and the note says so."""
MAX_CHARS = 100_000
"""Characters of a JSON text that are looked into."""
MAX_LITERAL_CHARS = 10_000
"""The same of the `str` of a Python object, which takes longer to read."""
MAX_FIELDS = 100
"""Fields of one piece of evidence that are compared."""
MAX_CLAIMS = 40
"""Pieces of evidence that are compared on one field, the last ones."""
_COMMON_FIELDS = frozenset(
    [
        "status",
        "state",
        "type",
        "kind",
        "name",
        "title",
        "date",
        "time",
        "note",
        "notes",
        "comment",
        "comments",
        "description",
        "created",
        "updated",
        "created_at",
        "updated_at",
        "createdat",
        "updatedat",
        "version",
        "状态",
        "类型",
        "名称",
        "标题",
        "日期",
        "时间",
        "备注",
        "说明",
    ]
)
"""Fields that things of every kind have: an order has a state, and its invoice has another."""
MAX_VALUE_CHARS = 80
MAX_IDS = 2
"""Ids that are named of what sources disagree about, the first."""
_WORDS = {
    "en": {
        "header": "Sources disagree",
        "line": "{field}: {values}",
        "about": "{field} ({ids})",
        "value": "{value} (evidence {id}, {source})",
    },
    "zh": {
        "header": "来源之间相互矛盾",
        "line": "{field}：{values}",
        "about": "{field}（{ids}）",
        "value": "{value}（证据 {id}，{source}）",
    },
}


@dataclass(slots=True)
class ConflictOutcome:
    """What goes out after conflicts were looked for, and what there is to tell about them."""

    materials: list[Material]
    conflicts: list[ConflictRecord] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Claim:
    """A piece of evidence says that a field has a value; `about` are the ids of what it speaks of."""

    evidence: Evidence
    value: str
    plain: str
    source: tuple[str, str, str]
    about: Mapping[str, str]
    is_common: bool = False
    """The field is one of `_COMMON_FIELDS`."""
    is_named: bool = False
    """The field says itself what it speaks of: a declared one, or one inside a named object."""

    def disputes(self, other: _Claim) -> bool:
        """Whether the two speak of one thing, from two sources, and say different things."""
        return (
            self.plain != other.plain
            and self.source != other.source
            and self._is_about_the_same(other)
        )

    def _is_about_the_same(self, other: _Claim) -> bool:
        """Two nameless objects without an id in common may speak of anything.

        Where each has an id that the other has not, what they share is what both belong to: a booking and a sample of
        one patient.
        """
        shared = self.about.keys() & other.about.keys()
        if any(self.about[name] != other.about[name] for name in shared):
            return False
        own, others = self.about.keys() <= shared, other.about.keys() <= shared
        is_part = (own and others) if self.is_common else (own or others)
        return self.is_named or (bool(shared) and is_part)


def settle_conflicts(
    materials: Sequence[Material],
    evidences: Sequence[Evidence],
    strategy: ConflictStrategy = KEEP_BOTH,
    locale: str = "en",
) -> ConflictOutcome:
    """Look for fields on which evidence of different sources disagrees, and settle them.

    A field is what `metadata["field"]` names (its value `metadata["value"]`, else the content), else a
    path of keys in a JSON object. Objects whose ids differ (`id`, `order_id`, `orderId`) speak of
    different things, and so do objects that have neither an id in common nor a name. Where the strategy cannot tell who is right, both stay, and a note says so.

    Args:
        materials: the candidates; those of evidence that loses are left out.
        evidences: what may disagree: the materials' evidence, and what goes out otherwise.
        strategy: who is right.
        locale: language of the note.
    """
    settled = ConflictOutcome([])
    dropped_ids: set[str] = set()
    lines: list[str] = []
    evidence_ids = {material.evidence_id for material in materials if material.evidence_id}
    for name, claims in _claims(evidences).items():
        for dispute in _disputes(claims):
            ids = [claim.evidence.evidence_id for claim in dispute]
            if not evidence_ids.intersection(ids):
                continue
            loser_ids = [claim.evidence.evidence_id for claim in _losers(dispute, strategy)]
            dropped_ids.update(loser_ids)
            settled.conflicts.append(
                ConflictRecord(
                    evidence_ids=ids,
                    field_path=name,
                    resolution=strategy if loser_ids else KEEP_BOTH,
                    detail=f"left out: {', '.join(loser_ids)}" if loser_ids else "",
                )
            )
            if not loser_ids:
                lines.append(_line(name, dispute, locale))
    settled.materials = [item for item in materials if item.evidence_id not in dropped_ids]
    if lines:
        settled.warnings.append(CONFLICT)
        text = "\n".join([heading(_WORDS[locale]["header"]), *lines])
        note = Material(NOTE_ID, "knowledge__context", text, "conflicts", Priority.HIGH)
        settled.materials.append(note)
    return settled


def disputed_values(evidences: Sequence[Evidence]) -> Iterator[tuple[str, dict[str, str]]]:
    """Fields on which pieces of evidence of different sources disagree, with what each of them says, by its id.

    However many there are: those that speak of one thing are compared, the last of each. The same may be told twice.
    """
    for name, claims in _claims(evidences).items():
        by_thing: dict[tuple[str, str], list[_Claim]] = defaultdict(list)
        for claim in claims:
            for thing in [*claim.about.items(), *([("", "")] if claim.is_named else [])]:
                by_thing[thing].append(claim)
        for dispute in (each for own in by_thing.values() for each in _disputes(own)):
            yield name, {claim.evidence.evidence_id: claim.value for claim in dispute}


def may_claim(metadata: Mapping[str, Any], content: str) -> bool:
    """Whether evidence can say anything of a field."""
    return bool(metadata.get("field")) or content.lstrip()[:1] == "{"


def value_of(evidence: Evidence, field_path: str) -> str | None:
    """What evidence says of a field on which sources disagree; `None` where it does not say anything any more."""
    metadata = evidence.metadata
    if metadata.get("field") == field_path:
        return str(metadata.get("value", evidence.content))
    return _fields(evidence.content).get(field_path)


def common_ids(evidences: Sequence[Evidence]) -> list[str]:
    """What pieces of evidence all speak of, `MAX_IDS` at most: `order_id W123`, as the first of them writes it."""
    first, *others = [_fields(evidence.content) for evidence in evidences]
    ids = (
        f"{path.rpartition('.')[2]} {value}"
        for path, value in first.items()
        if _is_id(path) and all(_plain(each.get(path, "")) == _plain(value) for each in others)
    )
    return [short_line(text) for text in islice(ids, MAX_IDS)]


def _claims(evidences: Sequence[Evidence]) -> dict[str, list[_Claim]]:
    claims_by_field: dict[str, list[_Claim]] = defaultdict(list)
    for evidence in evidences:
        declared = evidence.metadata.get("field")
        if isinstance(declared, str) and declared:
            value = str(evidence.metadata.get("value", evidence.content))
            claims_by_field[declared].append(_claim(evidence, declared, value, {}, is_named=True))
            continue
        fields = _fields(evidence.content)
        about = {name: _plain(value) for name, value in fields.items() if _is_id(name)}
        for name, value in fields.items():
            claims_by_field[name].append(
                _claim(evidence, name, value, about, is_named=name.count(".") > 1)
            )
    return claims_by_field


def _claim(
    evidence: Evidence, name: str, value: str, about: Mapping[str, str], *, is_named: bool
) -> _Claim:
    """A claim with what is compared of it, made once: it is compared with many."""
    evidence_source = evidence.source
    source = (str(evidence_source.kind), evidence_source.name, evidence_source.uri)
    is_common = name.rpartition(".")[2].lower() in _COMMON_FIELDS
    return _Claim(evidence, value, _plain(value), source, about, is_common, is_named)


def _fields(content: str) -> dict[str, str]:
    """The plain values of an object by their path of keys; empty for any other text."""
    if len(content) > MAX_CHARS or not content.lstrip().startswith("{"):
        return {}
    with suppress(ValueError, TypeError, RecursionError, SyntaxError, MemoryError):
        return dict(list(_walk(_parsed(content), "$"))[:MAX_FIELDS])
    return {}


def _parsed(content: str) -> Any:
    """A JSON object, or the `str` of a Python one: some hosts make that of what a tool returns."""
    if content.lstrip().startswith("{'") and len(content) <= MAX_LITERAL_CHARS:
        return ast.literal_eval(content.strip())
    return json.loads(content)


def _walk(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _walk(item, f"{path}.{key}")
    elif isinstance(value, str | bool | int | float):
        yield path, value if isinstance(value, str) else json.dumps(value)


def _is_id(path: str) -> bool:
    key = path.rpartition(".")[2]
    return key.lower() in ("id", "uuid", "key") or key.endswith(("_id", "Id", "ID"))


def _plain(value: str) -> str:
    """A value as it is compared: `12`, `12.0` and `"12"` are equal, and so are `Paid` and `paid `.

    Ids of many digits are told apart to the last one.
    """
    try:
        number = Decimal(value)
        return str(number.normalize(Context(prec=len(value)))) if number else "0"
    except ArithmeticError:
        return " ".join(value.split()).casefold()


def _disputes(claims: Sequence[_Claim]) -> Iterator[list[_Claim]]:
    """Claims that disagree, with those that hang together by disagreeing, in their order."""
    claims = claims[-MAX_CLAIMS:]
    sources = {claim.source for claim in claims}
    left = list(range(len(claims))) if len(sources) > 1 else []
    while left:
        group, new = set(), {left[0]}
        while new:
            group |= new
            new = {
                n
                for n in left
                if n not in group and any(claims[n].disputes(claims[m]) for m in new)
            }
        left = [n for n in left if n not in group]
        if len(group) > 1:
            yield [claims[n] for n in sorted(group)]


def _losers(dispute: Sequence[_Claim], strategy: ConflictStrategy) -> list[_Claim]:
    """Who is wrong, by the strategy; nobody where it cannot tell."""
    if strategy == "prefer_tool_over_rag":
        tools = [claim for claim in dispute if claim.evidence.source.kind is SourceKind.TOOL]
        values = {claim.plain for claim in tools}
        rest = [claim for claim in dispute if claim.plain not in values]
        others = {claim.evidence.source.kind for claim in rest} - {SourceKind.RAG}
        return rest if len(values) == 1 and not others else []
    if strategy == "prefer_latest_by_at":
        times = [_at(claim.evidence) for claim in dispute]
        newest = max((time for time in times if time is not None), default=None)
        pairs = zip(dispute, times, strict=True)
        latest = {claim.plain for claim, time in pairs if time == newest}
        if None in times or len(latest) != 1:
            return []
        return [claim for claim in dispute if claim.plain not in latest]
    return []


def _at(evidence: Evidence) -> datetime | None:
    """Since when it holds (`effective_at`), else when it was recorded."""
    return parse_time(evidence.metadata.get("effective_at") or evidence.metadata.get("created_at"))


def _line(name: str, dispute: Sequence[_Claim], locale: str) -> str:
    """What each source says, once, and what of; which may have been asked again."""
    words = _WORDS[locale]
    newest = {(claim.plain, claim.source): claim for claim in dispute}.values()
    values = [
        words["value"].format(
            value=one_line(claim.value)[:MAX_VALUE_CHARS],
            id=short_id(claim.evidence.evidence_id),
            source=short_line(claim.evidence.source.name) or claim.evidence.source.kind,
        )
        for claim in newest
    ]
    field_name = short_line(name.removeprefix("$."))
    if ids := common_ids([claim.evidence for claim in dispute]):
        field_name = words["about"].format(field=field_name, ids=", ".join(ids))
    return entry(words["line"].format(field=field_name, values="; ".join(values)))
