"""A turn: why something was left out, what was changed in a text, and what if."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from tests.browser.conftest import SESSION, OpenTab, Site, sync_api
from tests.browser.leaving import calm


if TYPE_CHECKING:
    from playwright.sync_api import Page

expect = sync_api.expect
WHO = {"id": SESSION, "user": "张伟"}


def visited(site: Site, tab: Page, turn: int, **more: str) -> Page:
    calm(tab)
    tab.goto(site.at(f"/turn?{urlencode({**WHO, 'turn': turn, **more})}"))
    expect(tab.locator("h1")).to_contain_text(f"Turn {turn} of")
    return tab


def test_why_something_was_left_out_is_found_in_a_few_keys(site: Site, tab: Page) -> None:
    visited(site, tab, 24)
    tab.keyboard.press("/")
    tab.keyboard.type("topic 3.")
    tab.keyboard.press("Enter")
    tab.wait_for_url(re.compile("find=topic"))
    step = tab.locator(".journey .step.is-dropped").first
    expect(step).to_contain_text("topic 3.")
    expect(step).to_contain_text(
        re.compile(r"before the cut, which turn \d+ made|The cut moved in this turn")
    )


def test_what_was_added_to_the_question_is_marked(site: Site, tab: Page) -> None:
    visited(site, tab, 24)
    extended = tab.locator(".step.is-extended").first
    expect(extended.locator("ins").first).to_be_visible()
    expect(extended).to_contain_text("What was brought in for it stands with it.")


def test_what_was_left_out_unfolds(site: Site, tab: Page) -> None:
    visited(site, tab, 24)
    fold = tab.locator(".fold").first
    expect(fold.locator(".step").first).to_be_hidden()
    fold.locator("summary").focus()
    tab.keyboard.press("Enter")
    expect(fold.locator(".step").first).to_be_visible()


def test_what_if_answers_while_it_is_typed(site: Site, tab: Page) -> None:
    visited(site, tab, 24)
    tab.get_by_label("Whole window").fill("20000")
    expect(tab.locator("#instead")).to_contain_text("nothing is cut")
    expect(tab.locator("#instead")).to_contain_text("would have gone another way")
    expect(tab.locator("#busy")).to_be_hidden()
    tab.get_by_label("Whole window").fill("")
    tab.get_by_label("What is brought in stands").select_option("seed")
    expect(tab.locator("#instead")).to_contain_text("instead")
    tab.get_by_label("Whole window").fill("-3")
    tab.get_by_role("button", name="Try").click()
    assert tab.url.endswith("turn=24")


def test_what_if_works_without_a_script(site: Site, open_tab: OpenTab) -> None:
    tab = open_tab(site, java_script_enabled=False)
    tab.goto(site.at(f"/turn?{urlencode({**WHO, 'turn': 24})}"))
    tab.get_by_label("Whole window").fill("20000")
    tab.get_by_role("button", name="Try").click()
    expect(tab.locator("#instead")).to_contain_text("nothing is cut")


def test_keys_go_from_turn_to_turn(site: Site, tab: Page) -> None:
    visited(site, tab, 24)
    tab.keyboard.press("n")
    expect(tab.locator("h1")).to_contain_text("Turn 25 of")
    calm(tab)
    tab.keyboard.press("p")
    expect(tab.locator("h1")).to_contain_text("Turn 24 of")


def test_what_was_brought_in_leads_back_to_where_it_is_from(site: Site, tab: Page) -> None:
    turns = iter(range(24, 0, -1))  # the newest in which something came back
    while visited(site, tab, next(turns)).locator(".pieces li").count() == 0:
        pass
    tab.locator(".pieces li").first.get_by_role("link", name="where it is from and went").click()
    tab.wait_for_url(re.compile(r"/(trace|evidence)\?"))
    expect(tab.locator("h1")).to_be_visible()


def test_an_answer_leads_to_its_source_by_the_graph(site: Site, tab: Page) -> None:
    visited(site, tab, 3)
    tab.get_by_role("link", name="what its answer rests on").first.click()
    tab.wait_for_url(re.compile(r"/trace\?"))
    graph = tab.locator("svg.graph")
    expect(graph).to_contain_text("library")
    evidence = graph.locator("a", has=tab.locator(".node.evidence")).first
    evidence.focus()
    tab.keyboard.press("Enter")
    tab.wait_for_url(re.compile(r"/evidence\?"))
    expect(tab.locator(".stored").first).to_contain_text("Rain is water that falls from clouds.")
    back = tab.locator("svg.graph a", has=tab.locator(".node.message")).last
    back.click()
    tab.wait_for_url(re.compile(r"/trace\?"))


def test_in_chinese_and_dark(site: Site, open_tab: OpenTab) -> None:
    tab = open_tab(site, locale="zh-CN", color_scheme="dark")
    calm(tab)
    tab.goto(site.at(f"/turn?{urlencode({**WHO, 'turn': 24})}"))
    expect(tab.locator("h1")).to_contain_text("第 24 轮")
    tab.get_by_label("整个窗口").fill("20000")
    expect(tab.locator("#instead")).to_contain_text("什么都不切")


def test_a_word_is_kept_and_marked_from_turn_to_turn(site: Site, tab: Page) -> None:
    visited(site, tab, 24, find="topic 3.")
    calm(tab)
    tab.keyboard.press("n")
    expect(tab.locator("h1")).to_contain_text("Turn 25 of")
    expect(tab.locator(".found")).to_contain_text("Looked for: topic 3.")
    expect(tab.locator(".journey .step mark").first).to_have_text("topic 3.")
    calm(tab)
    tab.get_by_role("link", name="Show all messages").click()
    expect(tab.locator(".found")).to_have_count(0)


def test_where_a_message_went_leads_to_those_turns(site: Site, tab: Page) -> None:
    visited(site, tab, 24, find="topic 3.")
    went = tab.locator(".journey .went-to").first
    expect(went).to_contain_text("left out")
    calm(tab)
    first = went.locator("a").first
    number = first.inner_text()
    first.click()
    expect(tab.locator("h1")).to_contain_text(f"Turn {number} of")


def test_a_text_that_goes_on_says_so_until_its_end_is_seen(site: Site, tab: Page) -> None:
    visited(site, tab, 24)
    long = tab.locator(".journey .clip.goes-on").first
    expect(long).to_be_visible()
    for text in tab.locator(".journey .clip").all():
        goes_on = text.evaluate("text => text.scrollHeight - text.clientHeight > 4")
        assert ("goes-on" in (text.get_attribute("class") or "")) == goes_on
    place = long.evaluate("text => [...document.querySelectorAll('.clip')].indexOf(text)")
    same = tab.locator(".clip").nth(place)
    same.evaluate("text => { text.scrollTop = text.scrollHeight }")
    expect(same).not_to_have_class(re.compile("goes-on"))


def test_another_session_stands_beside_a_turn_in_a_few_keys(site: Site, tab: Page) -> None:
    visited(site, tab, 24)
    calm(tab)
    tab.get_by_role("link", name="beside another session").click()
    expect(tab.locator("h1")).to_have_text("Beside which session?")
    calm(tab)
    tab.keyboard.press("j")
    tab.keyboard.press("Enter")
    expect(tab.locator("h1")).to_have_text("Side by side")
    expect(tab.locator(".sums thead th").first).to_contain_text("turn 24")
    calm(tab)
    tab.get_by_role("link", name="← turn 23").click()
    expect(tab.locator(".sums thead th").first).to_contain_text("turn 23")
