"""Gives LangChain's standard tests their server and, if asked, installs us; writes down what came of each."""

from __future__ import annotations

import json
import os
import re
import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from obliging import oblige
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension

from ce_engine import ContextEngine, MemoryStore, create_context_engine
from ce_integrations.langchain import install_ce
from ce_integrations.testing.wire import Wire


OUTCOMES: defaultdict[str, dict[str, Any]] = defaultdict(
    lambda: {"outcome": "passed", "reason": "", "warnings": []}
)
RANDOM_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--installed", action="store_true", help="install us on every tested model")
    parser.addoption(
        "--into", type=Path, required=True, help="folder for the outcomes and the snapshots"
    )


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep the worst of setup, call and teardown, its reason, and what the fixtures noted."""
    found = OUTCOMES[report.nodeid]
    if report.outcome != "passed":
        found["outcome"] = "xfailed" if hasattr(report, "wasxfail") else report.outcome
        found["reason"] = getattr(report, "wasxfail", "") or reason(report.longrepr)
    found.update(report.user_properties)


def pytest_warning_recorded(warning_message: warnings.WarningMessage, nodeid: str) -> None:
    OUTCOMES[nodeid]["warnings"].append(str(warning_message.message))


def reason(failure: Any) -> str:
    """The last line: why it was skipped, or the error; without places, which are no part of it."""
    words = failure[2] if isinstance(failure, tuple) else str(failure)
    return str(words).strip().splitlines()[-1]


def pytest_sessionfinish(session: pytest.Session) -> None:
    name = "installed" if session.config.getoption("--installed") else "bare"
    target: Path = session.config.getoption("--into") / f"{name}.json"
    target.write_text(json.dumps(OUTCOMES), encoding="utf-8")


@pytest.fixture(autouse=True)
def _isolated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As in the other tests: no settings of the developer, our faults raise, no file is left."""
    for name in list(os.environ):
        if name.startswith(("OPENAI_", "LANGSMITH_", "LANGCHAIN_", "CE_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("CE_GUARD", "raise")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def wire(request: pytest.FixtureRequest) -> Iterator[None]:
    """A server for each test; the standard tests' properties find its address in their class."""
    with Wire(oblige) as made:
        request.cls.base_url = made.base_url
        yield
        assert made.refusals == []
        sent = "\n".join(each.raw.decode() for each in made.requests)
        # Sorted: the requests of a batch go out at the same time.
        request.node.user_properties.append(("sent", sorted(numbered(sent).splitlines())))


def numbered(sent: str) -> str:
    """Puts the first random id of a test as 1, the second as 2: those of two runs differ by chance."""
    ids = list(dict.fromkeys(RANDOM_ID.findall(sent)))
    return RANDOM_ID.sub(lambda found: str(1 + ids.index(found.group())), sent)


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore())
    yield made
    assert made.sync.flush()
    sessions = made.loop.run(made.store.list_sessions(user_id=None, ephemeral=True))
    request.node.user_properties.append(("recorded", sum(each.turns for each in sessions)))
    made.sync.close()


@pytest.fixture(autouse=True)
def _install(request: pytest.FixtureRequest) -> Iterator[None]:
    """Install on the very object that the standard test gets from its own fixture."""
    installed = request.config.getoption("--installed")
    if not installed or "model" not in request.fixturenames:
        yield
        return
    if "wire" in request.fixturenames:  # which the model's address comes from
        request.getfixturevalue("wire")
    engine = request.getfixturevalue("engine")
    with install_ce(request.getfixturevalue("model"), engine=engine):
        yield


@pytest.fixture
def snapshot(snapshot: SnapshotAssertion, request: pytest.FixtureRequest) -> SnapshotAssertion:
    """What a bare model gives, written by the bare run, is what an installed one must give."""

    class BesideTheOutcomes(JSONSnapshotExtension):
        @classmethod
        def dirname(cls, **_: Any) -> str:
            return str(request.config.getoption("--into") / "test_chat_openai")

    return snapshot.use_extension(BesideTheOutcomes)
