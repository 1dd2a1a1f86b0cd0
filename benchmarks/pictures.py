"""Takes the pictures of the page that the documents show: of the demo's own session, as a browser shows it.

    python benchmarks/pictures.py

Needs the extras `demo` and `ui`, the group `browser`, and a Chromium (`CE_TEST_BROWSER` names another).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import Locator, Page, sync_playwright


DOCS = Path(__file__).parents[1] / "docs"
CE = [sys.executable, "-c", "from ce_engine.apps.cli import main; main()"]
WIDE, HIGH, MARGIN = 1280, 860, 8
TURN = 60
"""A turn in the midst: what is old was left out, and some of it brought back."""


@contextmanager
def served(store: str) -> Iterator[str]:
    """The link of a running `ce ui`."""
    args = [*CE, "ui", "--store", store, "--port", "0", "--no-open"]
    with subprocess.Popen(args, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.search(r"http\S+", process.stdout.readline())
        assert found is not None
        try:
            yield found[0]
        finally:
            process.send_signal(signal.SIGINT)


def take(tab: Page, name: str, last: Locator) -> None:
    """The picture of a page as it is once all of it is there, down to the end of a part of it."""
    tab.wait_for_load_state("networkidle")
    tab.wait_for_timeout(500)
    box = last.bounding_box()
    assert box is not None
    high = round(box["y"] + box["height"]) + MARGIN
    tab.set_viewport_size({"width": WIDE, "height": high})
    tab.screenshot(path=DOCS / f"{name}.png")
    print(DOCS / f"{name}.png")


def main() -> None:
    browser = os.environ.get("CE_TEST_BROWSER") or shutil.which("chromium")
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{folder}/ce.db"
        subprocess.run([*CE, "demo", "--store", store], check=True, stdout=subprocess.DEVNULL)
        listed = subprocess.run(
            [*CE, "sessions", "--json", "--store", store],
            check=True,
            capture_output=True,
            text=True,
        )
        session = json.loads(listed.stdout)[0]["session_id"]
        with served(store) as link, sync_playwright() as playwright:
            base = link.partition("/?")[0]
            chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
            tab = chromium.new_page(viewport={"width": WIDE, "height": HIGH}, locale="en")
            tab.goto(link)
            tab.wait_for_url(f"{base}/")
            tab.goto(f"{base}/session?{urlencode({'id': session})}")
            take(tab, "ui-session", tab.locator(".timeline-card"))
            tab.goto(f"{base}/turn?{urlencode({'id': session, 'turn': TURN})}")
            tab.locator(".fold").first.wait_for()
            take(tab, "ui-turn", tab.locator("#messages"))
            tab.get_by_role("link", name="what its answer rests on").click()
            take(tab, "ui-trace", tab.locator("section.card").nth(1))
            chromium.close()


if __name__ == "__main__":
    main()
