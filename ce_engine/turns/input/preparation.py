"""One preparation: from a model call and what is known of its session to a plan, a turn and a report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ce_engine.config import RuntimeConfig
from ce_engine.errors import BudgetExceededError
from ce_engine.ports.pruner import Pruner
from ce_engine.prepare.blocks.material import CollectedContext
from ce_engine.prepare.choose.budget import Limit, is_over, limit
from ce_engine.prepare.choose.conflict import KEEP_BOTH, NOTE_ID
from ce_engine.prepare.choose.cut import CutMarks
from ce_engine.prepare.choose.prune import GuardedPruner, pruner_of
from ce_engine.prepare.choose.sharing import InputShare, share_of
from ce_engine.prepare.message_groups import BelowCut, MessageItem
from ce_engine.prepare.outcome import Outcome
from ce_engine.prepare.pipeline import assemble
from ce_engine.prepare.sources import CandidateSources
from ce_engine.prepare.tool_results.compact import (
    ResultTexts,
    assemble_compact,
    is_cut_with_results,
)
from ce_engine.runtime.processes import owner
from ce_engine.schema.call import HostMessage, Insert, ModelCall, Prepared, Restore, TurnHandle
from ce_engine.schema.degradation import PRUNE_FAILED, Degradation
from ce_engine.schema.report import Report
from ce_engine.schema.rows import TurnRow
from ce_engine.sessions.lane_cut import LaneCut
from ce_engine.sessions.view import ArchivedList, OpenTurn, SessionView
from ce_engine.text.redaction.pieces import long_parts
from ce_engine.text.tokens.call_tokens import Counter
from ce_engine.turns.input.attempts import repeated_turn
from ce_engine.turns.input.continued_line import go_on
from ce_engine.turns.input.history import History
from ce_engine.turns.input.list_intake import ListIntake
from ce_engine.turns.input.other_processes import follow
from ce_engine.turns.input.recall import Recall
from ce_engine.turns.input.rehydration import Rehydration, rehydrated
from ce_engine.turns.input.tool_result_texts import results_of
from ce_engine.turns.record.attachments import unreadable
from ce_engine.turns.record.write_group import RecordGroup, put_turn
from ce_engine.turns.report.archive import (
    NOTHING,
    ArchiveWriter,
    ReplayInputs,
    Selection,
    archive_below,
)
from ce_engine.turns.report.report import ReportWriter, announce, stored_report
from ce_engine.turns.report.untouched import UntouchedWriter


if TYPE_CHECKING:
    from ce_engine.sessions.vectors import Vectors


NEAR_BUDGET = 0.5
"""Share of the budget from which on something may be left out at the next call."""


@dataclass(slots=True)
class Preparation:
    """The steps of one preparation, in order; `records` collects what is to be stored."""

    call: ModelCall
    config: RuntimeConfig
    records: RecordGroup
    counter: Counter
    pruner: Pruner
    degradations: list[str] = field(default_factory=list)
    collected: CollectedContext = field(default_factory=CollectedContext)
    turn_id: str = ""
    places: list[int | None] = field(default_factory=list)
    history: History = field(init=False)
    question: int | None = None
    mates: frozenset[str] = frozenset()
    new: int = 0
    archive: dict[str, Any] = field(default_factory=dict)
    passed: bool = False
    """The host's list went out as it is: nothing is chosen, and what it cost is told."""
    archived: ArchivedList | None = None
    """The archive of the lane's last call, of the messages that this list begins with."""
    budget: int | None = None
    vectors: Vectors | None = None
    share: InputShare = field(init=False)

    def __post_init__(self) -> None:
        self.passed |= bool(self.turn_id)  # its turn began while it waited
        enabled = self.config.enable_share_context
        self.share = share_of(self.call.role, self.call.want, enabled=enabled)

    @property
    def view(self) -> SessionView:
        return self.records.view

    @property
    def cut(self) -> LaneCut:
        return LaneCut(self.view, self.lane_key, self.counter.name)

    @property
    def lane_key(self) -> str:
        return self.call.lane_key or ""

    @property
    def texts(self) -> Iterator[Any]:
        """What is read of the call for the first time."""
        for host in self._new():
            yield from long_parts(host.message)
        if self.config.observability.store_contexts:
            yield from (material.text for material in self.collected.materials)

    @property
    def unread(self) -> int:
        """Characters of the session that a search reads for the first time; none where nothing will be left out."""
        call, used = self.call, self.view.lane(self.lane_key).input_tokens
        bound = limit(self.config, call.context_window, by_hand=call.by_hand).tokens
        if used is None or (call.by_hand and self.view.documents):
            return self.view.unread
        new = sum(len(host.message.content) for host in self._new())
        has_room = bound is None or used + new < NEAR_BUDGET * bound
        return 0 if has_room else self.view.unread

    def _new(self) -> list[HostMessage]:
        """The messages of the call that are seen for the first time; those of the lane's last list are not."""
        alike = self.view.lane(self.lane_key).sent_list.compare(self.call.messages)
        return [host for host in alike.others if host.recognised is None]

    def take_in(self) -> int:
        """Record what is new of the list, and nothing else; how many messages that are."""
        return ListIntake(self.records.redact(self.call), self.records, self.counter).take_in().new

    def run(self) -> tuple[Prepared, Selection]:
        """Reconcile, record what is new, assemble, open the turn; with what was chosen, for those who look."""
        self.begin()
        return self.finish(*self.choose())

    def begin(self) -> None:
        """Reconcile, and record what is new."""
        self.call = self.records.redact(self.call)
        if self.call.by_hand:
            self.call = go_on(self.call, self.records)
        call, view = self.call, self.view
        self.mates = view.batch_mates(call.batch, call.request_id)
        if call.purpose != "chat":
            self.places = [None] * len(call.messages)
            self.history = History(view, call, self.counter)
            return
        lane = view.lane(self.lane_key)
        turn, lane.elsewhere = lane.elsewhere, None  # once, even if it cannot be followed
        if turn is not None:
            follow(view, turn, self.config.locale)
        intake = ListIntake(call, self.records, self.counter, self.mates).take_in()
        self.places, self.question, self.new = intake.places, intake.question, intake.new
        self.archived = intake.archived
        self.history = History(view, call, self.counter, intake.lanes, intake.question)
        self.history.known_items, self.history.keeps = intake.items, True

    def finish(self, selection: Selection, recall: Recall) -> tuple[Prepared, Selection]:
        """Open the turn of what was chosen."""
        call, view, outcome = self.call, self.view, selection.outcome
        self._see_budget(outcome)
        view.lane(self.lane_key).input_tokens = outcome.used
        archiving = ArchiveWriter(
            self.records, call, self.config, self.counter.name, selection, self.archived
        )
        if call.purpose == "chat" and self.config.observability.include_reports_in_store:
            self.archive = archiving.build()  # of what is stored: before live values come back
            view.lane(self.lane_key).archived = archiving.archived_list(self.archive)
            self.archive |= {"passed": True} if self.passed else {}
        if call.purpose == "chat":
            self._remember_cut(outcome, selection.marks)
        done = rehydrated(
            outcome,
            selection.items,
            selection.limit.tokens,
            view.redactor,
            self.counter,
            call.messages,
        )
        turn = self._open()
        view.lane(self.lane_key).turn_ids.append(turn.row.turn_id)
        if self.archive:
            self.archive |= archiving.settings(turn.row.turn_id)
        self._tell(turn.report, recall, done, outcome)
        restores = self.history.is_brought_in
        bodies = view.lane(self.lane_key).bodies_of(by_engine=restores)
        telling = ReportWriter(call, outcome, selection.sources.count, bodies)
        telling.report(turn.report, self.budget, selection.extras)
        without = UntouchedWriter(call, view, self.counter, self.places, restores)
        without.report(turn.report, selection.extras, same=outcome.unchanged)
        self._keep(turn, outcome)
        return Prepared(turn.handle, outcome.plan, outcome.unchanged, turn.report, call), selection

    def _see_budget(self, outcome: Outcome) -> None:
        outcome.over_budget |= self.budget is not None and outcome.used > self.budget
        if outcome.over_budget and self.config.fail == "open":  # else the turn fails with it
            self.records.degrade(Degradation(BudgetExceededError.code))

    def _marks(self, items: Sequence[MessageItem], below: BelowCut | None) -> CutMarks:
        """The lane's standing cut; who may have nothing brought in has nothing of before, either."""
        if self.call.purpose != "chat":
            return CutMarks()
        marks = self.cut.marks(items, below)
        return marks if self.share.recall else replace(marks, pins={})

    def choose(self, inputs: ReplayInputs = NOTHING) -> tuple[Selection, Recall]:
        """Assemble from what is known by now; a replay runs this again, with its `inputs`."""
        call, config, bound = self.call, self.config, self._bound()
        if (chat := call.purpose == "chat") and self.share.history:
            self.history.bring_in(bound)
        extras = inputs.extras or self.counter.extras(call)
        recall = self._recall()
        sources = self._sources(recall, inputs)
        pruner = GuardedPruner(inner_pruner := pruner_of(config, self.pruner))
        results = results_of(self.view, call, config, sources, inputs.results)
        fixed = sum(extras.values())
        within = partial(
            assemble, fixed=fixed, limit=bound, config=config, pruner=pruner, inject=chat
        )

        def assembled(below: BelowCut | None) -> tuple[CutMarks, list[MessageItem], Outcome]:
            items = self.history.line(self.places, below)
            marks = self._marks(items, below)
            forms = self._formed(results, sources, bound, fixed, items, below)
            run = partial(within, marks=marks)
            formed, outcome = assemble_compact(items, sources, forms, run)
            if forms is None and results is not None and is_cut_with_results(outcome, items):
                sources.compacts = True
                formed, outcome = assemble_compact(items, sources, results, run)
            return marks, formed, outcome

        whole = not chat or self.history.items
        marks, items, outcome = assembled(None if whole else self.cut.known_below())
        if marks.below and not (outcome.cut.stands or outcome.cut.moved):
            marks, items, outcome = assembled(None)
        outcome.leave_out(self.collected.left_out)
        if pruner.failed:
            self.records.degrade(Degradation(PRUNE_FAILED))
        factor, history = self.view.lane(self.lane_key).calibration.factor, self.history
        of = sources, self.collected.materials, history.lanes
        return Selection(
            outcome, items, bound, extras, marks, *of, factor, inner_pruner, history.stood
        ), recall

    def _sources(self, recall: Recall, replay: ReplayInputs) -> CandidateSources:
        """What the stages ask; of a replay, what `replay` has."""
        sources = recall.sources(self.counter)
        sources.saved = replay.saved
        if replay is not NOTHING:
            sources.credit = replay.credit
            sources.has_news = replay.has_news
        elif sources.learns:
            document_count = self.view.lane(self.lane_key).documents
            sources.has_news = len(self.view.documents) != document_count
        if self.config.prune.ttl_seconds:
            sources.now = replay.now or self.records.ingest.clock.now_iso()
        return sources

    def _formed(
        self,
        results: ResultTexts | None,
        sources: CandidateSources,
        bound: Limit,
        fixed: int,
        items: Sequence[MessageItem],
        below: BelowCut | None,
    ) -> ResultTexts | None:
        """The tool results where they take their forms: from when they arrive, or over the budget."""
        is_whole = self.config.tool_results == "whole"
        sources.compacts = is_whole and is_over(bound, fixed, items, below)
        return results if sources.compacts or not is_whole else None

    def _keep(self, turn: OpenTurn, outcome: Outcome) -> None:
        """Record the turn as it is now, with its report."""
        announce(self.records, turn.row, outcome)
        report = turn.report
        report.warnings += [*self.collected.warnings, *self.counter.warnings]
        report.warnings += unreadable(self.call.messages, self.records.ingest)
        if self.config.observability.include_reports_in_store:
            turn.row.report = stored_report(report, self.view.fingerprinter)
            if self.archive:
                turn.row.report["extra"] = {"replay": self.archive}
        self.records.writes.append(put_turn(turn.row))

    def _tell(self, report: Report, recall: Recall, done: Rehydration, outcome: Outcome) -> None:
        """What was found, brought in and redacted on the way; of sources that disagree, where the model has one of them."""
        report.placeholders_sent = done.placeholders_sent
        shown_ids = self._shown_evidence(outcome) if recall.conflicts else set()
        is_noted = any(d.block_id == NOTE_ID and d.action != "dropped" for d in outcome.decisions)
        report.conflicts = [
            c
            for c in recall.conflicts
            if shown_ids.intersection(c.evidence_ids) or (is_noted and c.resolution == KEEP_BOTH)
        ]
        report.warnings += recall.warnings if report.conflicts else []
        report.redactions = list(self.records.ingest.redactions.values())
        report.new_evidence_ids = self.records.evidence_ids

    def _shown_evidence(self, outcome: Outcome) -> set[str]:
        """Ids of the evidence that goes out: what was put in, what the note has a value of, and tools' results."""
        of, log, shown_ids = self.view.by_message, self.view.log, set(outcome.evidence_ids)
        for step in outcome.plan if of else ():
            if isinstance(step, Restore):
                name = step.message.message_id
            elif isinstance(step, Insert) or (n := self.places[step.index]) is None:
                continue
            else:
                name = log[n].message_id
            shown_ids.update(filter(None, [of.get(name or "")]))
        return shown_ids

    def _bound(self) -> Limit:
        """What the call may have; none where it went out already."""
        window, by_hand = self.call.context_window, self.call.by_hand
        bound = self._calibrated(limit(self.config, window, by_hand=by_hand))
        self.budget = bound.tokens
        return replace(bound, tokens=None) if self.passed else bound

    def _calibrated(self, bound: Limit) -> Limit:
        """A smaller limit where the lane's estimates proved too low: the provider counts (decision 11)."""
        factor = self.view.lane(self.lane_key).calibration.factor
        if bound.tokens is None or factor == 1.0 or self.counter.exact:
            return bound
        return Limit(int(bound.tokens / factor), bound.inject, f"{bound.source}, calibrated")

    # The cut

    def _remember_cut(self, outcome: Outcome, before: CutMarks) -> None:
        marks, records = outcome.cut.marks, self.records
        self.view.pin(self.lane_key, outcome.pins)
        if self.call.by_hand:
            self.view.lane(self.lane_key).documents = len(self.view.documents)
        if outcome.cut.moved:
            records.writes += self.cut.moved(marks, before, records.ingest.clock.now_iso())
        known_below = outcome.line.below
        if known_below is not None and not outcome.cut.moved:
            return
        of_message = outcome.saved_of, outcome.alone_of
        if (below := self.cut.learn_below(outcome.line, marks.drop, *of_message)) is not None:
            below.archive.update(archive_below(self.view.log, below, self.archive, known_below))

    def _recall(self) -> Recall:
        summary = self.history.summary
        recall = Recall(
            self.view,
            self.call,
            self.history.may_recall,
            self.config,
            self.config.prune.max_retrieved_chunks if self.share.recall else 0,
            [*self.collected.materials, *([summary] if summary else ())],
            self.history.stands_for,
            self.history.documents,
        )
        recall.mates, recall.is_closed = self.mates, not self.share.recall
        recall.vectors = self.vectors
        return recall

    # The turn

    def _open(self) -> OpenTurn:
        """Open a turn, or take up the failed one that this call repeats."""
        call, view, ingest = self.call, self.view, self.records.ingest
        row = repeated_turn(view, call, None if self.new else self.question)
        if row is None:
            row = TurnRow(
                turn_id=self.turn_id or ingest.ids.generate(),
                request_id=call.request_id,
                lane=self.lane_key,
                purpose=call.purpose,
                framework=call.framework,
                parent_turn_id=call.parent_turn_id,
                owner=owner(),
            )
        # A handle of its own for each attempt: a late end of an earlier one must not close this.
        handle = TurnHandle(row.turn_id, call.scope, call.request_id, self.lane_key, row.attempt)
        row.opened_at = ingest.clock.now_iso()
        if self.question is not None:
            row.tip_message_id = view.log[self.question].message_id
        turn = OpenTurn(handle, row, self.question, Report(turn_id=row.turn_id), len(view.log))
        turn.config, turn.tags, turn.restores = call.config, call.tags, self.history.is_brought_in
        turn.task_id, turn.sub_task_id = call.task_id, call.sub_task_id
        turn.report.framework, turn.report.lane = call.framework, self.lane_key
        turn.report.attempt, turn.report.purpose = row.attempt, call.purpose
        codes = [*self.degradations, *view.degraded, *self.records.degradations()]
        turn.report.degradations, view.degraded = list(dict.fromkeys(codes)), ()
        turn.report.estimator = self.counter.description
        handle.state = turn
        view.turns[row.turn_id] = turn
        for message in self.records.rows:
            message.turn_id = row.turn_id
        return turn
