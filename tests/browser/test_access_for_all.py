"""No page has a serious fault of access in either theme, and hostile text does nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest

from tests.browser.conftest import HOSTILE, SESSION, OpenTab, Site, sync_api


axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()

if TYPE_CHECKING:
    from playwright.sync_api import Page

TALK = urlencode({"id": SESSION, "user": "张伟"})
EVIL = urlencode({"id": HOSTILE, "user": HOSTILE})
PAGES = {
    "sessions": "/",
    "nothing found": "/?q=nobody",
    "compare": "/compare",
    "live": "/live",
    "session": f"/session?{TALK}",
    "turn": f"/turn?{TALK}&turn=20",
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


@pytest.mark.parametrize("name", ["sessions", "compare", "live", "hostile session", "hostile turn"])
def test_hostile_text_does_nothing(site: Site, tab: Page, name: str) -> None:
    settled(tab, site.at(PAGES[name]))
    assert "taken" not in tab.title() or "<script>" in tab.title()
    assert tab.locator("img").count() == 0
    assert tab.evaluate(
        "document.documentElement.scrollWidth <= innerWidth + 1"
    )  # and moves nothing aside


@pytest.mark.parametrize("name", ["sessions", "compare", "session", "turn"])
def test_a_narrow_window_shows_all(site: Site, open_tab: OpenTab, name: str) -> None:
    tab = open_tab(site)
    tab.set_viewport_size({"width": 480, "height": 800})
    settled(tab, site.at(PAGES[name]))
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth + 1")
