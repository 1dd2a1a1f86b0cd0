"""A session's timeline by mouse and by keyboard."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from tests.browser.conftest import SESSION, OpenTab, Site, sync_api
from tests.browser.leaving import calm


if TYPE_CHECKING:
    from playwright.sync_api import Page

expect = sync_api.expect
USER = "张伟"
TURNS = 27
ADDRESS = f"/session?{urlencode({'id': SESSION, 'user': USER})}"


def visited(site: Site, tab: Page) -> Page:
    calm(tab)
    tab.goto(site.at(ADDRESS))
    expect(tab.locator(".timeline .plot svg")).to_be_visible()
    expect(tab.locator("#costs dd").first).to_be_visible()
    calm(tab)
    return tab


def test_a_turn_is_opened_by_the_keyboard_alone(site: Site, tab: Page) -> None:
    visited(site, tab)
    tab.locator(".timeline").focus()
    told = tab.locator("#timeline-told")
    expect(told).to_contain_text(f"turn {TURNS}")
    tab.keyboard.press("Home")
    expect(told).to_contain_text("turn 1 ")
    for _ in range(4):
        tab.keyboard.press("ArrowRight")
    expect(told).to_contain_text("turn 5 ")
    expect(told).to_contain_text("tokens")
    tab.keyboard.press("Enter")
    tab.wait_for_url(re.compile(r"/turn\?.*turn=5$"))
    expect(tab.locator("h1")).to_contain_text("Turn 5 of 27")


def test_turns_that_became_dearer_are_listed_and_marked_in_the_table(site: Site, tab: Page) -> None:
    visited(site, tab)
    listed = tab.locator("#costs [data-dearer]")
    marked = tab.locator("#turns tr", has=tab.locator(".chip.dearer"))
    assert listed.count() > 0
    expect(marked).to_have_count(listed.count())
    turn = listed.first.get_attribute("data-dearer")
    expect(marked.first.locator("a").first).to_have_text(str(turn))
    listed.first.locator("a").click()
    tab.wait_for_url(re.compile(rf"/turn\?.*turn={turn}$"))
    expect(tab.locator("h1")).to_contain_text("this turn dearer than without us")


def test_a_turn_is_opened_by_a_click_on_its_bar(site: Site, tab: Page) -> None:
    visited(site, tab)
    plot = tab.locator(".timeline .plot svg")
    box = plot.bounding_box()
    assert box is not None
    tab.mouse.move(box["x"] + box["width"] * 9.5 / TURNS, box["y"] + 100)
    expect(tab.locator("#timeline-told")).to_contain_text("turn 10 ")
    tab.mouse.click(box["x"] + box["width"] * 9.5 / TURNS, box["y"] + 100)
    tab.wait_for_url(re.compile(r"/turn\?.*turn=10$"))


def test_zoom_shows_fewer_turns_and_all_again(site: Site, tab: Page) -> None:
    visited(site, tab)
    plot = tab.locator(".timeline .plot svg")
    expect(plot).to_have_attribute("viewBox", re.compile(rf"^0 0 {TURNS} "))
    tab.get_by_role("button", name="Zoom in").click()
    expect(plot).to_have_attribute("viewBox", re.compile(r"^\d+ 0 14 "))
    tab.locator(".timeline").focus()
    tab.keyboard.press("Home")
    expect(plot).to_have_attribute("viewBox", re.compile(r"^0 0 14 "))
    tab.get_by_role("button", name="All turns").click()
    expect(plot).to_have_attribute("viewBox", re.compile(rf"^0 0 {TURNS} "))


def test_a_word_is_found_while_it_is_typed_and_leads_to_its_turn(site: Site, tab: Page) -> None:
    visited(site, tab)
    tab.get_by_role("searchbox", name="Find in this session").type("topic 3.")
    hit = tab.locator("#hits li").first
    expect(hit).to_contain_text("topic 3.")
    hit.get_by_role("link", name=re.compile("^turn ")).click()
    tab.wait_for_url(re.compile(r"/turn\?.*find=topic"))
    expect(tab.locator(".journey .step").nth(1)).to_contain_text("topic 3.")


def test_what_it_cost_appears_by_itself(site: Site, tab: Page) -> None:
    visited(site, tab)
    expect(tab.locator("#costs")).to_contain_text("without us")


def test_without_a_script_the_table_and_the_search_lead_everywhere(
    site: Site, open_tab: OpenTab
) -> None:
    tab = open_tab(site, java_script_enabled=False)
    tab.goto(site.at(ADDRESS))
    tab.locator("#turns a", has_text=re.compile("^20$")).click()
    expect(tab.locator("h1")).to_contain_text("Turn 20 of 27")
    tab.locator("#messages input[type=search]").fill("topic 3.")
    tab.get_by_role("button", name="Find").click()
    expect(tab.locator(".journey .step").nth(1)).to_contain_text("topic 3.")


def test_both_languages_and_dark(site: Site, open_tab: OpenTab) -> None:
    tab = open_tab(site, locale="zh-CN", color_scheme="dark")
    visited(site, tab)
    expect(tab.locator("h2", has_text="每一轮发出了什么")).to_be_visible()
    ground = tab.evaluate("getComputedStyle(document.querySelector('.card')).backgroundColor")
    assert max(map(int, re.findall(r"\d+", ground)[:3])) < 80
    tab.get_by_role("button", name="English").click()
    expect(tab.locator("h2", has_text="What went out, turn by turn")).to_be_visible()


def test_the_word_goes_along_to_a_turn_by_its_bar_its_row_and_its_number(
    site: Site, tab: Page
) -> None:
    visited(site, tab)
    tab.get_by_role("searchbox", name="Find in this session").fill("topic 3.")
    expect(tab.locator("#hits")).to_contain_text("Where it went, by turns: as a message")
    tab.wait_for_url(re.compile(r"/session\?.*find=topic"))
    tab.locator(".timeline").focus()
    tab.keyboard.press("Enter")
    tab.wait_for_url(re.compile(r"/turn\?.*turn=27&find=topic"))
    calm(tab)
    tab.go_back()
    expect(tab.locator("#hits mark").first).to_have_text("topic 3.")
    calm(tab)
    tab.get_by_role("spinbutton", name="Go to turn").fill("5")
    tab.keyboard.press("Enter")
    tab.wait_for_url(re.compile(r"/turn\?.*turn=5"))
    expect(tab.locator("h1")).to_contain_text("Turn 5 of 27")
    expect(tab.locator(".found mark")).to_have_text("topic 3.")
    tab.get_by_role("link", name=SESSION).click()
    expect(tab.locator("#hits mark").first).to_have_text("topic 3.")
    calm(tab)
    tab.get_by_role("searchbox", name="Find in this session").fill("")
    tab.locator("#turns a", has_text=re.compile("^20$")).click()
    expect(tab.locator("h1")).to_contain_text("Turn 20 of 27")
    assert "find=" not in tab.url


def test_a_word_of_jargon_is_explained_by_the_keyboard(site: Site, tab: Page) -> None:
    visited(site, tab)
    note = tab.locator("#term-cut")
    expect(note).to_be_hidden()
    tab.get_by_role("button", name="the cut (a line down").focus()
    tab.keyboard.press("Enter")
    expect(note).to_be_visible()
    expect(note).to_contain_text("What stands before it is left out.")
    tab.keyboard.press("Escape")
    expect(note).to_be_hidden()
