"""The doors beside the turns: what is handed in, constraints, originals, and what foreign parts answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ce_engine import (
    Author,
    AuthorKind,
    BudgetConfig,
    ContextEngine,
    EvidenceFilter,
    EvidenceSource,
    EvidenceType,
    HandoverConfig,
    HostMessage,
    MemoryStore,
    Message,
    ModelCall,
    ObservabilityConfig,
    Origin,
    PruneConfig,
    RedactionConfig,
    RedactionRules,
    Ref,
    Retrieval,
    RetrievedDoc,
    Role,
    RuntimeConfig,
    Scope,
    SourceKind,
    StoreConfig,
    TaskRun,
    ToolRun,
    create_context_engine,
)
from ce_engine.ports.context import ContextPiece
from ce_engine.ports.llm import LlmRequest, LlmResponse
from ce_engine.schema.document import ContextBlock, Task
from ce_engine.schema.enums import BlockType, Priority
from ce_engine.schema.settings import Constraint
from ce_engine.schema.tool_runs import IngestOptions
from tests.canary import shown
from tests.canary.canaries import Canaries
from tests.canary.doors import Visitor


PATIENT = StoreConfig(deadline_s=20)  # a busy machine is no fault here


class Llm:
    """A model for summaries that repeats what it should not."""

    def __init__(self, canary: Canaries) -> None:
        self._canary = canary

    async def generate(self, request: LlmRequest) -> LlmResponse:
        del request
        c = self._canary
        return LlmResponse(c("LlmResponse.content"), c("LlmResponse.model"), 1, 1, 2)


class Notes:
    """A source of context that knows too much."""

    name, section = "notes", "knowledge__context"

    def __init__(self, canary: Canaries) -> None:
        self._canary = canary

    def fetch(self, scope: Scope, query: str, limit: int) -> Sequence[ContextPiece]:
        del scope, query, limit
        c = self._canary
        evidence_id = c("ContextPiece.evidence_id")
        return [ContextPiece(c("ContextPiece.text"), evidence_id=evidence_id)]


FOREIGN = {"LlmResponse.content", "LlmResponse.model", "ContextPiece.text"}
FOREIGN |= {"ContextPiece.evidence_id", "judge.answer", "judge.error"}
"""Doors that no method of the engine has: what parts of somebody else's answer."""


class Severe:
    """Names what is none of the constraints, or raises it."""

    def __init__(self, canary: Canaries) -> None:
        self.canary, self.asked = canary, 0

    async def judge(self, answer: str, constraints: Sequence[Constraint]) -> Sequence[str]:
        self.asked += 1
        if self.asked % 2:
            raise ValueError(answer, self.canary("judge.error"))
        return [self.canary("judge.answer"), *(rule.constraint_id for rule in constraints)]


def make_engine(store: str, canary: Canaries) -> ContextEngine:
    """An engine whose own configuration and parts have canaries, too."""
    own = canary("RedactionRules.patterns").replace("（", "").replace("）", "")
    rules = RedactionRules(
        patterns={"own": own},
        dictionaries={"words": [canary("RedactionRules.dictionaries")]},
        field_paths=[f"$['{canary('RedactionRules.field_paths')}']"],
    )
    config = RuntimeConfig(
        redaction=RedactionConfig(
            rules=rules,
            mode="dual_store",
            audit=True,
            originals_only=(canary("RedactionConfig.originals_only"),),
        ),
        model_hint=canary("RuntimeConfig.model_hint"),
        observability=ObservabilityConfig(inspect=True),
        handover=HandoverConfig(on_codes=frozenset({canary("HandoverConfig.on_codes")})),
        prune=PruneConfig(
            exclude_sensitivity=frozenset({canary("PruneConfig.exclude_sensitivity")})
        ),
        store=PATIENT,
    )
    parts: dict[str, Any] = {"llm_adapter": Llm(canary), "sources": [Notes(canary)]}
    parts["judge"] = Severe(canary)
    return create_context_engine(store, config=config, originals=MemoryStore(), **parts)


def ingested(v: Visitor) -> None:
    c = v.canary
    source = EvidenceSource(
        kind=SourceKind.TOOL, name=c("EvidenceSource.name"), uri=c("EvidenceSource.uri")
    )
    for args in ({c("IngestOptions.pure_args"): c("IngestOptions.pure_args")}, None):
        v.sync.ingest(
            v.scope,
            c("ingest.content"),
            source,
            EvidenceType.TOOL_RESULT,
            metadata={c("ingest.metadata"): c("ingest.metadata"), "status": c("ingest.metadata")},
            options=IngestOptions(pure_args=args),
        )
    run = ToolRun(c("ToolRun.name"), {"to": c("ToolRun.args")}, c("ToolRun.result"), pure=True)
    call = v.sync.record_tool_run(v.scope, run, request_id=c("record_tool_run.request_id"))
    piece_id, actor = call.tool_call_id, c("original.actor")
    assert v.sync.original(v.scope, piece_id, actor=actor).data
    v.refused(v.sync.original, v.scope, c("original.piece_id"), actor=actor)
    hit = RetrievedDoc(c("RetrievedDoc.text"), score=0.5)
    score_kind = c("Retrieval.score_kind")
    found = Retrieval(c("Retrieval.name"), c("Retrieval.query"), [hit], score_kind=score_kind)
    v.sync.record_retrieval(v.scope, found, request_id=c("record_retrieval.request_id"))


def kept(v: Visitor) -> None:
    c = v.canary
    blocks = [
        ContextBlock(
            block_id=c("ContextBlock.block_id"),
            block_type=BlockType.STATE,
            priority=Priority.HIGH,
            content=c("ContextBlock.content"),
            refs=[Ref(evidence_id=v.evidence(), selector=c("Ref.selector"))],
            created_at=c("ContextBlock.created_at"),
            sensitivity=c("ContextBlock.sensitivity"),
            mac=c("ContextBlock.mac"),
        )
    ]
    v.sync.put_context_blocks(v.scope, blocks)
    first = c("Task.task_id")
    c.drawn.append(("Task.depends_on", c.drawn_for("Task.task_id")))
    tasks = [
        Task(task_id=first, name=c("Task.name")),
        Task(
            task_id="second",
            name="n",
            depends_on=[first],
            result_evidence_ids=[c("Task.result_evidence_ids")],
            error=c("Task.error"),
        ),
    ]
    v.sync.upsert_tasks(v.scope, tasks)
    v.sync.upsert_tasks(v.scope, tasks)
    document = v.engine.loop.run(v.engine.store.get_session(v.scope))
    assert document is not None
    stored = document.session.task_state.todo_list.tasks
    assert len(stored) == len(tasks)
    assert stored[1].depends_on == [stored[0].task_id]
    _of_a_framework(v)


def ruled(v: Visitor) -> None:
    c, rules = v.canary, v.sync.constraints
    made = rules.create(v.scope, c("constraints.create.text"))
    v.refused(rules.create, v.scope, "x", kind=c("constraints.create.kind"))
    v.refused(rules.update, v.scope, made.constraint_id, kind=c("constraints.update.kind"))
    assert rules.list(v.scope, kind=c("constraints.list.kind")) == []
    rules.update(v.scope, made.constraint_id, text=c("constraints.update.text"))
    v.refused(rules.update, v.scope, c("constraints.update.constraint_id"), text="x")
    v.refused(rules.delete, v.scope, c("constraints.delete.constraint_id"))
    shown, unknown = c("constraints.accept.shown"), c("constraints.accept.constraint_ids")
    v.refused(rules.accept, v.scope, [], shown=shown)
    v.refused(rules.accept, v.scope, [unknown], shown=rules.list(v.scope))
    names = ("constraint_id", "text", "created_at", "updated_at", "kind")
    other: dict[str, Any] = {name: c(f"Constraint.{name}") for name in names}
    looked_at = Constraint.model_construct(**other, priority=Priority.MUST)
    v.refused(rules.accept, v.scope, [], shown=[looked_at])
    v.refused(v.sync.verify_settings, anchors=c("verify_settings.anchors"))
    actor = c("budgets.update.actor")
    v.refused(v.sync.budgets.update, v.scope, BudgetConfig(), 0, actor=actor)


def shared(v: Visitor) -> None:
    """A call that is given constraints, tasks, blocks, the source's pieces; then its line's summary."""
    c, lane = v.canary, v.canary("summarize.lane")
    v.reports.append(v.worker(lane, c("ModelCall.want")))
    for _ in range(6):
        message = Message(role=Role.USER, content=c("Message.content"))
        host = HostMessage(message, Origin.TASK)
        prepared = v.sync.prepare(ModelCall(v.scope, [host], lane_key=lane))
        v.reports.append(prepared.report)
        v.sync.commit(prepared.turn, v.answer())
    assert v.sync.summarize(v.scope, lane) is not None
    assert v.sync.summarize(replace(v.scope, agent_id="nobody")) is None


def looked(v: Visitor) -> None:
    c = v.canary
    v.prepared()
    v.sync.replay(v.scope, None, v.config(), c("replay.system"))
    v.refused(v.sync.replay, v.scope, c("replay.turn"))
    v.refused(v.sync.explain, v.scope, c("explain.turn"))
    v.refused(v.sync.handover, v.scope, c("handover.turn"))
    v.refused(v.sync.violations, v.scope, c("violations.turn_id"))
    v.sync.inspect((v.scope, c("inspect.call")), actor=v.scope.user_id)
    v.refused(v.sync.inspect, (v.scope, c("inspect.call")), actor=c("inspect.actor"))


def read(v: Visitor) -> None:
    c = v.canary
    v.sync.list_sessions(
        account_id=c("list_sessions.account_id"),
        user_id=c("list_sessions.user_id"),
        since=c("list_sessions.since"),
    )
    v.sync.export_user_data(v.scope.account_id, v.scope.user_id)
    v.sync.redact(v.scope, c("redact.text"))
    v.sync.get_evidence(v.scope, c("get_evidence.evidence_id"))
    name, lines, find = (c(f"fetch_evidence.{part}") for part in ("evidence_id", "lines", "find"))
    v.sync.fetch_evidence(v.scope, name, lines, find)
    since = EvidenceFilter(since=c("EvidenceFilter.since"))
    for times in (since, EvidenceFilter(until=c("EvidenceFilter.until"))):
        v.refused(v.sync.list_evidences, v.scope, times)
    v.sync.list_evidences(v.scope, EvidenceFilter(tags={"t": c("EvidenceFilter.tags")}))


def imported(v: Visitor) -> None:
    """A history of another app's, with all that a message may say; and one that is refused."""
    c, scope, asked = v.canary, replace(v.scope, session_id="imported"), v.request()
    said = Message(
        role=Role.USER,
        content=c("Message.content"),
        author=Author(kind=AuthorKind.USER, id=c("Author.id")),
        message_id=c("Message.message_id"),
        status=c("Message.status"),
        attachments=[shown.record(c)],
    )
    call = Message(role=Role.ASSISTANT, content=c("Message.content"), tool_calls=[asked])
    c.drawn.append(("Message.tool_call_id", c.drawn_for("ToolRequest.id")))
    result = Message(role=Role.TOOL, content=c("Message.content"), tool_call_id=asked.id)
    last = v.host(Message(role=Role.USER, content=c("Message.content")), Origin.TASK)
    messages: list[Message | HostMessage] = [said, call, result, last]
    v.sync.import_session(scope, messages, framework=c("import_session.framework"))
    late = Message(role=Role.USER, content=c("Message.content"), at=c("Message.at"))
    v.refused(v.sync.import_session, scope, [*messages, late])


MORE_DOORS = (ingested, kept, ruled, shared, looked, read, imported)


def _of_a_framework(v: Visitor) -> None:
    """Tasks that a framework tells of."""
    c, names = v.canary, ("request_id", "framework", "lane_key")
    runs = [
        TaskRun(
            c("TaskRun.task_id"),
            c("TaskRun.name"),
            depends_on=[c("TaskRun.depends_on")],
            result=c("TaskRun.result"),
            error=c("TaskRun.error"),
        )
    ]
    told: Any = {name: c(f"post_tasks.{name}") for name in names}
    v.engine.post_tasks(v.scope, runs, **told)
    task = Task(task_id="third", name="n", framework=c("Task.framework"))
    v.sync.upsert_tasks(v.scope, [task])
