"""In every framework a model of the framework's makes the summaries, and its calls are nobody's turns."""

from __future__ import annotations

from typing import Any

import pytest

from ce_engine import (
    LlmRequest,
    MessagePart,
    ModelUsageStage,
    Role,
    SummaryConfig,
    create_context_engine,
)
from ce_engine.testing.faults import SwitchStore
from ce_integrations.testing.answers import JsonObject, text
from ce_integrations.testing.framework_apps import FrameworkApps
from ce_integrations.testing.side_by_side import PATIENT, SESSION, SideBySide
from ce_integrations.testing.wire import Wire
from tests.parity.scenario import FRAMEWORKS, apps_of, installed


SUMMARY = "The keeper counted the lamps. 看守人数了灯。"
CONFIG = PATIENT.model_copy(
    update={"summary": SummaryConfig(trigger_message_count=4, preserve_recent_messages=2)}
)
REQUEST = LlmRequest(
    [
        MessagePart(role=Role.SYSTEM, content="Sum up. 请总结。"),
        MessagePart(role=Role.USER, content="One lamp, two lamps."),
    ]
)


def llm_adapter(apps: FrameworkApps, wire: Wire) -> Any:
    """The framework's `LlmAdapter` over a model of the framework's own."""
    made: Any = apps
    match apps.adapter.name:
        case "autogen":
            from ce_integrations.autogen import AutoGenLlmAdapter

            return AutoGenLlmAdapter(made.client(wire))
        case "crewai":
            from ce_integrations.crewai import CrewAILlmAdapter

            return CrewAILlmAdapter(made.model(wire))
        case "haystack":
            from ce_integrations.haystack import HaystackLlmAdapter

            return HaystackLlmAdapter(made.model(wire))
        case "langchain":
            from ce_integrations.langchain import LangChainLlmAdapter

            return LangChainLlmAdapter(made.model(wire))
        case "llamaindex":
            from ce_integrations.llamaindex import LlamaIndexLlmAdapter

            return LlamaIndexLlmAdapter(made.model(wire))
        case _:
            from ce_integrations.semantic_kernel import SemanticKernelLlmAdapter

            return SemanticKernelLlmAdapter(made.service(wire))


class Summed(SideBySide):
    """One test's engine, which has a model of the framework's."""

    def __init__(self, apps: FrameworkApps, own: Wire) -> None:
        super().__init__(apps)
        self.llm_adapter = llm_adapter(apps, own)
        self.engine.sync.close()
        self.engine = create_context_engine(
            SwitchStore(), config=CONFIG, llm_adapter=self.llm_adapter
        )
        self.store = self.engine.store  # type: ignore[assignment]  # it is one


def is_for_a_summary(body: JsonObject) -> bool:
    return "running summary" in str(body["messages"][0]["content"])


@pytest.fixture(params=FRAMEWORKS)
def apps(request: pytest.FixtureRequest) -> FrameworkApps:
    if not installed(request.param):
        pytest.skip(f"{request.param} is not installed")
    return apps_of(request.param)[0]()


@pytest.mark.req("A-16", "E-06")
def test_the_framework_s_model_makes_them_and_its_calls_are_no_turns(apps: FrameworkApps) -> None:
    questions = ["Count the lamps. 数一数灯。", "Go on. 继续。", "And then? 然后呢？"]
    with (
        Wire([text(f"{n}") for n in range(len(questions))]) as wire,
        Wire(lambda _: SUMMARY) as own,
        Summed(apps, own) as trial,
    ):
        trial.installed(
            wire, apps.make_target(wire), trial.asking(questions, apps.adapter.capabilities.ways[0])
        )
        assert trial.engine.sync.flush(20)
        session = trial.document(SESSION).session
        assert len(trial.turns()) == len(wire.requests) == len(questions)
        assert wire.refusals == own.refusals == []
        assert own.bodies
        assert all(map(is_for_a_summary, own.bodies))
        assert session.summary is not None
        assert session.summary.content == SUMMARY
        stages = [usage.stage for usage in session.model_usage]
        assert stages.count(ModelUsageStage.SUMMARIZE) == len(own.requests)


def test_what_the_model_is_asked_and_what_it_used(apps: FrameworkApps) -> None:
    with Wire("两盏灯") as own, Summed(apps, own) as trial:
        response = trial.run(trial.llm_adapter.generate(REQUEST))
        [body] = own.bodies
    said = [(message["role"], message["content"]) for message in body["messages"]]
    assert [role for role, _ in said] == ["system", "user"]
    assert [part.content for part in REQUEST.messages] == [_plain(content) for _, content in said]
    assert response.content == "两盏灯"
    if apps.adapter.name != "crewai":  # its models sum up over all their calls
        assert response.total_tokens == response.prompt_tokens + response.completion_tokens > 0


def _plain(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)
