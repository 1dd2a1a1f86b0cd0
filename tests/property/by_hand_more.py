"""Random calls of the rest: a host that resends its list, copies of sessions, turns side by side, settings."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ce_engine import (
    Answer,
    BudgetConfig,
    ContextEngine,
    HostMessage,
    Message,
    ModelCall,
    Origin,
    Prepared,
    Retrieval,
    RetrievedDoc,
    Role,
    Scope,
    ToolRun,
    TurnStatus,
)
from tests.property.by_hand_calls import NOBODY, SYSTEM, WEIGHTS, Call, Caller, Turn
from tests.property.by_hand_model import PARALLEL


if TYPE_CHECKING:
    from tests.property.by_hand_model import Model


ORIGINS = {"user": Origin.TASK, "assistant": Origin.ANSWER}
AT_ONCE = 3


class MoreCaller(Caller):
    """Makes the calls that take more than a session and a text."""

    # A host with a list of its own, in a lane of its own

    def resend(self) -> Call:
        """The whole list again, with a question more, or as it was: a retry of what has no answer."""
        if self.known.prepared:
            return self.handled()
        host, new = list(self.known.host), not self.known.unanswered or self.rng.random() < 0.6
        if new:
            host.append(("user", self.text("问题 resent")))
        call = Call("prepare", self.scope, (self._model_call(host),), good=True)

        def learn(answer: Prepared) -> None:
            self.known.prepared[answer.turn.turn_id] = {}
            self.known.host, self.known.unanswered = host, True
            if new:
                self.known.messages.append(host[-1])

        call.learn = learn
        return call

    def _model_call(self, host: list[tuple[str, str]]) -> ModelCall:
        listed = [HostMessage(SYSTEM, Origin.SYSTEM)]
        for role, text in host:
            listed.append(HostMessage(Message(role=Role(role), content=text), ORIGINS[role]))
        return ModelCall(self.scope, listed, lane_key="host", framework="by-hand")

    def handled(self) -> Call:
        """The answer to a prepared call, a piece of it, or its end, by its handle."""
        if not self.known.prepared:
            return self.resend()
        turn_id = self.rng.choice(list(self.known.prepared))
        make = self.rng.choice([self._commit, self._fail, self._chunk, self._chunk, self._finalize])
        call = make(turn_id, self.text("回答 handled"))
        call.good = True
        return call

    def _commit(self, turn_id: str, text: str) -> Call:
        said = Answer(Message(role=Role.ASSISTANT, content=text), model="m")
        return self._ends("commit", turn_id, lambda _: text, said)

    def _fail(self, turn_id: str, text: str) -> Call:
        partial = self.rng.choice(["", text])
        status = self.rng.choice([TurnStatus.FAILED, TurnStatus.ABANDONED, TurnStatus.INCOMPLETE])
        more = {"partial": partial, "status": status}
        return self._ends("fail", turn_id, lambda came: partial or came, "timeout", **more)

    def _finalize(self, turn_id: str, text: str) -> Call:
        if self.rng.random() < 0.3:
            said = Answer(Message(role=Role.ASSISTANT, content=text))
            return self._ends("finalize", turn_id, lambda _: text, answer=said)
        return self._ends("finalize", turn_id, lambda came: came)

    def _ends(
        self, method: str, turn_id: str, text_of: Callable[[str], str], *args: Any, **more: Any
    ) -> Call:
        def learn(_: object) -> None:
            chunks = self.known.prepared.pop(turn_id)
            if text := text_of("".join(chunks[index] for index in sorted(chunks))):
                self.known.messages.append(("assistant", text))
                self.known.unanswered = False
                if method != "fail":
                    self.known.host.append(("assistant", text))

        return Call(method, self.scope, (Turn(turn_id), *args), more, learn)

    def _chunk(self, turn_id: str, text: str) -> Call:
        index = self.rng.randrange(6)
        call = Call("chunk", self.scope, (Turn(turn_id), index, text))
        call.learn = lambda _: self.known.prepared[turn_id].update({index: text})
        return call

    # Copies, and turns side by side

    def copy(self) -> Call:
        """A session's document, put under another id of the same user by the store's port."""
        scope = self.scope
        name = f"copy-{self.model.number()}"
        to = Scope(session_id=name, user_id=scope.user_id, account_id=scope.account_id)

        async def work(engine: ContextEngine) -> bool:
            document = await engine.store.get_session(scope)
            if document is None:
                return False
            session = document.session.model_copy(update={"session_id": to.session_id})
            put = document.model_copy(update={"session": session})
            return (await engine.store.put_session(to, put)).success

        def learn(done: object) -> None:
            if done:
                self.model.copied(self.known, to)

        return Call("store.put_session", scope, (), learn=learn, good=True, work=work)

    def side_by_side(self) -> Call:
        """Several turns of one session at once; which of them comes first is anybody's guess."""
        texts = [self.model.text(PARALLEL, "同时 at once") for _ in range(AT_ONCE)]

        async def turn(engine: ContextEngine, text: str) -> tuple[str, bool]:
            asked = Message(role=Role.USER, content=text)
            found = await engine.prepare_turn(PARALLEL, asked)
            said = Message(role=Role.ASSISTANT, content=f"re: {text}")
            turn_id = found.report.turn_id
            done = await engine.commit_assistant_message(PARALLEL, said, turn_id=turn_id)
            return found.assembled_input.parts[-1].content, done.success

        async def work(engine: ContextEngine) -> list[tuple[str, bool]]:
            return sorted(await asyncio.gather(*(turn(engine, text) for text in texts)))

        def learn(found: object) -> None:
            assert found == sorted((text, True) for text in texts)
            for text in texts:
                both = ("user", text), ("assistant", f"re: {text}")
                self.model.sessions[PARALLEL].messages += both

        return Call("prepare_turn", PARALLEL, (), learn=learn, good=True, work=work)

    # Looking, and what answers nothing

    def seen(self) -> Call:
        """What must not change anything."""
        question, by_list = self.text("看 look"), self.rng.random() < 0.3
        call: Any = (self.scope, question)
        if by_list:
            call = self._model_call([*self.known.host, ("user", question)])
        ids = [*self.known.evidence, NOBODY]
        wanted = self.rng.choice(ids)

        async def resolve(engine: ContextEngine) -> str:
            return await engine.resolver(self.scope).resolve(wanted)

        turn_id = self.turn()
        inspect = Call(
            "inspect", self.scope, (call,), {"actor": self.scope.user_id or ""}, good=True
        )
        resolver = Call("resolver", self.scope, (wanted,), good=wanted != NOBODY, work=resolve)
        opened = self.call("open_turn", turn_id or NOBODY)
        opened.good = turn_id is not None
        whole = [Call(name, self.scope, (), good=True) for name in ("check", "flush")]
        return self.rng.choice([inspect, inspect, resolver, opened, *whole])

    def posted(self) -> Call:
        """What is handed in without waiting."""
        run = ToolRun("look", {"n": self.model.number()}, self.text("结果 posted"))
        hit = RetrievedDoc(self.text("文档 posted"), score=0.5)
        call = self.rng.choice(
            [
                self.call("post_tool_run", run),
                self.call("post_retrieval", Retrieval("docs", "q", [hit])),
                Call("post_fault", self.scope, ("CONTEXT_INTERNAL", "before_model")),
            ]
        )
        call.good = True
        return call

    def setting(self) -> Call:
        """A constraint or a budget, changed by its id or version as they were last seen, right or not."""
        rules, version = [*self.known.rules, NOBODY], self.known.budget_version
        rule, text = self.rng.choice(rules), f"规则 rule {self.model.number()}"
        create, get = self.call("constraints.create", text), self.call("budgets.get")
        create.learn = lambda made: self.known.rules.append(made.constraint_id)
        create.good = get.good = True
        get.learn = self._learn_version
        size = self.rng.randrange(600, 6000)
        budget = BudgetConfig(max_input_tokens=size, reserved_reply_tokens=0)
        return self.rng.choice(
            [
                create,
                get,
                self.call("constraints.update", rule, text=text),
                self.call("constraints.delete", rule),
                self.call("budgets.update", budget, version, actor=self.scope.user_id),
            ]
        )

    def _learn_version(self, found: tuple[BudgetConfig, int]) -> None:
        self.known.budget_version = found[1]

    def summary(self) -> Call:
        """A summary: the model for it fails now and then."""
        return self.call("summarize", self.rng.choice([None, "host"]))


MORE: dict[Callable[[MoreCaller], Call], int] = {
    MoreCaller.resend: 5,
    MoreCaller.handled: 8,
    MoreCaller.copy: 1,
    MoreCaller.side_by_side: 1,
    MoreCaller.seen: 3,
    MoreCaller.posted: 1,
    MoreCaller.setting: 2,
    MoreCaller.summary: 3,
}


def calls(rng: random.Random, model: Model, scope: Scope) -> Call:
    """A random call of a session."""
    makers = [*WEIGHTS, *MORE]
    make = rng.choices(makers, [*WEIGHTS.values(), *MORE.values()])[0]
    return make(MoreCaller(rng, model, scope))
