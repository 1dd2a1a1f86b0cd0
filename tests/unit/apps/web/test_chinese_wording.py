"""Chinese pages are written as Chinese is: words in its order, and its own brackets and stops round what is said."""

from __future__ import annotations

import re

import pytest
from starlette.testclient import TestClient

from ce_engine.apps.present.language import languages
from tests.hosts.cli_host import TALK
from tests.unit.apps.web.visiting import read


WHO = f"id={TALK.session_id}&user={TALK.user_id}"
PAGES = (
    f"/session?{WHO}",
    f"/session/costs?{WHO}",
    f"/session/find?{WHO}&find=a",
    f"/turn?{WHO}&turn=12",
    f"/turn/what-if?{WHO}&turn=12&window=9000",
    f"/beside?{WHO}&turn=12",
    f"/beside?{WHO}&turn=12&with={TALK.session_id}&with_turn=3",
    "/live",
    "/compare",
)
HALF = re.compile(
    r"[\u4e00-\u9fff] ?\((?!--)|[\u4e00-\u9fff]; |[\u4e00-\u9fff]: |[\u4e00-\u9fff]\. |[\u4e00-\u9fff], |, ?[\u4e00-\u9fff]"
)
ORDER = re.compile(r"轮次 \d")


@pytest.mark.parametrize("address", PAGES)
def test_no_page_has_half_width_marks_or_another_order(
    talk_pages: TestClient, address: str
) -> None:
    html = read(talk_pages, address, **{"accept-language": "zh"})
    html = re.sub(
        r'<(script|style|bdi|div class="stored)[^>]*>.*?</\w+>', " ", html, flags=re.DOTALL
    )
    text = " ".join(re.sub(r"<[^>]*>", " ", html).split())
    assert HALF.findall(text) == []
    assert ORDER.findall(text) == []


def test_the_texts_themselves_have_none() -> None:
    texts = languages()["zh"].texts.values()
    assert [text for text in texts if HALF.search(text)] == []
