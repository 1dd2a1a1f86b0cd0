"""What CrewAI's own tests have from its repository and its source distribution lacks: who plays their cassettes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest


# Read when it is imported: what it would tell its makers, and what it would fetch.
os.environ.update(
    {
        "CREWAI_DISABLE_TELEMETRY": "true",
        "CREWAI_DISABLE_VERSION_CHECK": "true",
        "CREWAI_TRACING_ENABLED": "false",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "PYTEST_TIMEOUT": "60",
        **{
            f"{name}_API_KEY": "no key"
            for name in ("OPENAI", "ANTHROPIC", "GEMINI", "GOOGLE", "AZURE")
        },
    }
)


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Files of its own for each test, and no listener of another's."""
    monkeypatch.setenv("CREWAI_STORAGE_DIR", str(tmp_path))
    monkeypatch.setenv("CREWAI_TESTING", "true")
    yield
    from crewai.events.event_bus import crewai_event_bus

    with suppress(AttributeError), crewai_event_bus._rwlock.w_locked():
        crewai_event_bus._sync_handlers.clear()
        crewai_event_bus._async_handlers.clear()


@pytest.fixture(autouse=True)
def _first_event() -> None:
    """Events are counted from the first one on, in no other test's scopes."""
    from crewai.events import base_events, event_context

    base_events.reset_emission_counter()
    event_context._event_id_stack.set(())


@pytest.fixture(scope="module")
def vcr_cassette_dir(request: pytest.FixtureRequest) -> str:
    """`tests/a/b/test_c.py` has its cassettes in `tests/cassettes/a/b`."""
    tests = request.config.rootpath / "tests"
    return str(tests / "cassettes" / request.path.parent.relative_to(tests))


@pytest.fixture(scope="module")
def vcr_config() -> dict[str, Any]:
    """Recorded bodies are of other days: a request is told by where it goes."""
    return {"record_mode": "none", "match_on": ["method", "scheme", "host", "port", "path"]}
