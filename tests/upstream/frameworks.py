"""Which of a framework's own tests are run without us and with us, what they need, and what may differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Framework:
    """Attributes:
    tests: folders and files by the distribution whose source has them; the first one's release is all's.
    needs: what pip installs for them; `{source}` is the folder of the first distribution.
    plugin: one of `standins` that pytest loads after all others.
    proof: notes of the plugin without which nothing was governed.
    may_differ: tests whose outcome may be another one with us, by name, and why.
    may_note: other notes of the plugin that are no fault, by kind or as `KIND TEST`, and why.
    """

    tests: Mapping[str, Sequence[str]]
    needs: tuple[str, ...]
    plugin: str = ""
    proof: str = "kept"
    may_differ: Mapping[str, str] = field(default_factory=dict)
    may_note: Mapping[str, str] = field(default_factory=dict)


FRAMEWORKS = {
    "langchain": Framework(
        {"langchain-core": ["tests/unit_tests"]},
        ("--group", "{source}/pyproject.toml:test"),
        may_differ={"test_benchmark_model": "asserts that 500 calls take less than a second"},
        may_note={
            "BlockingError": "the test calls a sync method on an event loop, and forbids to wait there",
            "changed test_runnable_with_message_history": "two files have it, with one session id",
        },
    ),
    "autogen": Framework(
        {
            "autogen-core": ["tests"],
            "autogen-agentchat": ["tests"],
            "autogen-ext": ["tests/models", "tests/memory/test_text_canvas_memory.py"],
        },
        (
            "autogen-ext[anthropic,canvas,mcp,ollama,openai]=={release}",
            "mcp<1.27",
            "aiofiles",
            "asyncio_atexit",
            "email-validator",
            "grpcio",
            "opentelemetry-sdk",
            "pandas",
            "pytest-asyncio",
            "pytest-mock",
        ),
        may_note={
            "KeyError test_openai_model_unknown_message_type": "it asks with what is no message"
        },
    ),
    # The distribution of its core has no tests; these are of the spans that the adapter hears.
    "llamaindex": Framework(
        {"llama-index-instrumentation": ["tests"]},
        ("--group", "{source}/pyproject.toml:dev"),
        proof="heard",
    ),
    "crewai": Framework(
        {
            "crewai": [
                "tests/agents/test_agent.py",
                "tests/agents/test_lite_agent.py",
                "tests/agents/test_native_tool_calling.py",
                "tests/crew",
                "tests/hooks",
                "tests/task",
                "tests/test_crew.py",
                "tests/test_custom_llm.py",
                "tests/test_flow_usage_metrics.py",
                "tests/test_streaming.py",
                "tests/test_streaming_integration.py",
                "tests/test_task.py",
                "tests/test_task_guardrails.py",
            ]
        },
        (
            "crewai[anthropic,aws,azure-ai-inference,google-genai,litellm]=={release}",
            "pytest-asyncio",
            "pytest-recording==0.13.4",
            "pytest-subprocess",
            "pytest-timeout",
            "vcrpy==8.2.1",
        ),
        plugin="crewai_cassettes",
    ),
}
