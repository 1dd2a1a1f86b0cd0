"""Apps of Haystack for the contract suite: an agent with tools, and pipelines that build their prompts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

from haystack import Document, Pipeline, component
from haystack.components.agents import Agent
from haystack.components.builders import ChatPromptBuilder
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.components.routers import LLMMessagesRouter
from haystack.dataclasses import ChatMessage, ImageContent, TextContent
from haystack.tools.from_function import create_tool_from_function
from haystack.utils import Secret

from ce_integrations.calls.evidence_tool import fetch_evidence
from ce_integrations.haystack import fetch_evidence_tool
from ce_integrations.haystack.component_kinds import find_parts
from ce_integrations.haystack.installer import HaystackAdapter
from ce_integrations.install.adapter import Adapter
from ce_integrations.testing.answers import Answer, JsonObject, text, tool_calls
from ce_integrations.testing.framework_apps import (
    MODEL,
    SYSTEM,
    FrameworkApps,
    Page,
    Surface,
    Tool,
    in_session,
)
from ce_integrations.testing.wire import Wire
from tests.adapters.clients import no_certificates
from tests.adapters.haystack.contract_surfaces import SURFACES


class Model(OpenAIChatGenerator):
    """Notes the messages that reach a provider's own code."""

    def __init__(self, wire: Wire, **settings: Any) -> None:
        super().__init__(
            api_key=Secret.from_token("no key"),
            model=MODEL,
            api_base_url=wire.base_url,
            max_retries=0,
            http_client_kwargs={"verify": no_certificates()},
            **settings,
        )
        self.received: list[list[ChatMessage]] = []

    def _prepare_api_call(self, **given: Any) -> Any:
        self.received.append(given["messages"])
        return super()._prepare_api_call(**given)


class HaystackApps(FrameworkApps):
    packages = ("haystack",)
    are_alike = has_status = True

    @cached_property
    def models(self) -> list[Model]:
        return []

    @cached_property
    def memories(self) -> dict[tuple[int, str], list[ChatMessage]]:
        """By target and session."""
        return {}

    def fresh(self, target: Any) -> Any:
        """Nobody has talked to it, whatever had its id before."""
        for key in [key for key in self.memories if key[0] == id(target)]:
            del self.memories[key]
        return target

    def model(self, wire: Wire, **settings: Any) -> Model:
        self.models.append(Model(wire, **settings))
        return self.models[-1]

    async def aclose(self) -> None:
        for model in self.models:
            model.close()
            await model.close_async()

    def annotated(self, native: Any) -> Any:
        return replace(native, _meta={**native.meta, "key": 1}, _name="somebody")

    def received(self, target: Any) -> list[list[Any]]:
        models = [each for each in find_parts(target) if isinstance(each, Model)]
        return [given for model in models for given in model.received]

    # What an app keeps of a talk: the framework's objects keep nothing

    def memory(self, target: Any, session_id: str) -> list[ChatMessage]:
        return self.memories.setdefault((id(target), session_id), [])

    def keep(self, target: Any, session_id: str, messages: Sequence[ChatMessage]) -> str:
        said = [each for each in messages if not each.is_from("system")]
        self.memories[id(target), session_id] = said
        return said[-1].text or ""

    def run(self, target: Any, said: ChatMessage, session_id: str, callback: Any = None) -> str:
        raise NotImplementedError

    async def arun(
        self, target: Any, said: ChatMessage, session_id: str, callback: Any = None
    ) -> str:
        raise NotImplementedError

    def ask(self, target: Any, text: str, session_id: str) -> str:
        with in_session(session_id):
            return self.run(target, ChatMessage.from_user(text), session_id)

    async def aask(self, target: Any, text: str, session_id: str) -> str:
        with in_session(session_id):
            return await self.arun(target, ChatMessage.from_user(text), session_id)

    async def show(self, target: Any, text: str, png: bytes, session_id: str) -> str:
        picture = (
            ImageContent.from_bytes(png) if hasattr(ImageContent, "from_bytes") else _image(png)
        )
        said = ChatMessage.from_user(content_parts=[TextContent(text), picture])
        with in_session(session_id):
            return await self.arun(target, said, session_id)

    def push(self, target: Any, text: str, session_id: str, heard: Callable[[str], None]) -> str:
        def push(chunk: Any) -> None:
            if chunk.content:
                heard(chunk.content)

        with in_session(session_id):
            return self.run(target, ChatMessage.from_user(text), session_id, push)

    async def apush(
        self, target: Any, text: str, session_id: str, heard: Callable[[str], None]
    ) -> str:
        async def push(chunk: Any) -> None:
            if chunk.content:
                heard(chunk.content)

        with in_session(session_id):
            return await self.arun(target, ChatMessage.from_user(text), session_id, push)


def _image(png: bytes) -> ImageContent:
    import base64

    return ImageContent(base64.b64encode(png).decode(), mime_type="image/png")


class Agents(HaystackAdapter):
    """An agent of these tests looks nothing up and asks for nothing on the side; it has no `stream`."""

    capabilities = replace(
        HaystackAdapter.capabilities,
        ways=("sync", "async", "push", "apush"),
        helpers=False,
        retrieval=False,
    )


class AgentApps(HaystackApps):
    """An agent; its app keeps a list for each conversation."""

    adapter: ClassVar[Adapter[Any, Any]] = Agents()
    team_script: ClassVar[Sequence[str | Answer]] = [
        tool_calls([("expert", {"question": "What is a lane?"})]),
        text("A lane is a line of conversation."),
        text("The expert says: a line."),
    ]
    team_agents = ("", "expert", "")

    def make_target(self, wire: Wire, tools: Sequence[Tool] = ()) -> Any:
        made = [
            fetch_evidence_tool() if tool is fetch_evidence else create_tool_from_function(tool)
            for tool in tools
        ]
        return self.fresh(self.agent(wire, made))

    def agent(self, wire: Wire, tools: Sequence[Any] = (), prompt: str = SYSTEM) -> Agent:
        return Agent(
            chat_generator=self.model(wire),
            tools=list(tools),
            system_prompt=prompt,
            max_agent_steps=100,
        )

    def make_team(self, wire: Wire) -> Any:
        other = self.agent(wire, (), "You are an expert.")

        def expert(question: str) -> str:
            """Ask an expert."""
            given = [ChatMessage.from_user(question)]
            return str(other.run(messages=given)["last_message"].text)

        return self.fresh(self.agent(wire, [create_tool_from_function(expert)]))

    def run(self, target: Any, said: ChatMessage, session_id: str, callback: Any = None) -> str:
        given = [*self.memory(target, session_id), said]
        done = target.run(messages=given, streaming_callback=callback)
        return self.keep(target, session_id, done["messages"])

    async def arun(
        self, target: Any, said: ChatMessage, session_id: str, callback: Any = None
    ) -> str:
        given = [*self.memory(target, session_id), said]
        done = await target.run_async(messages=given, streaming_callback=callback)
        return self.keep(target, session_id, done["messages"])


@component
class Talk:
    """The messages of a talk so far, and the one that was built."""

    @component.output_types(messages=list[ChatMessage])
    def run(
        self, history: list[ChatMessage], prompt: list[ChatMessage]
    ) -> dict[str, list[ChatMessage]]:
        system = [each for each in prompt if each.is_from("system")]
        return {"messages": [*system, *history, *(each for each in prompt if each not in system)]}


@component
class Shelf:
    """Gives all of its pages."""

    def __init__(self, pages: Sequence[Page]) -> None:
        self.pages = pages

    @component.output_types(documents=list[Document])
    def run(self, query: str) -> dict[str, list[Document]]:
        assert query
        return {
            "documents": [
                Document(content=page.text, meta={"file_path": page.uri}, score=page.score)
                for page in self.pages
            ]
        }


class Pipelines(HaystackAdapter):
    """A pipeline of these tests runs no tools, and no agents."""

    capabilities = replace(HaystackAdapter.capabilities, tools=False, teams=False)


class PipelineApps(HaystackApps):
    """A pipeline: a prompt is built, what was said before is put in front of it, and the model is asked."""

    adapter: ClassVar[Adapter[Any, Any]] = Pipelines()
    surfaces: ClassVar[Mapping[str, Surface]] = SURFACES

    def make_target(self, wire: Wire, tools: Sequence[Tool] = ()) -> Any:
        assert not tools
        return self.pipeline(wire)

    def pipeline(self, wire: Wire, prompt: str = "{{query}}", system: str = SYSTEM) -> Pipeline:
        template = [ChatMessage.from_user(prompt)]
        if system:
            template.insert(0, ChatMessage.from_system(system))
        made = Pipeline()
        made.add_component("builder", ChatPromptBuilder(template=template))
        made.add_component("talk", Talk())
        made.add_component("llm", self.model(wire))
        made.connect("builder.prompt", "talk.prompt")
        made.connect("talk.messages", "llm.messages")
        self.fresh(made)
        return made

    def make_helped(self, wire: Wire) -> Any:
        """The talk is looked at before it is answered; such a router takes no system prompt."""
        made = self.pipeline(wire, system="")
        router = LLMMessagesRouter(
            self.model(wire), ["safe"], ["safe"], system_prompt="Say whether this is safe."
        )
        made.remove_component("llm")
        made.add_component("router", router)
        made.add_component("llm", self.model(wire))
        made.connect("talk.messages", "router.messages")
        made.connect("router.safe", "llm.messages")
        return made

    def aside(self, body: JsonObject) -> str | None:
        return "It is safe." if "Say whether" in str(body["messages"]) else None

    def make_retrieving(self, wire: Wire, pages: Sequence[Page]) -> Any:
        system = f"{SYSTEM}\n{{% for each in documents %}}{{{{each.content}}}}\n{{% endfor %}}"
        made = self.pipeline(wire, system=system)
        made.add_component("shelf", Shelf(pages))
        made.connect("shelf.documents", "builder.documents")
        return made

    def data(self, target: Any, said: ChatMessage, session_id: str, callback: Any) -> Any:
        given: dict[str, dict[str, Any]] = {
            "builder": {"query": said.text},
            "talk": {"history": self.memory(target, session_id)},
        }
        if said.images:
            given["builder"]["template"] = [ChatMessage.from_system(SYSTEM)]
            given["talk"]["history"] = [*given["talk"]["history"], said]
        if "shelf" in target.graph.nodes:
            given["shelf"] = {"query": said.text}
        if callback is not None:
            given["llm"] = {"streaming_callback": callback}
        return {"data": given, "include_outputs_from": {"talk"}}

    def kept(self, target: Any, session_id: str, done: Any) -> str:
        said = [*done["talk"]["messages"], *done["llm"]["replies"]]
        return self.keep(target, session_id, said)

    def run(self, target: Any, said: ChatMessage, session_id: str, callback: Any = None) -> str:
        done = target.run(**self.data(target, said, session_id, callback))
        return self.kept(target, session_id, done)

    async def arun(
        self, target: Any, said: ChatMessage, session_id: str, callback: Any = None
    ) -> str:
        done = await target.run_async(**self.data(target, said, session_id, callback))
        return self.kept(target, session_id, done)

    async def astream(self, target: Any, text: str, session_id: str) -> AsyncIterator[str]:
        """A pipeline has a way of its own to be read."""
        said = ChatMessage.from_user(text)
        with in_session(session_id):
            handle = target.stream(**self.data(target, said, session_id, None))
        chunks = aiter(handle)
        try:
            async for chunk in chunks:
                if chunk.content:
                    yield chunk.content
        finally:
            await chunks.aclose()
        self.kept(target, session_id, handle.result)
