"""Leaving a page in peace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.browser.conftest import sync_api


if TYPE_CHECKING:
    from playwright.sync_api import Page

UNDER_WAY = ".htmx-request, [hx-trigger*='delay:1']"


def calm(tab: Page) -> None:
    """Wait until no part of a page is under way: one that is broken off by leaving counts as a fault."""
    tab.wait_for_load_state()
    # Not `wait_for_function`: it evaluates a text in the page, whose policy forbids that.
    sync_api.expect(tab.locator(UNDER_WAY)).to_have_count(0)
