"""Random apps of LlamaIndex with room: models, `Settings`, engines over documents, agents that share a model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from llama_index.core import PromptTemplate, Settings
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ReActAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.chat_engine import (
    CondensePlusContextChatEngine,
    CondenseQuestionChatEngine,
    ContextChatEngine,
    SimpleChatEngine,
)
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.postprocessor import LLMRerank
from llama_index.core.query_engine import CitationQueryEngine, RetrieverQueryEngine
from llama_index.core.response_synthesizers import ResponseMode, get_response_synthesizer

from ce_integrations.llamaindex import install_ce
from tests.adapters.llamaindex.contract_apps import AgentApps, ChatApps, Shelf
from tests.adapters.llamaindex.contract_surfaces import PROMPT, SURFACES, Meaning
from tests.property import room_cases
from tests.property.room_cases import (
    PAGES,
    SESSIONS,
    App,
    Maker,
    broken,
    from_contract,
    from_surface,
    lookup,
)


async def alookup(word: str) -> str:
    """Look a word up."""
    return lookup(word)


async def abroken(word: str) -> str:
    """Fail on every word."""
    return broken(word)


class Rig(room_cases.Rig):
    def __init__(self) -> None:
        super().__init__()
        self.agents, self.chats = AgentApps(), ChatApps()
        self.apps = (self.agents, self.chats)


@dataclass
class Case(room_cases.Case):
    install = staticmethod(install_ce)

    rig: Rig

    def app(self, rng: Random) -> App:
        maker, wire, kind = Apps(rng, self.rig), self.rig.wire, rng.random()
        if kind < 0.3:
            self.counts["surfaces"] += 1
            surface = SURFACES[rng.choice(sorted(SURFACES))]
            return from_surface(maker, surface, self.rig.chats, wire)
        if kind < 0.5:
            self.counts["apps of the contract"] += 1
            return from_contract(maker, rng.choice((self.rig.agents, self.rig.chats)), wire)
        made = rng.choice((maker.settings, maker.queries, maker.chats, maker.agents, maker.agents))
        self.counts[made.__name__] += 1
        return made()

    async def ends(self) -> None:
        Settings._llm = None


class Apps(Maker):
    """Makes apps around one model."""

    def __init__(self, rng: Random, rig: Rig) -> None:
        super().__init__(rng)
        self.model: Any = rig.chats.model(rig.wire)

    def settings(self) -> App:
        """`Settings.llm` in any of an app's functions."""
        Settings.llm = self.model
        ways: tuple[Callable[[str], Any], ...] = (
            lambda q: Settings.llm.predict(PROMPT, question=q),
            lambda q: Settings.llm.predict(PromptTemplate("Say: {text}"), text=q),
            lambda q: repr(Settings.llm.structured_predict(Meaning, PROMPT, question=q)),
            lambda q: str(Settings.llm.complete(q)),
            lambda q: str(Settings.llm.chat([ChatMessage(q)])),
        )
        steps = [self._with(self.rng.choice(ways), question) for question in self.questions()]
        return App(Settings if self.chance(0.5) else self.model, self.in_sessions(steps))

    def queries(self) -> App:
        """Engines that answer each question by itself."""
        shelf, llm = Shelf(PAGES), self.model
        modes = (ResponseMode.COMPACT, ResponseMode.REFINE, ResponseMode.TREE_SUMMARIZE)
        engine: Any
        if self.chance(0.3):
            engine = CitationQueryEngine(shelf, llm=llm)
        else:
            synthesizer = get_response_synthesizer(llm=llm, response_mode=self.rng.choice(modes))
            rerank: list[Any] = [LLMRerank(llm=llm, top_n=1)] if self.chance(0.2) else []
            engine = RetrieverQueryEngine(shelf, synthesizer, node_postprocessors=rerank)
        steps = [self._asked(engine, "query", question) for question in self.questions()]
        return App(engine, self.in_sessions(steps))

    def chats(self) -> App:
        """Chat engines, two of which may share the model; each keeps its own talk."""
        engines = [self._chat() for _ in range(self.rng.choice((1, 1, 2)))]
        steps = [self._asked(self.rng.choice(engines), "chat", q) for q in self.questions()]
        if self.chance(0.2):
            steps.insert(1, engines[0].reset)
        target = self.model if len(engines) > 1 or self.chance(0.3) else engines[0]
        return App(target, self.in_sessions(steps))

    def _chat(self) -> Any:
        told: dict[str, Any] = {"llm": self.model, "memory": self._memory()}
        kind, shelf = self.rng.choice(("simple", "context", "condense", "both")), Shelf(PAGES)
        if kind == "simple":
            return SimpleChatEngine.from_defaults(system_prompt="You help.", **told)
        if kind == "context":
            return ContextChatEngine.from_defaults(shelf, **told)
        if kind == "condense":
            query = RetrieverQueryEngine.from_args(shelf, llm=self.model)
            return CondenseQuestionChatEngine.from_defaults(query, **told)
        return CondensePlusContextChatEngine.from_defaults(shelf, **told)

    def _memory(self) -> Any:
        key = self.rng.choice(SESSIONS[:-1])
        return ChatMemoryBuffer.from_defaults(token_limit=100_000, chat_store_key=key)

    def agents(self) -> App:
        """Agents, run with a memory or without one, now and then two runs side by side."""
        agent = self._agent()
        memories = [self._memory(), self._memory(), None]
        steps = [self._run(agent, q, self.rng.choice(memories)) for q in self.questions()]
        if self.chance(0.2):
            one, other = self._run(agent, self.words(), None), self._run(agent, self.words(), None)

            async def together() -> list[str]:
                return list(await asyncio.gather(one(), other()))

            return App(agent, [*self.in_sessions(steps), together], ordered=False)
        return App(agent, self.in_sessions(steps))

    def _agent(self) -> Any:
        tools: list[Any] = [alookup, abroken][: self.rng.randint(0, 2)]
        kind = ReActAgent if self.chance(0.3) else FunctionAgent
        made: Any = [
            kind(
                name=name,
                description=f"A {name}.",
                llm=self.model,
                tools=tools,
                system_prompt="You look words up.",
                can_handoff_to=[],
            )
            for name in ("writer", "critic")
        ]
        if self.chance(0.3):
            return AgentWorkflow(agents=made, root_agent="writer", timeout=60)
        return made[0]

    def _run(self, agent: Any, question: str, memory: Any) -> Callable[[], Any]:
        async def run() -> str:
            handler = agent.run(question, memory=memory, max_iterations=6)
            return str(await handler)

        return run

    def _with(self, ask: Callable[[str], Any], question: str) -> Callable[[], Any]:
        return lambda: ask(question)

    def _asked(self, engine: Any, method: str, question: str) -> Callable[[], Any]:
        way = self.rng.choice(("", "a", "stream_" if method == "chat" else "a"))
        if way == "":
            return lambda: str(getattr(engine, method)(question))
        if way == "stream_":
            return lambda: "".join(engine.stream_chat(question).response_gen)

        async def asked() -> str:
            return str(await getattr(engine, f"a{method}")(question))

        return asked
