"""A framework of one class that can only be awaited, its adapter, and its demo."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ce_engine import (
    HostMessage,
    Message,
    Origin,
    Retrieval,
    RetrievedDoc,
    Role,
    Step,
    ToolRun,
    Usage,
)
from ce_integrations import Adapter, CallInfo, Hooks
from ce_integrations.demo.documents import Package, WordIndex, chunks, lookup_text
from ce_integrations.demo.quoting import Call, QuotingModel, Reply, Said
from ce_integrations.demo.running import AGENT_PROMPT, RETRIEVAL_PROMPT, DemoApp, FrameworkDemo
from ce_integrations.demo.turns import Turn
from ce_integrations.mapping.content_blocks import changed, tool_requests


LOOKUP = {"name": "lookup", "parameters": {"properties": {"distribution": {"type": "string"}}}}


class ModelDownError(Exception):
    """Raised by models of this framework that cannot answer."""


@dataclass(eq=False)
class Note:
    """A message of this framework."""

    said: Said


@dataclass(eq=False)
class Bot:
    """An agent with a tool and a history, or, with an index, a retrieval chain without either."""

    model: Callable[[Sequence[Said], Sequence[Mapping[str, Any]]], Reply]
    packages: Mapping[str, Package]
    index: WordIndex | None = None
    hooks: Hooks[Note] | None = None
    history: list[Note] = field(default_factory=list)

    async def ask(self, text: str) -> str:
        await asyncio.sleep(0)  # only a running loop gets further
        info = CallInfo(secrets.token_hex(4), takes_history=self.index is not None)
        system = AGENT_PROMPT if self.index is None else self.context(text, info)
        history = self.history if self.index is None else []
        history.append(Note(Said("user", text)))
        while True:
            reply = await self.call([Note(Said("system", system)), *history], info)
            history.append(Note(Said("assistant", reply.text, reply.calls)))
            if not reply.calls:
                return reply.text
            history += [self.run(call, info) for call in reply.calls]

    def context(self, query: str, info: CallInfo) -> str:
        assert self.index is not None
        found = [hit.chunk for hit in self.index.search(query)]
        if self.hooks is not None:
            documents = [RetrievedDoc(c.text, str(c.metadata["source"])) for c in found]
            self.hooks.retrieval(info, Retrieval("words", query, documents))
        return RETRIEVAL_PROMPT.format(context="\n\n".join(chunk.text for chunk in found))

    async def call(self, notes: list[Note], info: CallInfo) -> Reply:
        tools = [LOOKUP] if self.index is None else []
        if self.hooks is None:
            return self.model([note.said for note in notes], tools)
        notes, turn = await self.hooks.abefore_model(notes, info)
        reply = self.model([note.said for note in notes], tools)
        answer = Note(Said("assistant", reply.text, reply.calls))
        sent, got = reply.sent_tokens, reply.got_tokens
        await self.hooks.aafter_model(turn, answer, Usage(sent, got, sent + got))
        return reply

    def run(self, call: Call, info: CallInfo) -> Note:
        result = lookup_text(self.packages, call.args["distribution"])
        if self.hooks is not None:
            run = ToolRun(call.name, call.args, result, host_call_id=call.id)
            self.hooks.tool_call(info, run)
        return Note(Said("tool", result, answers=call.id))


class BotAdapter(Adapter[Bot, Note]):
    name = "bots"
    requires = ("pydantic>=2",)

    def accepts(self, target: object) -> bool:
        return isinstance(target, Bot)

    def attach(self, target: Bot, hooks: Hooks[Note]) -> Callable[[], None]:
        target.hooks = hooks

        def detach() -> None:
            target.hooks = None

        return detach

    def to_schema(self, native: Note) -> HostMessage:
        said = native.said
        origins = {"system": Origin.SYSTEM, "user": Origin.TASK, "tool": Origin.TOOL_RESULT}
        answer = Origin.TOOL_CALL if said.calls else Origin.ANSWER
        message = Message(role=Role(said.role), content=said.text)
        message.tool_calls = tool_requests(call._asdict() for call in said.calls) or None
        message.tool_call_id = said.answers or None
        return HostMessage(message, origins.get(said.role, answer))

    def to_native(self, step: Step, native: Note | None) -> Note:
        said = native.said if native is not None else Said("system", "")
        return Note(said._replace(text=changed(said.text, step)))


class BotsDemo(FrameworkDemo):
    """Keeps the last app and its runner, to be looked at."""

    name = "bots"
    requires = ("pydantic>=2",)
    extra = "demo-bots"

    def __init__(self) -> None:
        self.bots: list[Bot] = []
        self.down_from = 10**6
        """The model call from which on the model is down."""

    @contextmanager
    def make_app(
        self, packages: Mapping[str, Package], model: QuotingModel, session_id: str
    ) -> Iterator[DemoApp]:
        def reply(request: Sequence[Said], tools: Sequence[Mapping[str, Any]]) -> Reply:
            self.down_from -= 1
            if self.down_from < 0:
                raise ModelDownError
            return model.reply(request, tools)

        agent = Bot(reply, packages)
        chain = Bot(reply, packages, WordIndex(chunks(packages.values())))
        self.bots = [agent, chain]
        bots = {"agent": agent, "retrieval": chain}
        with asyncio.Runner() as runner:
            self.loop = runner.get_loop()

            def ask(turn: Turn) -> str:
                return runner.run(bots[turn.surface].ask(turn.text))

            yield DemoApp(
                targets=self.bots,
                install=BotAdapter().install_ce,
                ask=ask,
                model="bot model",
                failures=(ModelDownError,),
            )
