"""Uses of Haystack that few apps have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from haystack import Document, Pipeline, SuperComponent, component
from haystack.components.agents import Agent
from haystack.components.builders import ChatPromptBuilder
from haystack.dataclasses import ChatMessage, StreamingChunk, ToolCall
from haystack.tools.from_function import create_tool_from_function

from ce_integrations.haystack import install_ce
from tests.adapters.haystack.natives import Haystack
from tests.adapters.odd_uses import TEXTS, Mute, OddUseTests, Use, once


Messages = list[ChatMessage]


def said(text: str) -> Messages:
    return [ChatMessage.from_user(text)]


def answer(text: str) -> dict[str, Messages]:
    return {"replies": [ChatMessage.from_assistant(text)]}


def send_email(to: str, subject: str) -> str:
    """Send it."""
    return f"{subject!r} to {to}"


TOOLS = [create_tool_from_function(send_email)]


class Unbound:
    """As `flask.request` outside a request."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"Working outside of request context: {name}")


request = Unbound()


def current_page() -> str:
    """The page that is looked at."""
    return f"page {request.path}"


def test_a_tool_may_name_what_is_not_there_yet() -> None:
    agent = Agent(chat_generator=Secretary(), tools=[create_tool_from_function(current_page)])
    installed = install_ce(agent, store="memory://")
    try:
        assert agent.run(messages=said("Hello."))["messages"][-1].text
    finally:
        installed.uninstall()


@component
class Secretary:
    """Calls the tool that it has, and says what that gave, or what it was told."""

    @component.output_types(replies=Messages)
    def run(self, messages: Messages, tools: Any = None, subject: str = "") -> dict[str, Messages]:
        results = messages[-1].tool_call_results
        if tools and not results:
            asks = ToolCall("send_email", {"to": "ann", "subject": "hi"}, id="1")
            return {"replies": [ChatMessage.from_assistant(tool_calls=[asks])]}
        return answer(subject or str(results[0].result if results else messages[-1].text))


@component
class Finder:
    @component.output_types(documents=list[Document])
    def run(self, query: str, subject: str = "") -> dict[str, list[Document]]:
        return {"documents": [Document(content=f"{query} {subject}")]}


def mailing() -> Agent:
    return Agent(chat_generator=Secretary(), tools=TOOLS)


def with_state() -> Agent:
    return Agent(chat_generator=Secretary(), state_schema={"subject": {"type": str}})


def alone() -> Pipeline:
    pipeline = Pipeline()
    pipeline.add_component("llm", Secretary())
    return pipeline


def finding() -> Pipeline:
    pipeline = alone()
    pipeline.add_component("finder", Finder())
    return pipeline


def packed() -> SuperComponent:
    pipeline = alone()
    template = [ChatMessage.from_user("about {{subject}}")]
    pipeline.add_component("builder", ChatPromptBuilder(template, required_variables=["subject"]))
    pipeline.connect("builder.prompt", "llm.messages")
    return SuperComponent(pipeline=pipeline, input_mapping={"subject": ["builder.subject"]})


def last(result: dict[str, Any]) -> Any:
    return result["last_message"].text


async def mail_later(agent: Agent) -> Any:
    return last(await agent.run_async(messages=said("mail ann")))


def in_pipeline(component_name: str, **inputs: Any) -> Callable[[Pipeline], Any]:
    def use(pipeline: Pipeline) -> Any:
        data = {"llm": {"messages": said("x")}}
        done = pipeline.run({**data, component_name: {**data.get(component_name, {}), **inputs}})
        documents = done.get("finder", {}).get("documents")
        return documents[0].content if documents else done["llm"]["replies"][0].text

    return use


KEYWORDS = {
    "a tool's `subject`": Use(mailing, lambda a: last(a.run(messages=said("mail"))), "'hi' to ann"),
    "a tool's `subject`, awaited": Use(mailing, mail_later, "'hi' to ann"),
    "a state's `subject`": Use(
        with_state, lambda agent: last(agent.run(messages=said("x"), subject="bill")), "x"
    ),
    "a super component's `subject`": Use(
        packed, lambda packed: packed.run(subject="s")["replies"][0].text, "about s"
    ),
    "a retriever's `subject`": Use(finding, in_pipeline("finder", query="q", subject="s"), "q s"),
    "a generator's `subject`": Use(alone, in_pipeline("llm", subject="s"), "s"),
}


@component
class Echo:
    """Says what it was told."""

    @component.output_types(replies=Messages)
    def run(self, messages: Messages, tools: Any = None) -> dict[str, Messages]:
        return answer(
            " ".join([*(str(each.text) for each in messages), *(tool.name for tool in tools or ())])
        )


@component
class Pages:
    """Finds what it is asked, page by page."""

    @component.output_types(documents=list[Document])
    def run(self, query: str, queries: Any = ()) -> dict[str, Any]:
        return {"documents": (Document(content=text) for text in query.split() or queries)}


@component
class Reader:
    @component.output_types(text=str)
    def run(self, documents: list[Document]) -> dict[str, str]:
        return {"text": " ".join(str(document.content) for document in documents)}


def echoing() -> Pipeline:
    pipeline = Pipeline()
    pipeline.add_component("llm", Echo())
    return pipeline


def reading() -> Pipeline:
    pipeline = Pipeline()
    pipeline.add_component("pages", Pages())
    pipeline.add_component("reader", Reader())
    pipeline.connect("pages.documents", "reader.documents")
    return pipeline


def echo(llm: Any, messages: Any) -> Any:
    return llm.run(messages=messages)["replies"][0].text


ITERATORS = {
    **once(Echo, ChatMessage.from_user, echo),
    "messages of a pipeline": Use(
        echoing,
        lambda pipeline: echo_in(pipeline, (ChatMessage.from_user(text) for text in TEXTS)),
        "one two",
    ),
    "tools": Use(
        Echo,
        lambda llm: llm.run(messages=said("x"), tools=iter(TOOLS))["replies"][0].text,
        "x send_email",
    ),
    "tools by place": Use(
        Echo, lambda llm: llm.run(said("x"), iter(TOOLS))["replies"][0].text, "x send_email"
    ),
    "documents": Use(
        reading, lambda pipeline: pipeline.run({"pages": {"query": "a b"}})["reader"]["text"], "a b"
    ),
    "queries": Use(
        reading,
        lambda pipeline: pipeline.run({"pages": {"query": "", "queries": iter("ab")}})["reader"][
            "text"
        ],
        "a b",
    ),
}


def echo_in(pipeline: Pipeline, messages: Any) -> Any:
    return pipeline.run({"llm": {"messages": messages}})["llm"]["replies"][0].text


def whose(name: str) -> Use:
    """Asks with an id that is none, and with a user."""
    context = {name: Mute(), "user_id": "ann"}
    return Use(
        lambda: Agent(chat_generator=Echo()),
        lambda agent: last(agent.run(messages=said("x"), hook_context=context)),
        "x",
    )


IDS = {f"an agent's {name}": whose(name) for name in ("session_id", "thread_id")}


class Sink:
    """A callback with methods of its own."""

    def __init__(self) -> None:
        self.text = ""

    def __call__(self, chunk: StreamingChunk) -> None:
        self.text += chunk.content

    def finish(self, reason: str) -> None:
        self.text += f" [{reason}]"


class Unnamed(Sink):
    @property
    def __name__(self) -> str:
        raise ValueError("no name")


class Bound(Sink):
    """Gives a method of its own as the callback."""

    def push(self, chunk: StreamingChunk) -> None:
        self(chunk)


@component
class Streaming:
    """Tells its callback of the end."""

    @component.output_types(replies=Messages)
    def run(self, messages: Messages, streaming_callback: Any = None) -> dict[str, Messages]:
        streaming_callback(StreamingChunk(content=str(messages[-1].text)))
        sink = getattr(streaming_callback, "__self__", streaming_callback)
        assert isinstance(sink, Sink)
        sink.finish("stop")
        return answer(sink.text)


def streaming() -> Pipeline:
    pipeline = Pipeline()
    pipeline.add_component("llm", Streaming())
    return pipeline


def into(make: Callable[[], Any]) -> Use:
    """Asks for pieces by a callback."""

    def use(pipeline: Pipeline) -> Any:
        inputs = {"messages": said("x"), "streaming_callback": make()}
        return pipeline.run({"llm": inputs})["llm"]["replies"][0].text

    return Use(streaming, use, "x [stop]")


CALLBACKS = {
    "a callback with methods": into(Sink),
    "a callback without a name": into(Unnamed),
    "a method as a callback": into(lambda: Bound().push),
}


class TestOddUses(Haystack, OddUseTests):
    uses: ClassVar[dict[str, Use]] = {**KEYWORDS, **ITERATORS, **IDS, **CALLBACKS}
