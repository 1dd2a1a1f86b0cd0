"""The list of sessions, by mouse and by keyboard."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.browser.conftest import SESSION, OpenTab, Site, sync_api


if TYPE_CHECKING:
    from playwright.sync_api import Page

expect = sync_api.expect


def names(tab: Page) -> list[str]:
    return [" ".join(text.split()) for text in tab.locator("#list .session a").all_inner_texts()]


def test_search_finds_while_it_is_typed(tab: Page) -> None:
    expect(tab.locator("#list .session a")).to_have_count(6)
    tab.get_by_role("searchbox").type("INVOICE 2")
    expect(tab.locator("#list .session a")).to_have_count(1)
    assert names(tab) == ["chat-2"]
    assert "q=INVOICE" in tab.url  # a link to send, and to come back to
    tab.reload()
    assert names(tab) == ["chat-2"]
    tab.get_by_role("searchbox").fill("nobody ever")
    expect(tab.get_by_text("No session matches")).to_be_visible()
    tab.get_by_role("link", name="Show all sessions").click()
    expect(tab.locator("#list .session a")).to_have_count(6)


def test_filters_and_order_work_together(tab: Page) -> None:
    tab.get_by_role("combobox", name="User").fill("ana")
    tab.get_by_role("combobox", name="User").press("Enter")
    expect(tab.locator("#list .session a")).to_have_count(4)
    tab.get_by_role("combobox", name="Framework").fill("autogen")
    tab.get_by_role("combobox", name="Framework").press("Tab")
    expect(tab.locator("#list .session a")).to_have_count(2)
    heads = tab.locator("#list thead")
    heads.get_by_role("link", name="Session").click()
    expect(tab.locator("th[aria-sort=ascending]")).to_have_text(re.compile("Session"))
    assert names(tab) == ["chat-0", "chat-2"]
    heads.get_by_role("link", name="Session").click()
    expect(tab.locator("th[aria-sort=descending]")).to_have_text(re.compile("Session"))
    assert names(tab) == ["chat-2", "chat-0"]
    tab.get_by_role("checkbox", name="with ephemeral runs").check()
    tab.wait_for_url(re.compile("all=1.*sort=session"))
    tab.go_back()
    tab.wait_for_url(re.compile(r"user=ana(?!.*all=1)"))


def test_columns_are_chosen_and_stay(tab: Page) -> None:
    tab.get_by_text("Columns", exact=True).click()
    tab.get_by_role("checkbox", name="Cost of inputs", exact=True).check()
    tab.get_by_role("checkbox", name="User").uncheck()
    tab.get_by_role("button", name="Show these").click()
    expect(tab.get_by_role("columnheader", name="Cost of inputs", exact=True)).to_be_visible()
    expect(tab.get_by_role("columnheader", name="User")).to_have_count(0)


def test_all_of_it_by_keyboard(tab: Page) -> None:
    tab.keyboard.press("/")
    expect(tab.get_by_role("searchbox")).to_be_focused()
    tab.keyboard.type("weather")
    expect(tab.locator("#list .session a")).to_have_count(1)
    tab.keyboard.press("ArrowDown")
    expect(tab.locator("#row-1")).to_be_focused()
    tab.keyboard.press("Enter")
    tab.wait_for_url(re.compile("/session"))
    expect(tab.get_by_role("heading", level=1)).to_have_text(SESSION)
    tab.keyboard.press("Tab")
    expect(tab.get_by_text("Skip to the content")).to_be_focused()
    tab.keyboard.press("Enter")
    expect(tab.locator("main")).to_be_focused()


GROUND = "getComputedStyle(document.body).backgroundColor"


def test_the_switches_of_language_and_colours_stay(tab: Page) -> None:
    light = tab.evaluate(GROUND)
    tab.get_by_role("button", name="Dark").click()
    expect(tab.locator("html")).to_have_attribute("data-theme", "dark")
    expect(tab.locator("body")).not_to_have_css("background-color", light)
    tab.get_by_role("button", name="中文").click()
    expect(tab.locator("header nav a").first).to_have_text("会话")
    expect(tab.locator("html")).to_have_attribute("lang", "zh")
    tab.get_by_role("link", name="对比", exact=True).click()
    tab.wait_for_url(re.compile("/compare"))
    expect(tab.locator("html")).to_have_attribute("lang", "zh")
    expect(tab.locator("html")).to_have_attribute("data-theme", "dark")


def test_a_switch_comes_back_to_where_the_reader_is(tab: Page) -> None:
    tab.get_by_role("searchbox").type("chat-3")
    expect(tab.locator("#list .session a")).to_have_count(1)
    tab.get_by_role("button", name="Dark").click()
    expect(tab.locator("html")).to_have_attribute("data-theme", "dark")
    expect(tab.locator("#list .session a")).to_have_text(["chat-3"])
    assert "q=chat-3" in tab.url


def test_the_browsers_own_language_and_colours(site: Site, open_tab: OpenTab) -> None:
    tab = open_tab(site, locale="zh-CN", color_scheme="dark")
    expect(tab.locator("html")).to_have_attribute("lang", "zh")
    red, *_ = re.findall(r"\d+", tab.evaluate(GROUND))
    assert int(red) < 60
