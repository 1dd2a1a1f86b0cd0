"""A session as one of its turns knew it: messages and evidence up to it, and its call from the archive (A-21)."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from ce_engine.audit.past_summaries import summaries_of_then
from ce_engine.audit.rules_sent import GONE, is_rule, rule_of_then
from ce_engine.config import RuntimeConfig
from ce_engine.errors import ReplayUnavailableError
from ce_engine.ports.pruner import Pruner
from ce_engine.prepare.blocks.material import NOTED, RULES, CollectedContext, Material
from ce_engine.prepare.compose.sections import FRAMING, Sections
from ce_engine.prepare.reconcile.earlier_lanes import EarlierLanes
from ce_engine.prepare.tool_results.compact import ArchivedForms
from ce_engine.schema.call import HostMessage, ModelCall
from ce_engine.schema.document import Message
from ce_engine.schema.enums import Origin, Priority, Role, TurnStatus
from ce_engine.schema.ids import Fingerprinter
from ce_engine.schema.replay import ReplayProblem
from ce_engine.schema.rows import CutMark, MessageRow, SessionState, TurnRow, archive_of
from ce_engine.schema.scope import Scope
from ce_engine.schema.stored_report import damaged_fields
from ce_engine.sessions.view import SessionView
from ce_engine.text.tokens import Calibration
from ce_engine.text.tokens.call_tokens import PRIMING, Counter
from ce_engine.turns.report.archive import (
    ReplayInputs,
    expanded,
    kind_of,
    material_mac,
    system_mac,
)


Row = TypeVar("Row")


@dataclass(slots=True)
class PastSession:
    """A session as one of its turns knew it."""

    scope: Scope
    state: SessionState
    turns: Sequence[TurnRow]
    at: int
    fingerprinter: Fingerprinter
    archive: dict[str, Any] = field(init=False)
    view: SessionView = field(init=False)
    places: list[int | None] = field(default_factory=list)
    macs: dict[int, str] = field(default_factory=dict)
    system: dict[int, str] = field(default_factory=dict)
    problems: list[ReplayProblem] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.archive = _archive(self.row)
        self.view = SessionView(self.scope, self.state.head, self.fingerprinter, None)

    @property
    def row(self) -> TurnRow:
        return self.turns[self.at]

    @property
    def question(self) -> int | None:
        tip = self.row.tip_message_id
        return self.view.log.by_message_id(tip) if tip else None

    def say(self, code: str, detail: str) -> None:
        self.problems.append(ReplayProblem(code=f"CONTEXT_REPLAY_{code}", detail=detail))

    def is_equal(self, digest: str) -> bool:
        """Whether the hash of an input that was made again is the one that was sent; if not, something says why."""
        equal: bool = digest == self.archive["hash"]
        if not equal and not self.is_explained:
            self.say("UNEXPLAINED", "another release may choose or word its texts in another way")
        return equal

    def config(self) -> RuntimeConfig:
        """The configuration that the turn had."""
        return config_of(self.row, self.turns, self.fingerprinter)

    # The session as it was

    def set_up(self, system: Sequence[str]) -> None:
        """Build the view as the turn knew it, and place the host's list in it."""
        view, archive = self.view, self.archive
        rows = self._until(self.state.rows, "messages", lambda r: r.message.message_id)
        evidence = self._until(self.state.evidence, "evidence", lambda r: r.evidence.evidence_id)
        message_ids = {row.message.message_id for row in rows}
        evidence_rows = [
            r if r.message_id in message_ids else replace(r, message_id=None) for r in evidence
        ]
        view.top_up(SessionState(self.state.head, rows, evidence=evidence_rows))
        self._keep_summaries()
        withheld = sum(row.withheld for row in rows)
        withheld += sum(not r.evidence.content and r.message_id is None for r in evidence_rows)
        if withheld:
            self.say("WITHHELD", f"{withheld} texts are not there: deleted, or never redacted")
        if self.fingerprinter.key_id != self.state.head.key_id:
            self.say("SECRET", "recorded with another secret than this install has: no hash agrees")
        if archive.get("live_task"):
            self.say("LIVE_TASK", "a message was shortened by its live text, which is not stored")
        self._place(system)
        drop, shorten, budget = archive.get("marks") or (None, None, 0)
        for kind, anchor in (("drop", drop), ("shorten", shorten)):
            if anchor:
                view.cuts[self.row.lane, kind, anchor] = CutMark(
                    self.row.lane, kind, anchor, budget
                )
        if factor := archive.get("factor"):
            view.lane(self.row.lane).calibration = Calibration.of(factor)
        documents = [i for i in archive.get("documents", ()) if i in view.evidence]
        memory = view.request(self.row.request_id)
        memory.documents = [(i, view.evidence[i].evidence.content) for i in documents]
        self._note_steps()

    def _keep_summaries(self) -> None:
        """The summaries that the turn knew, as far as they still say the same."""
        macs = dict(self.archive.get("summaries", ()))
        summaries = summaries_of_then(self.view, macs, self.state.summaries, self.bring() or None)
        self.view.summaries |= summaries
        if missing := len(macs) - len(self.view.summaries):
            self.say("SUMMARY", f"summaries whose text is gone: {missing}")

    def _until(
        self, rows: Sequence[Row], name: str, id_of: Callable[[Row], str | None]
    ) -> list[Row]:
        """The rows that the turn knew."""
        count, last = self.archive.get(name, (0, ""))
        places = [at for at, row in enumerate(rows) if last and id_of(row) == last]
        known_rows = list(rows[: places[0] + 1] if places else rows[:count])
        if len(known_rows) != count:
            self.say(
                "LOG",
                f"the turn knew {count} {name}, and the store has {len(known_rows)} up to there",
            )
        return known_rows

    def _place(self, system: Sequence[str]) -> None:
        """Give every message of the host's list its entry, and system messages what is known of them."""
        log, archive = self.view.log, self.archive
        placed = expanded(log, archive.get("line", []))
        if len(placed) != sum(count for _, count in archive.get("line", [])):
            self.say("MESSAGES", "messages of the list are not in the store any more")
        unstored = {int(index): mac for index, mac, _ in archive.get("system", ())}
        rest, count = iter(placed), len(placed) + len(unstored)
        if not all(0 <= index < count for index in unstored):
            raise ReplayUnavailableError(
                f"the archive of turn {self.row.turn_id!r} is damaged: it places system messages where its list "
                "has none. Only other turns can be replayed; see: ce verify"
            )
        for index in range(count):
            self.places.append(None if index in unstored else next(rest))
        self.macs = unstored
        for index, text in zip(unstored, system, strict=False):
            self.system[index] = text
            self.macs[index] = system_mac(self.fingerprinter, text)
            if self.macs[index] != next(m for i, m, _ in archive["system"] if int(i) == index):
                self.say("SYSTEM_CHANGED", f"system message {index} is not the one that was sent")
        if len(system) < len(unstored):
            missing = len(unstored) - len(system)
            self.say(
                "SYSTEM_NOT_GIVEN",
                f"system messages are never stored; the text of {missing} is not given",
            )
            if archive.get("short_system"):
                self.say("LIVE_TASK", "a system message was shortened, whose text is not given")

    def _note_steps(self) -> None:
        """Invocations that asked the same question twice, so that one step is no other's history."""
        invocations: Tally[tuple[int, str]] = Tally()
        for turn in self.turns[: self.at + 1]:
            n = self.view.log.by_message_id(turn.tip_message_id or "")
            is_dead = turn.status in (TurnStatus.FAILED, TurnStatus.ABANDONED)
            if n is None or not turn.request_id or self.view.log.parents[n] >= 0:
                continue
            if is_dead and turn is not self.row and turn.answer_message_id is None:
                continue
            invocations[n, turn.request_id] += 1
            if invocations[n, turn.request_id] > 1:
                self.view.note_several(turn.request_id)

    # The call as it was

    @property
    def is_explained(self) -> bool:
        """Whether a problem is named that changes an input."""
        return any(not problem.code.endswith("SYSTEM_NOT_GIVEN") for problem in self.problems)

    def call(self) -> ModelCall:
        archive, row = self.archive, self.row
        return ModelCall(
            self.scope,
            [],
            lane_key=row.lane or None,
            request_id=row.request_id,
            model_hint=archive.get("model"),
            context_window=archive.get("window"),
            framework=row.framework,
            restore=not archive.get("closed", False),
            by_hand=archive.get("by_hand", False),
            role=archive.get("role", "agent"),
            want=frozenset(archive.get("want", ())),
        )

    def messages(self, counted: str | None, estimator: str) -> list[HostMessage]:
        """The host's list; as it was counted then, by the name `counted`, else to be counted anew."""
        tokens = {int(index): n for index, _, n in self.archive.get("system", ())}
        messages = []
        for index, place in enumerate(self.places):
            if place is None:
                message = Message(role=Role.SYSTEM, content=self.system.get(index, ""))
                counted_by = None if index in self.system else estimator
                digest = () if index in self.system else (self.macs[index],)
                host_message = HostMessage(message, Origin.SYSTEM, media=digest)
                host_message.counted = (counted or counted_by or "", tokens[index])
            else:
                host_message = self._message(index, self.view.rows[place])
                host_message.counted = (
                    counted or "",
                    host_message.counted[1] if host_message.counted else 0,
                )
            messages.append(host_message)
        return messages

    def _message(self, index: int, row: MessageRow) -> HostMessage:
        message, other = row.message, self.archive.get("differs", {}).get(str(index), {})
        host_message = HostMessage(
            message,
            Origin(other.get("origin", row.origin)),
            error=other.get("error", message.status == "error"),
            protected=other.get("protected", False),
            more_call_ids=tuple(other.get("more_call_ids", ())),
        )
        host_message.counted = ("", self.archive.get("tokens", {}).get(str(index), row.tokens))
        if other:
            calls = [
                tool_call.model_copy(update={"id": call_id or tool_call.id})
                for tool_call, call_id in zip(
                    message.tool_calls or (), other["calls"], strict=False
                )
            ]
            update = {"tool_calls": calls or None, "tool_call_id": other["call_id"]}
            host_message.message = message.model_copy(update=update)
        return host_message

    def make_inputs(self) -> ReplayInputs:
        saved = {int(index): tokens for index, tokens in self.archive.get("saved", {}).items()}
        forms = {int(index): tuple(form) for index, form in self.archive.get("forms", {}).items()}
        results = ArchivedForms(forms, self.archive.get("fetches", False))
        credit = next(iter(self.archive.get("credit", ())), None)
        now = self.archive.get("now", "")
        has_news = self.archive.get("has_news", False)
        return ReplayInputs(_extras(self.archive), saved, now, results, credit, has_news)

    def bring(self) -> EarlierLanes | tuple[()]:
        """The earlier lanes that could be brought in."""
        log, bounds = self.view.log, self.archive.get("bring")
        if not bounds:
            return ()
        before = log.by_message_id(bounds[0])
        roots = frozenset(n for i in bounds[1] if (n := log.by_message_id(i)) is not None)
        return EarlierLanes(log, len(log) if before is None else before, self.row.lane, roots)

    @property
    def lacks_rules(self) -> bool:
        """Whether texts of rules are not there any more, and all else that is stored is."""
        codes = {problem.code.rpartition("CONTEXT_REPLAY_")[2] for problem in self.problems}
        return codes - {"SYSTEM_NOT_GIVEN"} == {"RULES"}

    def find_materials(
        self, collected: CollectedContext, counter: StandInCounter | None = None
    ) -> list[Material]:
        """The materials that the turn had, as far as their sources still give the same.

        Args:
            collected: what they give now.
            counter: counts rules whose text of then is not there as that was counted.
        """
        now = {m.id: m for m in collected.materials}
        macs = self.archive.get("materials", ())
        texts = {name: _material(plain) for name, plain in self.archive.get("contexts", {}).items()}
        materials, rules = [], 0
        for name, mac in macs:
            if is_rule(name) and self.fingerprinter.key_id == self.state.head.key_id:
                rules += 1
                rule = rule_of_then(name, mac, now.get(name), texts.get(name), self.fingerprinter)
                materials.append(rule)
                continue
            same = (source[name] for source in (now, texts) if name in source)
            exact = (m for m in same if material_mac(self.fingerprinter, m) == mac)
            material = next(exact, texts.get(name))
            if material is not None:
                materials.append(material)
        redacted = sum(
            material_mac(self.fingerprinter, m) not in dict(macs).values()
            for m in materials
            if m.text not in GONE
        )
        self._settle(counter, materials)
        is_told = any(p.code.endswith(("MATERIALS", "RULES")) for p in self.problems)
        if (changed := sum(m.text in GONE for m in materials)) and not is_told:
            self.say(
                "RULES",
                f"rules changed or deleted since: {changed} of {rules}; what says so stands in the place of each text",
            )
        if len(materials) < len(macs) and not is_told:
            missing = len(macs) - len(materials)
            self.say("MATERIALS", f"{missing} of {len(macs)} materials are gone or changed since")
        if redacted and not is_told:
            self.say(
                "MATERIALS", f"{redacted} of {len(macs)} materials are there as stored: redacted"
            )
        return materials

    def _settle(self, counter: StandInCounter | None, materials: Sequence[Material]) -> None:
        rules = [m for m in materials if m.context == RULES]
        if counter is None or all(m.text not in GONE for m in rules):
            return
        recorded = self.archive.get("own_rules")
        if recorded is None and all(m.context != NOTED for m in materials):
            recorded = self.row.report.get("payload_tokens", {}).get("rules")
        if recorded:  # else both were told as one sum
            text = Sections(self.config(), counter.text).text(RULES, rules)
            counter.settle(text, recorded)

    def compare(self, estimator: str, pruner: Pruner) -> None:
        """Name what this engine does in another way than the one that recorded."""
        was = self.archive["estimator"]
        if was != estimator:
            self.say("ESTIMATOR", f"counted by {was!r} then, by {estimator!r} here")
        if self.archive["pruner"] != kind_of(pruner):
            self.say("PRUNER", f"{self.archive['pruner']} chose then, {kind_of(pruner)} does here")


class StandInCounter(Counter):
    """Counts the rules of a turn as they were counted then, where what says that a text is not there stands in their place.

    So there is as much room for all else as there was.
    """

    rules, more = "", 0

    def settle(self, rules: str, recorded: int) -> None:
        """Count `rules`, wherever they stand, as the `recorded` tokens of those that went out."""
        self.more = recorded - FRAMING - self.text(f"\n\n{rules}")
        self.rules = rules

    def text(self, text: str) -> int:
        tokens = super().text(text)
        return tokens + self.more if self.rules and self.rules in text else tokens


def config_of(
    row: TurnRow, turns: Sequence[TurnRow], fingerprinter: Fingerprinter
) -> RuntimeConfig:
    """The configuration that a turn had: the first turn that had it keeps it.

    Raises:
        ReplayUnavailableError: the turn has no archive, or the configuration was never written.
    """
    digest = _archive(row)["config"]
    for archive in (archive_of(turn.report) for turn in turns):
        settings = archive.get("settings")  # `None` where it could not be redacted
        if archive.get("config") == digest and isinstance(settings, dict):
            return RuntimeConfig(**settings)
    if digest == fingerprinter.mac("config", "{}").hex():
        return RuntimeConfig()
    raise ReplayUnavailableError(
        f"the configuration of turn {row.turn_id!r} is not in the store: the turn that it was "
        "archived with was never written. Only other turns can be replayed."
    )


def before_in_lane(turns: Sequence[TurnRow], at: int) -> int | None:
    """The place of the lane's call before a turn's: of those that leave their history to us, too, or of the others.

    The first of its kind follows any; helpers' calls, of which nothing is archived, come in between.
    """
    lane, is_ours = turns[at].lane, leaves_history(turns[at])
    earlier = [n for n in range(at) if turns[n].lane == lane and turns[n].purpose == "chat"]
    alike = (n for n in reversed(earlier) if leaves_history(turns[n]) == is_ours)
    return next(alike, earlier[-1] if earlier else None)


def leaves_history(row: TurnRow) -> bool:
    """Whether a turn's app left its history to us."""
    archive = archive_of(row.report)
    return bool(archive.get("bring")) and not archive.get("closed")


def newest(turns: Sequence[TurnRow], fingerprinter: Fingerprinter) -> int:
    """The place of the newest turn that can be made again.

    Raises:
        ReplayUnavailableError: there is none; it says why the newest turn cannot.
    """
    for at in reversed(range(len(turns))):
        with suppress(ReplayUnavailableError):
            config_of(turns[at], turns, fingerprinter)
            return at
    config_of(turns[-1], turns, fingerprinter)
    raise AssertionError


def _material(plain: Mapping[str, Any]) -> Material:
    return Material(**{**plain, "priority": Priority(plain["priority"])})


def _extras(archive: Mapping[str, Any]) -> dict[str, int]:
    return {"priming": PRIMING, **archive.get("extras", {})}


def _archive(row: TurnRow) -> dict[str, Any]:
    archive = row.report.get("extra", {}).get("replay")
    if fields := damaged_fields(row):
        raise ReplayUnavailableError(
            f"the report of turn {row.turn_id!r} is damaged: what stands in {', '.join(fields)} is none. "
            "Only other turns can be replayed; see: ce verify"
        )
    if not isinstance(archive, dict):
        raise ReplayUnavailableError(
            f"turn {row.turn_id!r} has no archive to replay it from: it was a helper call, was recorded "
            "by an older release, or with observability.include_reports_in_store = false."
        )
    return archive
