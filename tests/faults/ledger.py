"""What writers said that they handed in, and how what a store has of a session compares with it."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace

from ce_engine import ContextEngine, ModelUsageStage, Role, Scope, SessionDocument, TurnStatus
from ce_engine.schema.invariants import check_invariants
from ce_engine.schema.rows import TurnRow


OUTPUT, RESULT = "llm_output", "tool_result"
MESSAGE, EVIDENCE = "message", "evidence"

Item = tuple[str, str]
"""Kind and text: each text is handed in once only, or again until it was acknowledged."""


@dataclass
class Ledger:
    """What the writers of one session said.

    Attributes:
        tried: what they were about to hand in, and may be stored.
        acked: what was acknowledged, by writer, in order.
    """

    tried: set[Item] = field(default_factory=set)
    acked: dict[str, list[Item]] = field(default_factory=lambda: defaultdict(list))
    may_be_late: bool = False
    """Nobody waited for the store: what it was too slow for came later, and may have come unrecognised."""

    def try_to(self, kind: str, *texts: str) -> None:
        self.tried.update((kind, text) for text in texts)

    def ack(self, writer: str, kind: str, *texts: str) -> None:
        self.acked[writer] += [(kind, text) for text in texts]

    @property
    def all_acked(self) -> set[Item]:
        return {item for items in self.acked.values() for item in items}


@dataclass
class Found:
    """What was compared, and what is wrong."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    open: set[str] = field(default_factory=set)
    abandoned: set[str] = field(default_factory=set)
    where: str = ""

    def expect(self, right: bool, what: str, *more: object) -> None:
        self.counts["expectations"] += 1
        if not right:
            told = " ".join(map(str, more))
            self.wrong.append(f"{self.where}: {what} {told[:500]}")


def compare(engine: ContextEngine, scope: Scope, ledger: Ledger, found: Found) -> None:
    """Compare one session; what is wrong goes into `found`."""
    found.where = scope.session_id
    document = engine.loop.run(engine.store.get_session(scope))
    if document is None:
        found.expect(not ledger.acked, "the session is gone")
        return
    found.counts["sessions compared"] += 1
    turns = list(engine.loop.run(engine.store.list_turns(scope)))
    _compare_texts(document, ledger, found)
    _compare_order(document, ledger, found)
    _compare_answers(document, turns, ledger, found)
    _compare_open(turns, found)
    found.expect(not (problems := check_invariants(document)), "invariants", problems)
    verified = engine.sync.verify(scope)
    found.counts["events verified"] += verified.events
    verified = replace(verified, uncounted=())  # of a write that was killed in the middle
    found.expect(verified.status == "intact", "the chain", verified)
    found.counts["events that nobody can check"] += verified.unchecked
    found.expect(
        not verified.unchecked or ledger.may_be_late, "nobody can check", verified.unchecked
    )
    events = engine.loop.run(engine.store.list_events(scope))
    told = sum(event.event_type == "MessageAppended" for event in events)
    found.expect(told == len(document.session.messages), "events of messages", told)


def _stored(document: SessionDocument) -> list[Item]:
    messages = [(MESSAGE, message.content) for message in document.session.messages]
    own = (e for e in document.evidences.values() if e.type != OUTPUT)
    return [*messages, *((EVIDENCE, evidence.content) for evidence in own)]


def _compare_texts(document: SessionDocument, ledger: Ledger, found: Found) -> None:
    """Nothing acknowledged is lost, nothing is there twice, or was never handed in."""
    stored, acked = Counter(_stored(document)), ledger.all_acked
    twice = {item: n for item, n in stored.items() if n > 1}
    found.counts["stored more than once"] += len(twice)
    found.expect(not twice or ledger.may_be_late, "stored more than once", twice)
    found.expect(not (lost := acked - stored.keys()), "acknowledged and lost", lost)
    strange = stored.keys() - ledger.tried
    found.expect(not strange, "stored and never handed in", strange)
    found.counts["acknowledged, compared"] += len(acked)
    found.counts["stored, of which nobody heard"] += len(stored.keys() - acked)
    results = sum(evidence.type == RESULT for evidence in document.evidences.values())
    calls = len(document.session.tool_state.tool_calls)
    found.expect(results == calls, "tool calls without their results", results, calls)


def _compare_order(document: SessionDocument, ledger: Ledger, found: Found) -> None:
    """Numbers without gaps, and each writer's messages in the order of its acknowledgements."""
    seqs = [message.seq for message in document.session.messages]
    found.expect(seqs == list(range(1, len(seqs) + 1)), "numbers", seqs)
    stored = list(enumerate(_stored(document)))
    place = {item: n for n, item in reversed(stored) if item[0] == MESSAGE}
    for writer, items in ledger.acked.items():
        places = [place[item] for item in items if item in place]
        found.expect(places == sorted(places), f"what {writer} said is in another order", items)


def _compare_answers(
    document: SessionDocument, turns: list[TurnRow], ledger: Ledger, found: Found
) -> None:
    """An answer came with all of its turn: its end, its usage, its evidence, or not at all."""
    answers = Counter(m.message_id for m in document.session.messages if m.role is Role.ASSISTANT)
    done = [turn for turn in turns if turn.status is TurnStatus.COMMITTED]
    of_turns = Counter(turn.answer_message_id for turn in done)
    same = of_turns <= answers if ledger.may_be_late else of_turns == answers
    found.expect(same, "answers and committed turns differ", len(done), answers.total())
    used = [u for u in document.session.model_usage if u.stage is not ModelUsageStage.SUMMARIZE]
    usages = sorted(usage.model_usage_id for usage in used)
    found.counts["summaries made"] += len(document.session.model_usage) - len(used)
    found.expect(
        usages == sorted(str(turn.model_usage_id) for turn in done), "usages and turns differ"
    )
    outputs = Counter(
        str(e.metadata["turn_id"])
        for e in document.evidences.values()
        if e.type == OUTPUT and "stage" not in e.metadata  # that of a summary
    )
    found.expect(outputs == Counter(turn.turn_id for turn in done), "outputs and turns differ")


def _compare_open(turns: list[TurnRow], found: Found) -> None:
    """Only the newest process of a lane has a turn open there: it closed those of the dead."""
    lanes: dict[str, list[TurnRow]] = defaultdict(list)
    for turn in turns:
        lanes[turn.lane].append(turn)
    for lane, each in lanes.items():
        left = [t for t in each if t.status is TurnStatus.OPEN and t.owner != each[-1].owner]
        found.expect(not left, f"lane {lane!r} has open turns of dead processes:", len(left))
    found.open |= {t.turn_id for t in turns if t.status is TurnStatus.OPEN}
    found.abandoned |= {t.turn_id for t in turns if t.status is TurnStatus.ABANDONED}
