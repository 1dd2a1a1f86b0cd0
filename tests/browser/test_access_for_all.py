"""No page has a serious fault of access in either theme, and hostile text does nothing."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest

from ce_engine import ContextEngine, Scope
from ce_engine.testing.host import HostApp
from tests.browser.conftest import HOSTILE, SESSION, OpenTab, Site, sync_api
from tests.hosts.cli_host import process
from tests.hosts.trouble_host import REFUND


axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

TALK = urlencode({"id": SESSION, "user": "张伟"})
EVIL = urlencode({"id": HOSTILE, "user": HOSTILE})
PAGES = {
    "sessions": "/",
    "nothing found": "/?q=nobody",
    "compare": "/compare",
    "live": "/live",
    "session": f"/session?{TALK}",
    "turn": f"/turn?{TALK}&turn=20",
    "beside which": f"/beside?{TALK}&turn=20",
    "side by side": f"/beside?{TALK}&turn=20&{urlencode({'with': SESSION, 'with_turn': 9})}",
    "hostile session": f"/session?{EVIL}",
    "hostile turn": f"/turn?{EVIL}&turn=1",
}


def serious(tab: Page) -> list[str]:
    """The faults that keep somebody from using a page, with where they are."""
    found = axe.run(tab, options={"resultTypes": ["violations"]}).response["violations"]
    return [
        f"{fault['id']}: {node['html'][:160]}"
        for fault in found
        if fault["impact"] in ("serious", "critical")
        for node in fault["nodes"][:4]
    ]


def settled(tab: Page, address: str) -> None:
    """Go there, and wait until what is read little by little is there."""
    tab.goto(address, wait_until="domcontentloaded")
    sync_api.expect(tab.locator("[hx-trigger*='delay:1']")).to_have_count(0)
    sync_api.expect(tab.locator(".htmx-request")).to_have_count(0)


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_page_is_for_all(site: Site, open_tab: OpenTab, name: str, theme: str) -> None:
    tab = open_tab(site, color_scheme=theme, reduced_motion="reduce")
    settled(tab, site.at(PAGES[name]))
    assert "\n".join(serious(tab)) == ""


TROUBLE = urlencode({"id": REFUND.session_id, "user": REFUND.user_id})
TROUBLED = {
    "compare of three frameworks": "/compare?by=framework",
    "live": "/live",
    "session": f"/session?{TROUBLE}",
    "sources that disagree": f"/turn?{TROUBLE}&turn=15",
    "over the budget": f"/turn?{TROUBLE}&turn=22",
    "a helper's call": f"/turn?{TROUBLE}&turn=24",
    "what if": f"/turn?{TROUBLE}&turn=15&window=4000",
    "found in the turn": f"/turn?{TROUBLE}&turn=15&find=订单",
}


@pytest.mark.parametrize("name", TROUBLED)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_page_with_trouble_is_for_all(
    trouble: Site, open_tab: OpenTab, name: str, theme: str
) -> None:
    locale = "zh-CN" if theme == "dark" else "en"
    tab = open_tab(trouble, color_scheme=theme, reduced_motion="reduce", locale=locale)
    settled(tab, trouble.at(TROUBLED[name]))
    for fold in tab.locator("details").all():
        fold.evaluate("fold => { fold.open = true }")
    assert "\n".join(serious(tab)) == ""
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth + 1")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_evidence_and_traces_are_for_all(trouble: Site, open_tab: OpenTab, theme: str) -> None:
    tab = open_tab(trouble, color_scheme=theme, reduced_motion="reduce")
    settled(tab, trouble.at(f"/turn?{TROUBLE}&turn=15"))
    links = tab.evaluate("[...document.links].map(link => link.href)")
    for kind in ("/evidence?", "/trace?"):
        theirs = [link for link in dict.fromkeys(links) if kind in link]
        for link in (theirs[0], theirs[-1]):
            settled(tab, link)
            assert "\n".join(serious(tab)) == "", link


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(
    "path", ["/nothing", "/session?id=nobody", "/compare?by=nonsense", "/?token=x"]
)
def test_an_error_is_for_all(site: Site, open_tab: OpenTab, path: str, theme: str) -> None:
    tab = open_tab(site, color_scheme=theme, refused=True)
    settled(tab, site.at(path))
    assert tab.locator("h1").inner_text()
    assert "\n".join(serious(tab)) == ""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_store_that_is_gone_is_told_to_all(
    own_site: tuple[Site, ContextEngine], open_tab: OpenTab, theme: str
) -> None:
    site, engine = own_site
    HostApp(engine, Scope(session_id="s")).ask("Hi?", "Hi.")
    tab = open_tab(site, color_scheme=theme, refused=True)
    with sqlite3.connect(site.store.removeprefix("sqlite:///")) as broken:
        broken.execute("DROP TABLE ce_turns")
    settled(tab, site.at("/session?id=s"))
    sync_api.expect(tab.locator("h1")).to_have_text("The store does not answer")
    assert "\n".join(serious(tab)) == ""


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_an_exported_page_is_for_all(
    trouble: Site, browser: Browser, tmp_path: Path, theme: str, language: str
) -> None:
    args = ("--export", str(tmp_path), "--store", trouble.store, "--language", language)
    done = process("ui", REFUND.session_id, *args)  # of its own: a loop runs here
    assert done.returncode == 0, done.stderr
    [path] = tmp_path.iterdir()
    tab = browser.new_page(color_scheme=theme)  # type: ignore[arg-type]
    tab.set_content(without_policy(path.read_text("utf-8")))
    for fold in tab.locator("details").all()[-3:]:
        fold.evaluate("fold => { fold.open = true }")
    assert "\n".join(serious(tab)) == ""
    tab.close()


def without_policy(html: str) -> str:
    """The page, which lets no script run, for axe's."""
    assert "default-src 'none'" in html
    return re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", html)


@pytest.mark.parametrize("name", ["sessions", "compare", "live", "hostile session", "hostile turn"])
def test_hostile_text_does_nothing(site: Site, tab: Page, name: str) -> None:
    settled(tab, site.at(PAGES[name]))
    assert "taken" not in tab.title() or "<script>" in tab.title()
    assert tab.locator("img").count() == 0
    assert tab.evaluate(
        "document.documentElement.scrollWidth <= innerWidth + 1"
    )  # and moves nothing aside


@pytest.mark.parametrize("name", ["sessions", "compare", "session", "turn", "side by side"])
def test_a_narrow_window_shows_all(site: Site, open_tab: OpenTab, name: str) -> None:
    tab = open_tab(site)
    tab.set_viewport_size({"width": 480, "height": 800})
    settled(tab, site.at(PAGES[name]))
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth + 1")
