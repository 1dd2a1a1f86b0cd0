"""Random calls of all that the engine offers by hand, good ones and bad ones."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ce_engine import (
    BudgetConfig,
    ContextEngine,
    EvidenceSource,
    EvidenceType,
    Message,
    ModelUsage,
    PrepareResult,
    ProviderKind,
    Ref,
    Retrieval,
    RetrievedDoc,
    Role,
    Scope,
    SourceKind,
    ToolCall,
    ToolProvider,
    ToolRequest,
    ToolRun,
    Usage,
)
from ce_engine.schema.document import ContextBlock, Task
from ce_engine.schema.enums import BlockType, Priority


if TYPE_CHECKING:
    from tests.property.by_hand_model import Conversation, Model


SYSTEM = Message(role=Role.SYSTEM, content="You are helpful.")
SOURCE = EvidenceSource(kind=SourceKind.USER, name="form")
NOBODY = "no such id"


def nothing(_: object) -> None:
    """What a call changes in the model that changes nothing there."""


@dataclass(frozen=True)
class Turn:
    """Stands for the handle of an open turn among a call's arguments: each engine has its own."""

    turn_id: str


@dataclass
class Call:
    """A call of the engine: `good` is whether it must do or must be refused; `None` is not known."""

    method: str
    scope: Scope
    args: tuple[Any, ...]
    more: Mapping[str, Any] = field(default_factory=dict)
    learn: Callable[[Any], None] = nothing
    good: bool | None = None
    work: Callable[[ContextEngine], Coroutine[Any, Any, Any]] | None = None
    """What is done instead, where one call is not enough."""


class Caller:
    """Makes calls of one session."""

    def __init__(self, rng: random.Random, model: Model, scope: Scope) -> None:
        self.rng, self.model, self.scope = rng, model, scope

    @property
    def known(self) -> Conversation:
        return self.model.sessions[self.scope]

    def text(self, what: str) -> str:
        return self.model.text(self.scope, what)

    def turn(self) -> str | None:
        return self.rng.choice(list(self.known.turns)) if self.known.turns else None

    def call(self, method: str, *args: Any, **more: Any) -> Call:
        return Call(method, self.scope, (self.scope, *args), more)

    # Turns

    def ask(self) -> Call:
        """A question, which may come twice under the host's own id of it."""
        resent = self.known.by_id and self.rng.random() < 0.3
        name = self.rng.choice(list(self.known.by_id)) if resent else ""
        text = self.known.by_id.get(name) or self.text("问题 question")
        if not resent and self.rng.random() < 0.5:
            name = f"host-{self.model.number()}"
        question = Message(role=Role.USER, content=text, message_id=name or None)
        list_of = [SYSTEM, question] if self.rng.random() < 0.5 else question
        call = self.call("prepare_turn", list_of)
        call.good = True

        def learn(answer: PrepareResult) -> None:
            self.known.turns[answer.report.turn_id] = {}
            self.known.waiting.clear()
            if not resent:
                self.known.messages.append(("user", text))
            if name:
                self.known.by_id[name] = text

        call.learn = learn
        return call

    def answer(self) -> Call:
        turn_id, text = self.turn(), self.text("回答 answer")
        asked = None
        if self.rng.random() < 0.4:
            number = self.model.number()
            asked = [ToolRequest(id=f"call-{number}-{k}", name="look") for k in range(2)]
        refs = None
        if self.known.evidence and self.rng.random() < 0.5:
            refs = [Ref(evidence_id=self.rng.choice(list(self.known.evidence)))]
        said = Message(role=Role.ASSISTANT, content=text, tool_calls=asked)
        more = {"turn_id": turn_id or NOBODY, "usage": Usage(5, 5), "model": "m"}
        call = self.call("commit_assistant_message", said, refs, **more)
        call.good = turn_id is not None

        def learn(_: object) -> None:
            self.known.turns.pop(str(turn_id))
            self.known.messages.append(("assistant", text))
            self.known.waiting[:] = [str(each.id) for each in asked or ()]

        call.learn = learn
        return call

    def results(self) -> Call:
        """The results of the tools that the newest answer asked for, in any order."""
        ids = list(self.known.waiting)
        self.rng.shuffle(ids)
        texts = {name: self.text("结果 result") for name in ids or [NOBODY]}
        brought = [
            Message(role=Role.TOOL, tool_call_id=name, content=text) for name, text in texts.items()
        ]
        call = self.call("prepare_turn", brought)
        call.good = bool(ids)

        def learn(answer: PrepareResult) -> None:
            self.known.turns[answer.report.turn_id] = {}
            self.known.messages += [("tool", text) for text in texts.values()]
            self.known.waiting.clear()

        call.learn = learn
        return call

    def chunk(self) -> Call:
        turn_id, index, text = self.turn(), self.rng.randrange(-1, 6), self.text("片 chunk")
        call = self.call("commit_assistant_chunk", text, index, turn_id=turn_id or NOBODY)
        call.good = turn_id is not None and index >= 0
        call.learn = lambda _: self.known.turns[str(turn_id)].update({index: text})
        return call

    def finalize(self) -> Call:
        turn_id, complete = self.turn(), self.rng.random() < 0.6
        more = {"turn_id": turn_id or NOBODY, "complete": complete}
        call = self.call("finalize_assistant_message", **more)
        call.good = turn_id is not None

        def learn(_: object) -> None:
            chunks = self.known.turns.pop(str(turn_id))
            if chunks:
                joined = "".join(chunks[index] for index in sorted(chunks))
                self.known.messages.append(("assistant", joined))

        call.learn = learn
        return call

    def fail(self) -> Call:
        from tests.property.by_hand_model import fail

        turn_id = self.turn()
        if turn_id is None and len(self.known.prepared) == 1:
            [turn_id] = self.known.prepared
        if turn_id is not None:
            return fail(self.model, self.scope, turn_id)
        call = self.call("fail_turn", "timeout")
        call.good = False
        return call

    def without_id(self) -> Call:
        """Without a turn's id the one open turn is meant; with none or several it is an error."""
        text = self.text("回答 answer")
        said = Message(role=Role.ASSISTANT, content=text)
        call = self.call("commit_assistant_message", said)
        call.good = len(self.known.turns) + len(self.known.prepared) == 1

        def learn(_: object) -> None:
            self.known.turns.clear()
            self.known.prepared.clear()
            self.known.unanswered = False
            self.known.messages.append(("assistant", text))
            self.known.waiting.clear()

        call.learn = learn
        return call

    # Records

    def evidence(self) -> Call:
        text = self.text("证据 evidence")
        if self.rng.random() < 0.5:
            call = self.call("record_evidence", text, SOURCE, EvidenceType.USER_INPUT)
        else:
            call = self.call("ingest", text, SOURCE, EvidenceType.USER_INPUT)
        call.good = True
        call.learn = lambda found: self.known.evidence.update({found.evidence_id: text})
        return call

    def same_evidence(self) -> Call:
        """What is there already is given again, and not stored twice."""
        if (
            not self.known.evidence or self.known.tags
        ):  # a copy does not recognise what came with it
            return self.evidence()
        evidence_id, text = self.rng.choice(list(self.known.evidence.items()))
        call = self.call("record_evidence", text, SOURCE, EvidenceType.USER_INPUT)
        call.good = True

        def learn(found: Any) -> None:
            assert found.evidence_id == evidence_id

        call.learn = learn
        return call

    def record(self) -> Call:
        number = self.model.number()
        by = ToolProvider(kind=ProviderKind.BUILTIN, name="p")
        run = ToolRun("look", {"n": number}, self.text("结果 run"))
        hit = RetrievedDoc(self.text("文档 document"), score=0.5)
        task = Task(task_id=f"t{number % 3}", name=self.text("任务 task"))
        block = ContextBlock(
            block_id=f"b{number % 3}",
            block_type=BlockType.STATE,
            priority=Priority.MEDIUM,
            content=self.text("状态 state"),
        )
        tool = ToolCall(tool_call_id=f"c{number}", tool="look", provider=by)
        usage = ModelUsage(model_usage_id=f"u{number}", provider="p", model="m")
        call = self.rng.choice(
            [
                self.call("record_tool_call", tool),
                self.call("record_model_usage", usage),
                self.call("record_event", "planner", {"n": number}),
                self.call("record_tool_run", run),
                self.call("record_retrieval", Retrieval("docs", "q", [hit])),
                self.call("put_context_blocks", [block]),
                self.call("upsert_tasks", [task]),
            ]
        )
        call.good = True
        return call

    def rule(self) -> Call:
        text = f"规则 rule {self.model.number()}"
        budget, actor = BudgetConfig(max_input_tokens=5000), self.scope.user_id
        update = self.call("budgets.update", budget, 99, actor=actor)
        update.good = False
        return self.rng.choice(
            [
                self.call("constraints.create", text),
                self.call("constraints.list"),
                self.call("constraints.delete", NOBODY),
                self.call("budgets.get"),
                update,
            ]
        )

    # Looking, deleting, errors

    def look(self) -> Call:
        ids = list(self.known.evidence)
        trace = self.call("trace", self.rng.choice(ids) if ids else NOBODY)
        trace.good = bool(ids)
        reads = map(self.call, ("get_session", "list_evidences"))
        looks = [trace, self.call("verify"), self.call("replay"), *reads]
        looks.append(self.call("get_evidence", self.rng.choice([*ids, NOBODY])))
        looks.append(self.call("list_sessions"))
        looks[-1].args = ()
        return self.rng.choice(looks)

    def wrong(self) -> Call:
        """Calls that must be refused."""
        user = Message(role=Role.USER, content=self.text("错 wrong"))
        nowhere = [Ref(evidence_id=NOBODY)]
        said = Message(role=Role.ASSISTANT, content=self.text("错 wrong"))
        turn = {"turn_id": self.turn() or NOBODY}
        call = self.rng.choice(
            [
                self.call("prepare_turn", [SYSTEM]),
                self.call("prepare_turn", []),
                self.call("commit_assistant_message", user, **turn),
                self.call("commit_assistant_message", said, nowhere, **turn),
                self.call(
                    "commit_assistant_message", said.model_copy(update={"refs": nowhere}), **turn
                ),
                self.call("finalize_assistant_message", nowhere, **turn),
                self.call("trace", NOBODY),
                self.call("original", NOBODY, actor="anna"),
                self.call("inspect", actor="mallory"),
            ]
        )
        if call.method == "inspect":
            call.args = ((self.scope, "?"),)
        call.good = False
        return call

    def delete(self) -> Call:
        if self.known.evidence and self.rng.random() < 0.6:
            evidence_id = self.rng.choice(list(self.known.evidence))
            call = self.call("delete_evidence", evidence_id)

            def learn(_: object) -> None:
                self.model.gone.add(self.known.evidence.pop(evidence_id))

            call.learn = learn
        elif self.rng.random() < 0.7:
            call = self.call("delete_session")
            call.learn = lambda _: self.model.forget(self.scope)
        else:
            call = self.call("delete_user_data")
            call.args = (self.scope.account_id, self.scope.user_id)

            def learn_all(_: object) -> None:
                for scope in self.model.sessions:
                    if scope.key[:2] == self.scope.key[:2]:
                        self.model.forget(scope)

            call.learn = learn_all
        call.good = True
        return call


WEIGHTS: dict[Callable[[Caller], Call], int] = {
    Caller.ask: 10,
    Caller.answer: 7,
    Caller.results: 5,
    Caller.chunk: 5,
    Caller.finalize: 3,
    Caller.fail: 2,
    Caller.without_id: 2,
    Caller.evidence: 3,
    Caller.same_evidence: 1,
    Caller.record: 4,
    Caller.rule: 2,
    Caller.look: 3,
    Caller.wrong: 4,
    Caller.delete: 2,
}
