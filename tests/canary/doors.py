"""Every door of the engine by hand: whatever text a caller may hand in, handed in with a canary in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ce_engine import (
    Answer,
    Author,
    AuthorKind,
    BudgetConfig,
    ContextEngine,
    ContextEngineError,
    EvidenceLinks,
    EvidenceSource,
    EvidenceType,
    HostMessage,
    Message,
    ModelCall,
    ModelUsage,
    ObservabilityConfig,
    Origin,
    ProviderKind,
    Ref,
    Report,
    Retrieval,
    RetrievedDoc,
    Role,
    RuntimeConfig,
    Scope,
    SourceKind,
    StoreConfig,
    SummaryConfig,
    ToolCall,
    ToolProvider,
    ToolRequest,
    ToolRun,
    TurnStatus,
    Usage,
)
from tests.canary import shown
from tests.canary.canaries import Canaries


SCOPE = Scope(session_id="s", user_id="u", account_id="a", project_id="p")
PATIENT = StoreConfig(deadline_s=20)  # a busy machine is no fault here
USER = EvidenceSource(kind=SourceKind.USER, name="form")


class Visitor:
    """Goes through the doors of one engine; `reports` is what it was told on the way."""

    def __init__(self, engine: ContextEngine, canary: Canaries) -> None:
        self.engine, self.sync, self.canary = engine, engine.sync, canary
        self.reports: list[Report] = []
        self.scope = replace(
            SCOPE, agent_id=canary("Scope.agent_id"), trace_id=canary("Scope.trace_id")
        )

    def go(self, doors: Iterable[Callable[[Visitor], None]]) -> None:
        for door in doors:
            door(self)

    def worker(self, lane: str, want: str) -> Report:
        """A call of one of several agents, and its report."""
        message = Message(role=Role.USER, content=self.canary("Message.content"))
        host = [HostMessage(message, Origin.TASK)]
        call = ModelCall(self.scope, host, lane_key=lane, role="worker", want=frozenset({want}))
        prepared = self.sync.prepare(call)
        self.sync.fail(prepared.turn, "timeout")
        return prepared.report

    def answer(self) -> Answer:
        return Answer(Message(role=Role.ASSISTANT, content=self.canary("Message.content")))

    def refused(self, call: Callable[..., Any], *args: Any, **more: Any) -> None:
        """A call that our own error must answer."""
        try:
            call(*args, **more)
        except ContextEngineError:
            return
        raise AssertionError(f"{call} was expected to be refused")

    def config(self) -> RuntimeConfig:
        c = self.canary
        tags = {c("ObservabilityConfig.tags"): c("ObservabilityConfig.tags")}
        return RuntimeConfig(
            model_hint=c("RuntimeConfig.model_hint"),
            provider_hint=c("RuntimeConfig.provider_hint"),
            observability=ObservabilityConfig(tags=tags),
            store=PATIENT,
            summary=SummaryConfig(model=c("SummaryConfig.model")),
        )

    def message(self, role: Role, content: str, **more: Any) -> Message:
        c = self.canary
        return Message(
            role=role,
            content=content,
            author=Author(kind=AuthorKind.USER, id=c("Author.id")),
            at=c("Message.at"),
            message_id=c("Message.message_id"),
            parent_id=c("Message.parent_id"),
            status=c("Message.status"),
            variant_of=c("Message.variant_of"),
            replaces=c("Message.replaces"),
            attachments=[shown.record(c)],
            **more,
        )

    def host(self, message: Message, origin: Origin) -> HostMessage:
        c = self.canary
        media = (c("HostMessage.media"),)
        host_id = c("HostMessage.host_id")
        more = (c("HostMessage.more_call_ids"),) if message.role is Role.TOOL else ()
        obj = c("HostMessage.obj")
        made = HostMessage(message, origin, host_id, obj=obj, media=media, more_call_ids=more)
        made.attachments = (shown.attachment(c),)
        made.arguments = tuple(c("HostMessage.arguments") for _ in message.tool_calls or ())
        return made

    def question(self) -> list[Message]:
        system = Message(role=Role.SYSTEM, content=self.canary("Message.content"))
        return [system, self.message(Role.USER, self.canary("Message.content"))]

    def evidence(self) -> str:
        kept = self.sync.record_evidence(SCOPE, "the first line", USER, EvidenceType.USER_INPUT)
        return kept.evidence_id

    def prepared(self) -> str:
        """An open turn by hand; its id."""
        c = self.canary
        tool = {"name": c("prepare_turn.tools"), c("prepare_turn.tools"): 1}
        done = self.sync.prepare_turn(
            self.scope,
            self.question(),
            self.config(),
            tools=[tool],
            request_id=c("prepare_turn.request_id"),
        )
        self.reports.append(done.report)
        return done.report.turn_id

    def request(self) -> ToolRequest:
        c = self.canary
        args = {c("ToolRequest.args"): {"to": [c("ToolRequest.args")]}}
        return ToolRequest(name=c("ToolRequest.name"), id=c("ToolRequest.id"), args=args)


def by_hand(v: Visitor) -> None:
    c, turn, asked = v.canary, v.prepared(), v.request()
    ref = Ref(evidence_id=v.evidence(), selector=c("Ref.selector"))
    usage = Usage(10, 5, details={c("Usage.details"): 1})
    v.sync.commit_assistant_message(
        v.scope,
        v.message(Role.ASSISTANT, c("Message.content"), tool_calls=[asked], refs=[ref]),
        [Ref(evidence_id=ref.evidence_id, selector=c("Ref.selector"))],
        turn_id=turn,
        usage=usage,
        model=c("commit_assistant_message.model"),
        provider=c("commit_assistant_message.provider"),
    )
    c.drawn.append(("Message.tool_call_id", c.drawn_for("ToolRequest.id")))
    result = v.message(Role.TOOL, c("Message.content"), tool_call_id=asked.id)
    going_on = v.sync.prepare_turn(v.scope, result, v.config())
    v.reports.append(going_on.report)
    roles = [part.role for part in going_on.assembled_input.parts]
    assert roles[-3:] == [Role.USER, Role.ASSISTANT, Role.TOOL], roles
    parts = going_on.assembled_input.parts
    assert parts[-1].tool_call_id == (parts[-2].tool_calls or [])[0].id
    v.sync.fail_turn(v.scope, c("fail_turn.error_code"), turn_id=going_on.report.turn_id)


def streams(v: Visitor) -> None:
    for end in ("finalize", "incomplete", "fail"):
        turn = v.prepared()
        pieces = list(enumerate(v.canary.split("commit_assistant_chunk.chunk")))
        for index, piece in reversed(pieces):
            v.sync.commit_assistant_chunk(v.scope, piece, index, turn_id=turn)
        if end == "fail":
            v.sync.fail_turn(v.scope, "timeout", turn_id=turn)
        else:
            v.sync.finalize_assistant_message(
                v.scope, turn_id=turn, complete=end == "finalize", usage=Usage(1, 1)
            )


def refusals(v: Visitor) -> None:
    """Ids that lead nowhere."""
    c, sync = v.canary, v.sync
    turn = v.prepared()
    nowhere = Ref(evidence_id=c("Ref.evidence_id"))
    said = Message(role=Role.ASSISTANT, content="yes", refs=[nowhere])
    v.refused(sync.commit_assistant_message, v.scope, said, turn_id=turn)
    said = Message(role=Role.ASSISTANT, content="yes")
    v.refused(sync.commit_assistant_message, v.scope, said, [nowhere], turn_id=turn)
    v.refused(
        sync.commit_assistant_message, v.scope, said, turn_id=c("commit_assistant_message.turn_id")
    )
    v.refused(
        sync.commit_assistant_chunk, v.scope, "a", 0, turn_id=c("commit_assistant_chunk.turn_id")
    )
    v.refused(
        sync.finalize_assistant_message, v.scope, turn_id=c("finalize_assistant_message.turn_id")
    )
    v.refused(sync.fail_turn, v.scope, "x", turn_id=c("fail_turn.turn_id"))
    v.refused(v.engine.open_turn, v.scope, c("open_turn.turn_id"))
    v.refused(sync.trace, v.scope, c("trace.ref"))
    stray = Message(role=Role.TOOL, content="4", tool_call_id=c("Message.tool_call_id"))
    v.refused(sync.prepare_turn, v.scope, stray)
    sync.delete_evidence(v.scope, c("delete_evidence.evidence_id"))
    sync.fail_turn(v.scope, "x", turn_id=turn)


def model_calls(v: Visitor) -> None:
    """The calls of adapters: whole lists, helpers, answers, failures."""
    c, lane = v.canary, v.canary("ModelCall.lane_key")
    history: list[HostMessage] = []
    for purpose in ("chat", "chat", "helper"):
        history.append(v.host(v.message(Role.USER, c("Message.content")), Origin.TASK))
        prepared = v.sync.prepare(
            ModelCall(
                v.scope,
                list(history),
                lane_key=lane,
                request_id=c("ModelCall.request_id"),
                tools=[{"name": c("ModelCall.tools")}],
                response_format={"title": c("ModelCall.response_format")},
                model_hint=c("ModelCall.model_hint"),
                purpose="helper" if purpose == "helper" else "chat",
                config=v.config(),
                framework=c("ModelCall.framework"),
                parent_turn_id=c("ModelCall.parent_turn_id"),
                task_id=c("ModelCall.task_id"),
                sub_task_id=c("ModelCall.sub_task_id"),
                retry_of=c("ModelCall.retry_of"),
                tags={c("ModelCall.tags"): c("ModelCall.tags")},
            )
        )
        v.reports.append(prepared.report)
        said = v.message(Role.ASSISTANT, c("Message.content"), tool_calls=[v.request()])
        answer = Answer(
            said,
            c("Answer.host_id"),
            c("Answer.model"),
            c("Answer.provider"),
            c("Answer.finish_reason"),
            [Ref(evidence_id=c("Ref.evidence_id"), selector=c("Ref.selector"))],
        )
        v.sync.commit(prepared.turn, answer, usage=Usage(1, 1, details={c("Usage.details"): 2}))
        history.append(v.host(said, Origin.TOOL_CALL))
        result = Message(role=Role.TOOL, content="1", tool_call_id=(said.tool_calls or [])[0].id)
        history.append(v.host(result, Origin.TOOL_RESULT))


def endings(v: Visitor) -> None:
    c = v.canary
    for status in (TurnStatus.FAILED, TurnStatus.INCOMPLETE, TurnStatus.ABANDONED):
        message = Message(role=Role.USER, content=c("Message.content"))
        prepared = v.sync.prepare(ModelCall(v.scope, [v.host(message, Origin.TASK)]))
        for index, piece in enumerate(c.split("chunk.text")):
            v.engine.chunk(prepared.turn, index, piece)
        partial = "".join(c.split("fail.partial"))
        v.sync.fail(prepared.turn, c("fail.error_code"), status=status, partial=partial)


def tools(v: Visitor) -> None:
    c, engine = v.canary, v.engine
    run = ToolRun(
        c("ToolRun.name"),
        {c("ToolRun.args"): c("ToolRun.args")},
        c("ToolRun.result"),
        c("ToolRun.run_id"),
        c("ToolRun.host_call_id"),
        started_at=c("ToolRun.started_at"),
        provider_name=c("ToolRun.provider_name"),
        provider_uri=c("ToolRun.provider_uri"),
        error_code=c("ToolRun.error_code"),
        task_id=c("ToolRun.task_id"),
        media=(c("ToolRun.media"),),
    )
    names, methods = ("request_id", "framework", "lane_key"), ("post_tool_run", "post_retrieval")
    named: dict[str, Any] = {m: {name: c(f"{m}.{name}") for name in names} for m in methods}
    engine.post_tool_run(v.scope, run, **named["post_tool_run"])
    other = replace(run, args=c("ToolRun.args"), run_id="r2", error=c("ToolRun.error"))
    engine.post_tool_run(v.scope, other)
    hit = RetrievedDoc(
        c("RetrievedDoc.text"),
        c("RetrievedDoc.uri"),
        0.5,
        {c("RetrievedDoc.metadata"): [c("RetrievedDoc.metadata")]},
        c("RetrievedDoc.id"),
    )
    found = Retrieval(
        c("Retrieval.name"),
        c("Retrieval.query"),
        [hit],
        c("Retrieval.run_id"),
        c("Retrieval.started_at"),
        provider_name=c("Retrieval.provider_name"),
        provider_uri=c("Retrieval.provider_uri"),
    )
    engine.post_retrieval(v.scope, found, **named["post_retrieval"])
    v.sync.flush()


def records(v: Visitor) -> None:
    c = v.canary
    by = ToolProvider(
        kind=ProviderKind.BUILTIN, name=c("ToolProvider.name"), uri=c("ToolProvider.uri")
    )
    call = ToolCall(
        tool_call_id=c("ToolCall.tool_call_id"),
        tool=c("ToolCall.tool"),
        provider=by,
        called_at=c("ToolCall.called_at"),
        args_digest={c("ToolCall.args_digest"): c("ToolCall.args_digest")},
        result_evidence_ids=[c("ToolCall.result_evidence_ids")],
        task_id=c("ToolCall.task_id"),
        error=c("ToolCall.error"),
    )
    more = [c("record_tool_call.result_evidence_ids")]
    v.sync.record_tool_call(v.scope, call, more, c("record_tool_call.turn_id"))


def usages_and_evidence(v: Visitor) -> None:
    c = v.canary
    usage = ModelUsage(
        model_usage_id=c("ModelUsage.model_usage_id"),
        provider=c("ModelUsage.provider"),
        model=c("ModelUsage.model"),
        params={c("ModelUsage.params"): c("ModelUsage.params")},
        error=c("ModelUsage.error"),
        task_id=c("ModelUsage.task_id"),
    )
    v.sync.record_model_usage(v.scope, usage, turn_id=c("record_model_usage.turn_id"))
    nowhere = c("record_model_usage.llm_output_evidence_id")
    v.refused(v.sync.record_model_usage, v.scope, usage, nowhere)
    links = EvidenceLinks(
        model_usage_id=c("EvidenceLinks.model_usage_id"),
        tool_call_id=c("EvidenceLinks.tool_call_id"),
    )
    source = EvidenceSource(
        kind=SourceKind.USER, name=c("EvidenceSource.name"), uri=c("EvidenceSource.uri")
    )
    for _ in range(2):  # the second is the first with another link
        evidence = v.sync.record_evidence(
            v.scope,
            "same: " + c("record_evidence.content"),
            source,
            EvidenceType.USER_INPUT,
            links=links,
            metadata={c("record_evidence.metadata"): c("record_evidence.metadata")},
            turn_id=c("record_evidence.turn_id"),
        )
        v.sync.trace(v.scope, evidence.evidence_id)
    payload = {c("record_event.payload"): {"to": c("record_event.payload")}}
    v.sync.record_event(v.scope, c("record_event.kind"), payload)


def cuts(v: Visitor) -> None:
    """A budget that cuts and shortens: decisions, marks and reports are made."""
    c, lane = v.canary, v.canary("ModelCall.lane_key")
    config = RuntimeConfig(budget=BudgetConfig(max_input_tokens=400), store=PATIENT)
    history: list[HostMessage] = []
    for n in range(8):
        text = f"{n} {c('Message.content')} " + "and so on, at some length, " * 9
        history.append(HostMessage(Message(role=Role.USER, content=text), Origin.TASK))
        call = ModelCall(v.scope, list(history), lane_key=lane, config=config, framework="f")
        prepared = v.sync.prepare(call)
        v.reports.append(prepared.report)
        said = Message(role=Role.ASSISTANT, content=f"{n} {c('Message.content')}")
        v.sync.commit(prepared.turn, Answer(said))
        history.append(HostMessage(said, Origin.ANSWER))
    assert v.reports[-1].dropped


def deletions(v: Visitor) -> None:
    with suppress(ContextEngineError):
        v.sync.trace(v.scope, Ref(evidence_id=v.evidence(), selector=v.canary("Ref.selector")))
    v.sync.delete_evidence(v.scope, v.evidence())


DOORS = (
    by_hand,
    streams,
    refusals,
    model_calls,
    endings,
    tools,
    records,
    usages_and_evidence,
    cuts,
    deletions,
)
