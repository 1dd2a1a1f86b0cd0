"""Comparing, and turns as they come."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ce_engine import ContextEngine, Scope
from ce_engine.testing.host import HostApp
from tests.browser.conftest import OpenTab, Site, sync_api


if TYPE_CHECKING:
    from playwright.sync_api import Page

expect = sync_api.expect


def test_charts_by_what_is_chosen(site: Site, tab: Page) -> None:
    tab.goto(site.at("/compare"))
    expect(tab.locator(".figures th", has_text="langchain")).to_be_visible()
    bar = tab.locator(".bar .new").first
    assert bar.bounding_box()["width"] > 10  # type: ignore[index]
    tab.get_by_role("radio", name="Model").check()
    expect(tab.locator(".figures th", has_text="gpt-4o")).to_be_visible()
    assert "by=model" in tab.url
    tab.get_by_role("combobox", name="User").fill("ana")
    tab.get_by_role("combobox", name="User").press("Enter")
    expect(tab.get_by_role("status")).to_have_text(re.compile(r"4 calls ·\s+4 sessions"))


def test_turns_appear_as_the_app_makes_them(
    own_site: tuple[Site, ContextEngine], open_tab: OpenTab
) -> None:
    site, engine = own_site
    tab = open_tab(site)
    tab.goto(site.at("/live"), wait_until="domcontentloaded")
    expect(tab.get_by_text("Waiting for the first turn")).to_be_visible()
    expect(tab.locator("#pulse")).to_have_text("listening")
    app = HostApp(engine, Scope(session_id="live"))
    app.ask("Are you there?", "Yes.")
    rows = tab.locator("#turns tbody tr")
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text("committed")
    tab.get_by_role("button", name="Hold").click()
    app.ask("And now?", "Still.")
    app.ask("And now?", "Still here.")
    expect(tab.locator("#pulse")).to_have_text("held")
    expect(rows).to_have_count(1)
    tab.get_by_role("button", name="Go on").click()
    expect(rows).to_have_count(3)
    expect(rows.first.locator("td").nth(2)).to_have_text("3")  # the newest first
    rows.first.locator("td").nth(2).locator("a").click()
    tab.wait_for_url(re.compile(r"/turn\?id=live&turn=3"))


def test_an_open_turn_becomes_a_committed_one_in_its_place(
    own_site: tuple[Site, ContextEngine], open_tab: OpenTab
) -> None:
    from ce_engine.testing.host import assistant, user

    site, engine = own_site
    tab = open_tab(site)
    tab.goto(site.at("/live"), wait_until="domcontentloaded")
    expect(tab.locator("#pulse")).to_have_text("listening")
    app = HostApp(engine, Scope(session_id="slow"))
    asked = app.prepare(user("A long one?"))
    rows = tab.locator("#turns tbody tr")
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text("open")
    app.commit(asked, assistant("Done."))
    expect(rows.first).to_contain_text("committed")
    expect(rows).to_have_count(1)
