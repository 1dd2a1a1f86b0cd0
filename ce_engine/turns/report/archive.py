"""What is kept of a turn so that it can be replayed: refs, digests and numbers, never text (A-21, decision 3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ce_engine.config import RuntimeConfig
from ce_engine.ports.pruner import Pruner
from ce_engine.prepare.blocks.material import LAYERS, NOTED, RULES, Material
from ce_engine.prepare.choose.anchored_context import Pin, Pins, in_line
from ce_engine.prepare.choose.budget import Limit
from ce_engine.prepare.choose.cut import CutMarks
from ce_engine.prepare.compose.render import Locale
from ce_engine.prepare.message_groups import BelowCut, MessageItem
from ce_engine.prepare.outcome import Outcome
from ce_engine.prepare.reconcile.earlier_lanes import EarlierLanes
from ce_engine.prepare.sources import CandidateSources
from ce_engine.prepare.tool_results.compact import NO_FORMS, ArchivedForms
from ce_engine.schema.call import ModelCall
from ce_engine.schema.ids import Fingerprinter
from ce_engine.schema.json_text import canonical_json
from ce_engine.schema.message_forest import MessageForest
from ce_engine.schema.rows import SummaryRow
from ce_engine.sessions.view import ArchivedList, SessionView
from ce_engine.turns.input.tool_result_texts import fetches, unstored
from ce_engine.turns.record.persistence_boundary import Ingest
from ce_engine.turns.record.write_group import RecordGroup
from ce_engine.turns.report.input_hash import InputHash
from ce_engine.turns.report.payload import put_in


Runs = list[list[Any]]
"""Entries as (id of the last one, how many), each run going back from its last."""


@dataclass(frozen=True, slots=True)
class ReplayInputs:
    """What a replay knows from the archive, and a call would find out."""

    extras: dict[str, int] | None = None
    saved: Mapping[int, int] = field(default_factory=dict)
    now: str = ""
    results: ArchivedForms = NO_FORMS
    credit: int | None = None
    has_news: bool = False


NOTHING = ReplayInputs()


@dataclass(frozen=True, slots=True)
class Selection:
    """What was chosen for a call, and what it was chosen from.

    Attributes:
        extras: tokens that go out beside the messages, by kind.
        marks: the lane's cut before the call.
        bring: earlier lanes that could be brought in.
        factor: by which the lane's estimates were too low.
        summary: the one that stood for what the cut left out; else all that were there had a say.
    """

    outcome: Outcome
    items: Sequence[MessageItem]
    limit: Limit
    extras: dict[str, int]
    marks: CutMarks
    sources: CandidateSources
    materials: Sequence[Material]
    bring: Iterable[list[int]]
    factor: float
    pruner: Pruner
    summary: SummaryRow | None = None

    def hasher(self, view: SessionView, locale: Locale) -> InputHash:
        """What hashes it as an input of a session."""
        return InputHash(view, self.items, self.outcome, self.sources, locale)


def config_archive(config: RuntimeConfig) -> dict[str, Any]:
    """The configuration as it is archived: what was set, without rules and tags (they may name people)."""
    without = {"redaction": {"rules"}, "observability": {"tags"}}
    if not isinstance(config.prune.strategy, str):
        without["prune"] = {"strategy"}
    return config.model_dump(mode="json", exclude_unset=True, exclude=without)


def kind_of(pruner: Pruner) -> str:
    """The pruner's class: its own state is not archived."""
    return type(pruner).__qualname__


def material_mac(fingerprinter: Fingerprinter, material: Material) -> str:
    """Tells whether a material is what it was."""
    text = f"{material.section}\x00{material.priority}\x00{material.score}\x00{material.text}"
    return fingerprinter.mac("material", text).hex()


def summary_mac(fingerprinter: Fingerprinter, content: str) -> str:
    """Tells whether a summary says what it said: it grows in its place."""
    return fingerprinter.mac("summary", content).hex()


def system_mac(fingerprinter: Fingerprinter, content: str) -> str:
    """Stands for a message of the host that is never stored."""
    return fingerprinter.mac("system", content).hex()


def _before(log: MessageForest, n: int) -> int:
    """What stands before an entry in a whole list: the result before a result, else its call; after a call, its last result."""
    parent = log.parents[n]
    results = log.results(parent) if parent >= 0 else ()
    if log.entries[n].role == "tool":
        at = results.index(n) if results else 0
        return results[at - 1] if at else parent
    return results[-1] if results else parent


def runs(log: MessageForest, places: Sequence[int]) -> Runs:
    """The entries of a list as runs, in order: a list that only grows is one run, however long."""
    reversed_runs: Runs = []
    parents, answered, count, last = log.parents, log.answered_calls, 0, -1
    for place in reversed(places):
        follows = last >= 0 and (
            # Most often the entry right behind, without results between: no need to ask for more.
            (place == last - 1 == parents[last] and place not in answered)
            or _before(log, last) == place
        )
        if follows:
            count += 1
        else:
            if count:
                reversed_runs[-1][1] = count
            reversed_runs.append([log.entries[place].message_id, 1])
            count = 1
        last = place
    if count:
        reversed_runs[-1][1] = count
    return reversed_runs[::-1]


def joined(log: MessageForest, head: Runs, tail: Runs) -> Runs:
    """The runs of a list of which both parts are known; nothing that is given is changed."""
    if not head or not tail:
        return [*head, *tail]
    first = expanded(log, tail[:1])[0]
    last = log.by_message_id(head[-1][0])
    if _before(log, first) != last:
        return [*head, *tail]
    (name, count), *rest = tail
    return [*head[:-1], [name, head[-1][1] + count], *rest]


def archive_below(
    log: MessageForest, below: BelowCut, archive: Mapping[str, Any], before: BelowCut | None
) -> dict[str, Any]:
    """What the archive of a whole list tells of the messages below its cut; of those `before` it is known."""

    def part(name: str) -> dict[str, Any]:
        entries: Mapping[str, Any] = archive.get(name, {})
        return {index: entry for index, entry in entries.items() if int(index) < below.end}

    known_line = [] if before is None else before.archive["line"]
    new = below.places[0 if before is None else len(before.places) :]
    line = joined(log, known_line, runs(log, new))
    return {"line": line, "differs": part("differs"), "tokens": part("tokens")}


def expanded(log: MessageForest, line: Runs) -> list[int]:
    """The entries of `runs`; those that are not there any more are left out."""
    places: list[int] = []
    for message_id, count in reversed(line):
        n = log.by_message_id(message_id)
        for _ in range(count):
            if n is None or n < 0:
                break
            places.append(n)
            n = _before(log, n)
    return places[::-1]


def _redacted(material: Material, ingest: Ingest) -> Material:
    """What a source gave as it may be stored: all words of it are the source's."""
    return replace(
        material,
        text=ingest.text(material.text, is_stored=True)[0].text,
        source=ingest.name(material.source),
        at=ingest.name(material.at),
        evidence_id=ingest.id(material.evidence_id) or "",
        sensitivity=ingest.name(material.sensitivity) if material.sensitivity else None,
    )


def _archived(anchor: str, pin: Pin) -> list[Any]:
    """What a pin is rendered from: the message it stands before, what is in it, and what it says is left out."""
    more = [pin.steps, pin.live] if pin.live else [pin.steps] if pin.steps else []
    return [anchor, _refs(pin), *more]


def _refs(pin: Pin) -> list[Any]:
    """What a pin renders: an id, or with it the sentences of which alone it has the text."""
    refs = ((name.partition(":")[2], sentences) for name, sentences in pin.refs)
    return [[name, *sentences] if sentences else name for name, sentences in refs]


@dataclass(frozen=True, slots=True)
class ArchiveWriter:
    """Makes the archive of one call; `estimator` is the counter's name."""

    records: RecordGroup
    call: ModelCall
    config: RuntimeConfig
    estimator: str
    choice: Selection
    archived: ArchivedList | None = None
    """Those of the messages that the list begins with, from the call before."""

    def archived_list(self, archive: Mapping[str, Any]) -> ArchivedList | None:
        """What an archive that was made tells of the whole list, for the next list that begins with it."""
        outcome = self.choice.outcome
        if outcome.line.below or outcome.forms:
            return None
        return ArchivedList(len(self.call.messages), self._by, archive)

    @property
    def _by(self) -> tuple[str, str]:
        return self.estimator, self.records.ingest.redactor_version

    def _archive_start(self) -> tuple[int, Mapping[str, Any]]:
        """Of how many leading messages is known what is to be told, and that."""
        outcome, archived = self.choice.outcome, self.archived
        if below := outcome.line.below:
            return 0, below.archive  # which are no items
        if archived is None or archived.by != self._by or outcome.forms:
            return 0, {}
        return archived.count, archived.archive

    def build(self) -> dict[str, Any]:
        """The archive as plain data. What is at its default is left out."""
        view, call, selection = self.records.view, self.call, self.choice
        name, mac = self.records.ingest.name, view.fingerprinter
        first, known_archive = self._archive_start()
        new = [i for i in selection.items if i.index is not None and i.index >= first]
        placed = [item.n for item in new if item.n is not None]
        unstored = {
            index: (system_mac(mac, call.messages[index].message.content), item.tokens)
            for item in selection.items
            if item.n is None and (index := item.index) is not None
        }
        macs = {index: digest for index, (digest, _) in unstored.items()}
        bring, marks, memory = selection.bring, selection.marks, view.requests.get(call.request_id)
        archive = {
            "hash": selection.hasher(view, self.config.locale).compute(macs),
            "messages": [len(view.rows), view.rows[-1].message.message_id if view.rows else ""],
            "evidence": [len(view.evidence), next(reversed(view.evidence), "")],
            "line": joined(view.log, known_archive.get("line", ()), runs(view.log, placed)),
            "system": [[index, *pair] for index, pair in unstored.items()],
            "differs": known_archive.get("differs", {}) | dict(self._differing(new)),
            "tokens": known_archive.get("tokens", {}) | dict(self._recounted(new)),
            "estimator": self.records.ingest.counted_by(self.estimator),
            "model": name(call.model_hint) if call.model_hint else "",
            "window": call.context_window,
            "extras": {k: n for k, n in selection.extras.items() if k != "priming"},
            "marks": [marks.drop, marks.shorten, marks.budget] if marks.budget else [],
            "factor": selection.factor if selection.factor != 1.0 else None,
            "by_hand": call.by_hand,
            "closed": not call.restore,
            "bring": self._lanes(bring) if isinstance(bring, EarlierLanes) else [],
            "documents": [evidence_id for evidence_id, _ in memory.documents] if memory else [],
            "saved": dict(self._savings()),
            "credit": [] if selection.sources.credit is None else [selection.sources.credit],
            "now": selection.sources.now,
            "pruner": kind_of(selection.pruner),
            **self._contexts(),
            **self._sharing(),
            **self._shorter(),
        }
        return {key: value for key, value in archive.items() if value}

    def _sharing(self) -> dict[str, Any]:
        """Who called, what stood before questions, and the summaries that the session had."""
        call, view = self.call, self.records.view
        stood, before, after = self.choice.summary, self._pins(), self.choice.outcome.pins
        summary_rows = view.summaries.values() if stood is None else [stood]
        return {
            "pins": [_archived(anchor, pin) for anchor, pin in before.items()],
            "new_pins": [_archived(a, p) for a, p in after.items() if before.get(a) is not p],
            "gone_pins": [anchor for anchor in before if anchor not in after],
            "has_news": self.choice.sources.has_news,
            "role": call.role if call.role != "agent" else "",
            "want": sorted(call.want & LAYERS.keys()),
            "summaries": [
                [row.anchor_message_id, summary_mac(view.fingerprinter, row.summary.content)]
                for row in summary_rows
            ],
        }

    def _contexts(self) -> dict[str, Any]:
        """What recognises what sources gave, and where it is wanted all of it, redacted (E-02); whose vectors chose."""
        ingest, mac = self.records.ingest, self.records.view.fingerprinter
        materials = self.choice.materials
        whole = materials if self.config.observability.store_contexts else ()
        by, outcome = self.choice.sources.embedder, self.choice.outcome
        cost = put_in(outcome, self.choice.sources.count) if NOTED in outcome.contexts else {}
        return {
            "own_rules": cost.get(RULES, 0),  # where the report has one sum of both
            "embedder": ingest.name(by) if by else "",
            "materials": [[m.id, material_mac(mac, m)] for m in materials],
            "contexts": {
                m.id: asdict(_redacted(m, ingest))
                for m in whole  # sources' own have no placeholders any more
            },
        }

    def settings(self, turn_id: str) -> dict[str, Any]:
        """The configuration's digest, with the whole of it in the first turn that has it."""
        view = self.records.view
        last_config = view.archived_config
        if (
            last_config is not None
            and last_config[0] is self.config
            and view.configs[last_config[1]] != turn_id
        ):
            return {"config": last_config[1]}
        plain = config_archive(self.config)
        digest = view.fingerprinter.mac("config", canonical_json(plain)).hex()
        first = view.configs.setdefault(digest, turn_id)
        view.archived_config = self.config, digest
        settings = {"settings": self.records.ingest.data(plain)} if first == turn_id else {}
        return {"config": digest, **settings}

    def _pins(self) -> Pins:
        """What the call found before the messages of its line."""
        cached = self.config.placement == "cache"
        return in_line(self.choice.marks.pins, self.choice.outcome.line.groups) if cached else {}

    def _lanes(self, lanes: EarlierLanes) -> list[Any]:
        log = lanes.log
        before = log[lanes.before].message_id if lanes.before < len(log) else ""
        return [before, [log[n].message_id for n in sorted(lanes.without)]]

    def _differing(self, items: Iterable[MessageItem]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Where a host's message is not what its row says: by index, what is different."""
        rows, entries = self.records.view.rows, self.records.view.log.entries
        key = self.records.ingest.id
        for item in items:
            if item.n is None or item.index is None:
                continue
            calls = tuple(map(key, item.calls)) if item.calls else ()
            call_id = key(item.call_id) if item.call_id else item.call_id
            more = [key(i) for i in item.more_call_ids] if item.more_call_ids else []
            row, entry = rows[item.n], entries[item.n]
            failed = row.message.status == "error"
            if (
                calls != entry.calls
                or call_id != entry.call_id
                or item.origin != row.origin
                or item.protected
                or more
                or item.error != failed
            ):
                yield (
                    str(item.index),
                    {
                        "origin": str(item.origin),
                        "error": item.error,
                        "protected": item.protected,
                        "calls": list(calls),
                        "call_id": call_id,
                        **({"more_call_ids": more} if more else {}),
                    },
                )

    def _recounted(self, items: Iterable[MessageItem]) -> Iterator[tuple[str, int]]:
        """Tokens of messages that were counted in another way than their rows say, by index."""
        rows, forms = self.records.view.rows, self.choice.outcome.forms
        for item in items:
            if item.n is None or item.index is None:
                continue
            form = forms.get(item.key) if forms else None
            tokens = item.tokens + (form.saved if form else 0)
            if tokens != rows[item.n].tokens:
                yield str(item.index), tokens

    def _savings(self) -> Iterator[tuple[str, int]]:
        """What short forms save, where it was counted on a text that is not stored."""
        saved_by_index = self.choice.outcome.saved
        for item in self.choice.items if saved_by_index else ():
            saved = saved_by_index.get(-1 if item.index is None else item.index)
            if saved is not None and (item.n is None or self._is_live(item)):
                yield str(item.index), saved

    def _forms(self) -> dict[str, Any]:
        """How tool results went out, where that does not follow from what is stored."""
        if self.config.tool_results == "whole" and not self.choice.sources.compacts:
            return {}
        forms = unstored(self.records.view, self.call, self.choice.items, self.choice.outcome.forms)
        return {"forms": dict(forms), "fetches": fetches(self.call)}

    def _is_live(self, item: MessageItem) -> bool:
        """Whether the text that went out is another than the stored one."""
        assert item.n is not None
        return self.records.view.rows[item.n].message.content != self.choice.sources.text(item)

    def _shorter(self) -> dict[str, Any]:
        """Whether something was left out of a text that is not stored: of a message's, or a system message's."""
        shorter = self.choice.outcome.shorter
        items = [item for item in self.choice.items if item.key in shorter] if shorter else []
        return self._forms() | {
            "live_task": any(item.n is not None and self._is_live(item) for item in items),
            "short_system": any(item.n is None for item in items),
        }
