"""Record what real LangChain and LangGraph hosts send to their model, as JSON traces.

    python tests/traces/record.py

Run it by hand after an update of the frameworks and read the difference. Each trace holds the calls
in the order in which they began and ended, and by hand, from what was said in the scenario, the
messages that a store must hold afterwards (`stored`).
"""

from __future__ import annotations

import importlib.metadata
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.chat_history import InMemoryChatMessageHistory
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables.history import RunnableWithMessageHistory
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph


HERE = Path(__file__).parent
ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}


class Tape:
    """The calls of one scenario, in order."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        self._calls = 0

    def call(self, request: str, messages: list[BaseMessage]) -> int:
        with self._lock:
            self._calls += 1
            event = {"event": "call", "id": self._calls, "request": request}
            self.events.append({**event, "messages": [plain(m) for m in messages]})
            return self._calls

    def end(self, call: int, answer: AIMessage | None) -> None:
        with self._lock:
            if answer is None:
                self.events.append({"event": "error", "id": call})
            else:
                self.events.append({"event": "answer", "id": call, "message": plain(answer)})


def plain(message: BaseMessage) -> dict[str, Any]:
    found: dict[str, Any] = {"role": ROLES[message.type], "content": message.text}
    if message.id:
        found["id"] = message.id
    if isinstance(message, AIMessage) and message.tool_calls:
        found["tool_calls"] = [
            {"id": c["id"], "name": c["name"], "args": c["args"]} for c in message.tool_calls
        ]
    if isinstance(message, ToolMessage):
        found["tool_call_id"] = message.tool_call_id
    if message.additional_kwargs.get("lc_source") == "summarization":
        found["summary"] = True
    return found


class ScriptedModel(BaseChatModel):
    """Answers by rule, and puts every call on the tape; fails the first `failures` times."""

    tape: Any
    rule: Any
    failures: int = 0
    request: str = "r"

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self.bind(**kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        call = self.tape.call(self.request, messages)
        if self.failures:
            self.failures -= 1
            self.tape.end(call, None)
            raise ConnectionError("scripted")
        answer = self.rule(messages)
        answer.id = f"{self.request}-answer-{call}"
        self.tape.end(call, answer)
        return ChatResult(generations=[ChatGeneration(message=answer)])


def echo(messages: list[BaseMessage]) -> AIMessage:
    return AIMessage(f"You said: {messages[-1].text}")


def said(*texts: str) -> list[list[str]]:
    """Questions with the echo's answers."""
    return [pair for text in texts for pair in (["user", text], ["assistant", f"You said: {text}"])]


def checkpoint_fork(tape: Tape) -> list[list[str]]:
    model = ScriptedModel(tape=tape, rule=echo)
    agent = create_agent(model, tools=[], system_prompt="Be kind.", checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    for number, text in enumerate(("I am Ann.", "I live in Oslo.")):
        model.request = f"r{number}"
        agent.invoke({"messages": [HumanMessage(text)]}, config)
    fork = next(s for s in agent.get_state_history(config) if len(s.values["messages"]) == 2)
    model.request = "r2"
    agent.invoke({"messages": [HumanMessage("I live in Rome.")]}, fork.config)
    model.request = "r3"
    agent.invoke({"messages": [HumanMessage("Where do I live?")]}, config)
    return said("I am Ann.", "I live in Oslo.", "I live in Rome.", "Where do I live?")


def remove_message(tape: Tape) -> list[list[str]]:
    model = ScriptedModel(tape=tape, rule=echo)

    def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    graph = StateGraph(MessagesState).add_node("ask", ask).add_edge(START, "ask")
    app = graph.compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    texts = ("one", "two", "three", "two")
    for number, text in enumerate(texts):
        model.request = f"r{number}"
        state = app.invoke({"messages": [HumanMessage(text)]}, config)
        if number == 1:
            gone = [RemoveMessage(id=m.id) for m in state["messages"][:2]]
            app.update_state(config, {"messages": gone})
    return said(*texts)


def summarization(tape: Tape) -> list[list[str]]:
    model = ScriptedModel(tape=tape, rule=echo)
    short = ScriptedModel(tape=Tape(), rule=lambda _: AIMessage("They counted."))
    middleware = SummarizationMiddleware(short, trigger=("messages", 5), keep=("messages", 2))
    agent = create_agent(model, tools=[], middleware=[middleware], checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    texts = [f"number {n}" for n in range(5)]
    for number, text in enumerate(texts):
        model.request = f"r{number}"
        agent.invoke({"messages": [HumanMessage(text)]}, config)
    return said(*texts)


def message_history(tape: Tape) -> list[list[str]]:
    model = ScriptedModel(tape=tape, rule=echo)
    prompt = ChatPromptTemplate(
        [("system", "Be kind."), MessagesPlaceholder("past"), ("user", "{q}")]
    )
    kept = InMemoryChatMessageHistory()
    chain = RunnableWithMessageHistory(
        prompt | model, lambda: kept, input_messages_key="q", history_messages_key="past",
        history_factory_config=[],
    )  # fmt: skip
    texts = ("yes", "no", "yes")
    for number, text in enumerate(texts):
        model.request = f"r{number}"
        chain.invoke({"q": text})
    return said(*texts)


def with_retry(tape: Tape) -> list[list[str]]:
    model = ScriptedModel(tape=tape, rule=echo, failures=1)
    again = model.with_retry(wait_exponential_jitter=False, stop_after_attempt=3)
    past: list[BaseMessage] = []
    for number, text in enumerate(("one", "two")):
        model.request = f"r{number}"
        model.failures = 1
        past.append(HumanMessage(text))
        past.append(again.invoke(past))
    return said("one", "two")


def with_fallbacks(tape: Tape) -> list[list[str]]:
    first = ScriptedModel(tape=tape, rule=echo, failures=9)
    second = ScriptedModel(tape=tape, rule=echo)
    model = first.with_fallbacks([second])
    past: list[BaseMessage] = []
    for number, text in enumerate(("one", "two")):
        first.request = second.request = f"r{number}"
        past.append(HumanMessage(text))
        past.append(model.invoke(past))
    return said("one", "two")


def batch_of_equals(tape: Tape) -> list[list[str]]:
    barrier = threading.Barrier(3)

    def wait_and_echo(messages: list[BaseMessage]) -> AIMessage:
        barrier.wait(5)
        return echo(messages)

    ScriptedModel(tape=tape, rule=wait_and_echo).batch(["hi", "hi", "hi"])
    return [["user", "hi"], *[["assistant", "You said: hi"]] * 3]


def tool_loop(tape: Tape) -> list[list[str]]:
    @tool
    def weather(city: str) -> str:
        """The weather."""
        return f"fine in {city}"

    def rule(messages: list[BaseMessage]) -> AIMessage:
        if isinstance(messages[-1], ToolMessage):
            return AIMessage(f"It is {messages[-1].text}.")
        city = messages[-1].text
        calls = [{"name": "weather", "args": {"city": c}, "id": f"call_{i}"}
                 for i, c in enumerate(city.split(" and "))]  # fmt: skip
        return AIMessage("", tool_calls=calls)

    model = ScriptedModel(tape=tape, rule=rule)
    agent = create_agent(model, tools=[weather], checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    stored = []
    for number, text in enumerate(("Oslo", "Oslo and Rome", "Oslo")):
        model.request = f"r{number}"
        agent.invoke({"messages": [HumanMessage(text)]}, config)
        results = [["tool", f"fine in {city}"] for city in text.split(" and ")]
        last = ["assistant", f"It is {results[-1][1]}."]
        stored += [["user", text], ["assistant", ""], *results, last]
    return stored


SCENARIOS: list[Callable[[Tape], list[list[str]]]] = [
    checkpoint_fork,
    remove_message,
    summarization,
    message_history,
    with_retry,
    with_fallbacks,
    batch_of_equals,
    tool_loop,
]


def main() -> None:
    versions = {
        name: importlib.metadata.version(name)
        for name in ("langchain", "langchain-core", "langgraph")
    }
    for scenario in SCENARIOS:
        tape = Tape()
        stored = scenario(tape)
        trace = {"versions": versions, "events": tape.events, "stored": stored}
        path = HERE / f"{scenario.__name__}.json"
        path.write_text(json.dumps(trace, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(path.name, len(tape.events), "events")


if __name__ == "__main__":
    main()
