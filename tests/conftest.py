"""What every test gets: our faults raise, and nothing is written outside `tmp_path`."""

from __future__ import annotations

import gc
import os
import re
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from ce_engine import ContextEngineError


if TYPE_CHECKING:
    from collections.abc import Iterator

# A developer's own settings must change no result: keys, endpoints, stores, tracers.
FOREIGN = ("OPENAI_", "LANGSMITH_", "LANGCHAIN_", "CE_")

# Read when the framework is imported: it reports its use to its makers, and writes to the home folder.
os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "false"

# Each needs distributions of its own: `tox -e makebelieve` and `tox -e standard` name their folder.
collect_ignore = ["makebelieve", "standard"]

settings.register_profile("ce", deadline=None, print_blob=True)  # no timing in tests
settings.load_profile("ce")


def pytest_configure() -> None:
    """Have `tests` be this folder, whatever a test puts on `sys.path`, and Ctrl-C end what a test starts.

    A distribution brings a `tests`, too; and what a shell runs in the background ignores Ctrl-C.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    ours = sys.modules.get("tests")
    if ours is not None:  # a namespace package looks for its folders anew
        ours.__path__ = [str(Path(__file__).parent)]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--base-url",
        default="http://127.0.0.1:18080/v1",
        help="of the model server that `-m live` talks to",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is `live` unless `-m` names it; so `-m "not full"` need not name it too."""
    if re.search(r"\blive\b", config.getoption("markexpr")):
        return
    live = [item for item in items if item.get_closest_marker("live")]
    items[:] = [item for item in items if item not in live]
    config.hook.pytest_deselected(items=live)


def pytest_collection_finish() -> None:
    """Look no more at what six frameworks made as they were imported: each `gc.collect()` of a test would."""
    gc.collect()
    gc.freeze()


def isolate(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Make `folder` the whole world of a test: working directory, our home, the caches."""
    for name in list(os.environ):
        if name.startswith(FOREIGN):
            patch.delenv(name)
    patch.setenv("CE_GUARD", "raise")
    patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    patch.chdir(folder)


@pytest.fixture(scope="session", autouse=True)
def _isolated_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Isolate fixtures that live longer than one test, which the one below comes too late for."""
    with pytest.MonkeyPatch.context() as patch:
        isolate(patch, tmp_path_factory.mktemp("run"))
        yield


@pytest.fixture(autouse=True)
def _isolated_test(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Isolate one test; `production_guard` gives it the guard that users have."""
    isolate(monkeypatch, tmp_path)
    if request.node.get_closest_marker("production_guard"):
        monkeypatch.delenv("CE_GUARD")


@pytest.fixture(autouse=True)
def _nothing_stays_installed() -> Iterator[None]:
    """Take away what a test left installed: classes of a framework are wrapped for all tests of a process."""
    yield
    installed = sys.modules.get("ce_integrations.install.installation")
    # Who goes leaves what it shares to others, which are installed anew by that.
    for _ in range(10):
        left = list(installed._wirings.values()) if installed is not None else []
        for each in left:
            with suppress(ContextEngineError):  # such as that its engine is closed
                each.detach()
        if not left:
            break


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run async tests on asyncio alone: no framework that we serve runs on trio."""
    return "asyncio"
