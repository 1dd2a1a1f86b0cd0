"""A browser, and the page as it is served to it: `ce ui` in a process of its own."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ce_engine import (
    Answer,
    ContextEngine,
    Scope,
    Usage,
    create_context_engine,
)
from ce_engine.testing.host import HostApp, assistant, user
from tests.hosts.cli_host import TIGHT, talk
from tests.hosts.trouble_host import fill_trouble


sync_api = pytest.importorskip(
    "playwright.sync_api", reason="needs the group `browser`: playwright"
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
HOSTILE = "<script>document.title='taken'</script><img src=x onerror=alert(1)>\x1b[31m\u202eevil {{ 7*7 }}"
PATIENCE_MS = 60_000  # a busy machine is no fault here
sync_api.expect.set_options(timeout=PATIENCE_MS)


def browser_here() -> str | None:
    return os.environ.get("CE_TEST_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = browser_here()
    if path is None:
        pytest.skip("no browser is here: install `chromium`, or name one with CE_TEST_BROWSER")
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield found
        found.close()


@dataclass(frozen=True)
class Site:
    """A served page: its address, the link with the token, and the store that it reads."""

    base: str
    link: str
    store: str

    def at(self, path: str) -> str:
        return f"{self.base}{path}"


SESSION = "talk about weather"
"""The session that is far over its budget."""


def fill(engine: ContextEngine) -> None:
    """Sessions of several kinds: a long talk, small ones of two frameworks and models, and a hostile one."""
    talk(engine, Scope(session_id=SESSION, user_id="张伟"), chatter=24)
    for number in range(4):
        framework = "langchain" if number % 2 else "autogen"
        scope = Scope(session_id=f"chat-{number}", user_id="ana")
        ask(
            HostApp(engine, scope, [], framework),
            f"Where is invoice {number}?",
            "gpt-4o" if number else "qwen3",
        )
    for _ in range(2):
        ask(
            HostApp(engine, Scope(session_id=HOSTILE, user_id=HOSTILE), [], HOSTILE),
            HOSTILE * 40,
            HOSTILE,
        )


def ask(app: HostApp, question: str, model: str) -> None:
    prepared = app.prepare(user(question))
    answer = assistant("In the blue folder.").message
    app.engine.sync.commit(
        prepared.turn, Answer(answer, model=model, provider="openai"), usage=Usage(20, 5, 25)
    )


def serve(store: str) -> Iterator[Site]:
    """A running `ce ui` over a store, ended as a person ends it."""
    command = "from ce_engine.apps.cli import main; main()"
    args = ["ui", "--store", store, "--port", "0", "--no-open"]
    with subprocess.Popen(
        [sys.executable, "-c", command, *args], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        link = re.search(r"http\S+", process.stdout.readline())
        assert link is not None
        try:
            yield Site(link[0].partition("/?")[0], link[0], store)
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One that all tests share; they only read."""
    store = f"sqlite:///{tmp_path_factory.mktemp('site') / 'ce.db'}"
    engine = create_context_engine(store, config=TIGHT)
    engine.sync.check()
    fill(engine)
    engine.sync.close()
    yield from serve(store)


@pytest.fixture(scope="session")
def trouble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One in which much went wrong, of three frameworks; all in Chinese."""
    yield from serve(fill_trouble(tmp_path_factory.mktemp("trouble")))


@pytest.fixture
def own_site(tmp_path: Path) -> Iterator[tuple[Site, ContextEngine]]:
    """One of the test's own, with the engine of an app that goes on writing."""
    store = f"sqlite:///{tmp_path / 'ce.db'}"
    engine = create_context_engine(store, config=TIGHT)
    engine.sync.check()
    for found in serve(store):
        yield found, engine
    engine.sync.close()


OpenTab = Callable[..., "Page"]


@pytest.fixture
def open_tab(browser: Browser) -> Iterator[OpenTab]:
    """Opens a tab that has come with the token.

    Nothing in it may fail, complain of the policy, ask another server for anything, or pop up.
    """
    faults: list[str] = []
    contexts = []

    def opened(site: Site, *, refused: bool = False, **options: Any) -> Page:
        context = browser.new_context(viewport={"width": 1360, "height": 860}, **options)
        contexts.append(context)
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(f"script failed: {error}"))
        page.on("console", lambda said: complaint(said, faults, refused=refused))
        page.on("dialog", lambda popped: dismissed(popped, faults))
        page.on("request", lambda asked: foreign(site, asked.url, faults))
        page.goto(site.link)
        page.wait_for_url(site.at("/"))
        return page

    yield opened
    for context in contexts:
        context.close()
    assert faults == []


def dismissed(popped: Dialog, faults: list[str]) -> None:
    faults.append(f"it popped up: {popped.message}")
    popped.dismiss()


def complaint(said: ConsoleMessage, faults: list[str], *, refused: bool) -> None:
    kind, text = said.type, said.text
    if refused and text.startswith("Failed to load resource: the server responded"):
        return  # an error's page is what was asked for
    # What htmx gives up for a newer request is no fault.
    if kind == "error" and not text.startswith(("htmx:sendAbort", "htmx:afterRequest")):
        faults.append(text)


def foreign(site: Site, url: str, faults: list[str]) -> None:
    if not url.startswith((f"{site.base}/", "data:")):
        faults.append(f"asked for {url}")


@pytest.fixture
def tab(site: Site, open_tab: OpenTab) -> Page:
    return open_tab(site)
