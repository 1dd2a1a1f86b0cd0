"""Selectors take the part that they name out of the original text, or say why they cannot (A-05)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ce_engine import RefSelector, SchemaValidationError, SelectorResolveError
from ce_engine.schema.selectors import MAX_MATCHES, MAX_SELECTOR, MAX_TEXT, ParsedSelector, TextSpan


pytestmark = pytest.mark.req("A-05")

POEM = "床前明月光,\n疑是地上霜。\r\n举头望明月,\n低头思故乡。👋"
ORDER = (
    '{"data": {"items": [{"name": "红灯", "price": 7},\n'
    '  {"name": "\\u84dd\\u706f \\"L\\"", "price": 12, "tags": ["a", "b"]}]},\n'
    ' "ids": [1, [2, 3], {}], "n": 1, "n": 2}'
)


def extract(selector: str, text: str = POEM) -> str:
    return RefSelector().extract(text, selector)


@pytest.mark.parametrize(
    ("selector", "part"),
    [
        ("lines:1-1", "床前明月光,"),
        ("lines:2-2", "疑是地上霜。"),
        ("lines:2-3", "疑是地上霜。\r\n举头望明月,"),
        ("lines:4-99", "低头思故乡。👋"),
        ("chars:0-2", "床前"),
        ("chars:26-99", "乡。👋"),
        ("regex:明月.", "明月光\n明月,"),
        ("regex:(?m)^.头", "举头\n低头"),
        ("regex:\\p{So}", "👋"),
        ("lines:3-4,regex:明月", "明月"),
        ("regex:明月, lines:1-1", "明月"),
        ("chars:2-9,lines:1-1", "明月光,"),
        ("chars:2-9,lines:1-2,regex:.+", "明月光,\n疑是"),
        ("regex:月.{1,2}$,lines:1-4", ""),
        ("regex:头.{1,2}明", "头望明"),
    ],
)
def test_a_part_of_a_text(selector: str, part: str) -> None:
    if part:
        assert extract(selector) == part
    else:
        with pytest.raises(SelectorResolveError, match="matches nothing"):
            extract(selector)


@pytest.mark.parametrize(
    ("selector", "part"),
    [
        ("json:$.data.items[0].name", "红灯"),
        ("json:$.data.items[1].name", '蓝灯 "L"'),
        ("json:$.data.items[*]['name','price']", '红灯\n7\n蓝灯 "L"\n12'),
        ("json:$.data.items[?@.price > 10].price", "12"),
        ("json:$..price", "7\n12"),
        ("json:$.ids[1]", "[2, 3]"),
        ("json:$.ids[-1]", "{}"),
        ("json:$.ids[0:2]", "1\n[2, 3]"),
        ("json:$.n", "2"),
        ("json:$.data.items[?match(@.name, '红.')].price", "7"),
        ("json:$.data.items[?search(@.name, '^蓝')].tags[1]", "b"),
        ("json:$..name,lines:2-2", '蓝灯 "L"'),
        ("json:$.data.items[1],regex:L", "L"),
        ("json:$.data.items[1].name,chars:60-66", "\\u84dd"),
        ("json:$", ORDER),
    ],
)
def test_a_value_of_a_json_text(selector: str, part: str) -> None:
    assert extract(selector, ORDER) == part


def test_a_value_that_is_the_whole_text() -> None:
    assert extract("json:$", ' "你好" ') == "你好"
    assert extract("json:$", " 7 ") == "7"


@pytest.mark.parametrize(
    ("selector", "cure"),
    [
        ("", "known: lines:..., chars:..., json:..., regex:..."),
        ("12-18", "known: lines"),
        ("page:3", "known: lines"),
        ("lines", "known: lines"),
        ("lines:3", "lines:FROM-TO"),
        ("lines:0-1", "from 1 on"),
        ("lines:4-3", "lines:FROM-TO"),
        ("lines:１-２", "lines:FROM-TO"),
        ("chars:5-5", "chars:FROM-TO"),
        ("chars:-1-5", "chars:FROM-TO"),
        ("regex:(明", "missing )"),
        ("json:data.items", "begins with $"),
        ("json:$.data | $.ids", "begins with $"),
        ("json:$", "lines, chars or regex"),
        ("lines:5-9", "matches nothing in a text of 29 characters and 4 lines"),
        ("chars:29-40", "matches nothing"),
        ("regex:太阳", "matches nothing"),
        ("lines:1-1,lines:2-2", "matches nothing"),
        ("lines:1-1,chars:5", "chars:FROM-TO"),
        ("regex:" + "a" * MAX_SELECTOR, "at most 1000"),
    ],
)
def test_what_cannot_be_resolved_names_the_cure(selector: str, cure: str) -> None:
    with pytest.raises(SelectorResolveError) as raised:
        extract(selector)
    assert cure in str(raised.value)
    assert raised.value.code == "CONTEXT_SELECTOR_UNRESOLVED"


@pytest.mark.parametrize(
    ("selector", "text", "cure"),
    [
        ("regex:(a|aa)+$", "a" * 200 + "b", "repeats within repeats"),
        ("json:$[?search(@, '(a|aa)+$')]", f'["{"a" * 200}b"]', "name the members"),
        ("regex:a", "a" * (MAX_MATCHES + 1), "name fewer"),
        ("json:$[*]", json.dumps([0] * (MAX_MATCHES + 1)), "name fewer"),
        ("regex:a", "a" * (MAX_TEXT + 1), "Use lines or chars"),
        ("json:$", '"' + "a" * MAX_TEXT + '"', "Use lines or chars"),
        ("json:$..a", "[" * 500 + "]" * 500, "name the members"),
        ("json:$", "[" * 100_000 + "]" * 100_000, "name the members"),
        ("json:$.a", '{"a": ""}', "matches nothing"),
        ("json:$.b", '{"a": 1}', "matches nothing"),
        ("json:$.a", '{"a": ', "is none"),
    ],
)
def test_a_hostile_text_or_pattern_is_given_up(selector: str, text: str, cure: str) -> None:
    with pytest.raises(SelectorResolveError) as raised:
        extract(selector, text)
    assert cure in str(raised.value)
    assert len(str(raised.value)) < 400


def test_a_kind_can_be_added() -> None:
    class Heading:
        """The text under a Markdown heading."""

        def parse(self, argument: str) -> dict[str, Any]:
            return {"title": argument}

        def find(self, content: str, params: Mapping[str, Any]) -> Iterator[TextSpan]:
            start = content.find(f"# {params['title']}\n")
            if start >= 0:
                end = content.find("\n# ", start)
                yield TextSpan(start, end if end >= 0 else len(content))

    selector = RefSelector()
    selector.register("heading", Heading())
    page = "# 退货\n七天内。\n# 换货\n十天内。"
    assert selector.parse("heading:换货,lines:4-4") == [
        ParsedSelector("heading", {"title": "换货"}),
        ParsedSelector("lines", {"from": 4, "to": 4}),
    ]
    assert selector.extract(page, "heading:换货,lines:4-4") == "十天内。"
    with pytest.raises(SelectorResolveError, match=r"heading:\.\.\."):
        selector.extract(page, "page:1")
    with pytest.raises(SelectorResolveError, match="no known kind"):
        extract("heading:换货", page)  # of this selector only


class Heading:
    def parse(self, argument: str) -> dict[str, Any]:
        return {"name": argument}

    def find(self, content: str, params: Mapping[str, Any]) -> list[Any]:
        del content, params
        return []


@pytest.mark.parametrize(
    ("name", "kind", "cure"),
    [
        ("Head Line", Heading(), "small letters"),
        ("", Heading(), "small letters"),
        ("heading", object(), "parse"),
        ("heading", Heading, "an object"),
    ],
)
def test_a_kind_that_is_none_is_refused_where_it_is_registered(
    name: str, kind: Any, cure: str
) -> None:
    selector = RefSelector()
    with pytest.raises(SchemaValidationError, match=cure):
        selector.register(name, kind)
    assert selector.extract("a\nb", "lines:2-2") == "b"


texts = st.text(st.sampled_from("ab ,\n\r你好👋\u2028"), min_size=1, max_size=40)
ends = st.integers(0, 45)


@given(texts, ends, ends)
def test_characters_are_a_slice(text: str, start: int, end: int) -> None:
    expected = text[start:end]
    if expected:
        assert extract(f"chars:{start}-{end}", text) == expected
    else:
        with pytest.raises(SelectorResolveError):
            extract(f"chars:{start}-{end}", text)


@given(texts, st.integers(1, 8), st.integers(0, 8))
def test_lines_are_what_stands_between_line_ends(text: str, start: int, more: int) -> None:
    expected = "\n".join(text.split("\n")[start - 1 : start + more]).removesuffix("\r")
    if expected:
        assert extract(f"lines:{start}-{start + more}", text) == expected
    else:
        with pytest.raises(SelectorResolveError):
            extract(f"lines:{start}-{start + more}", text)


@given(texts, ends, ends, ends, ends)
def test_the_order_of_an_intersection_is_all_the_same(
    text: str, a: int, b: int, c: int, d: int
) -> None:
    expected = text[max(a, c) : min(b, d)]
    for selector in (f"chars:{a}-{b},chars:{c}-{d}", f"chars:{c}-{d},chars:{a}-{b}"):
        if a < b and c < d and expected:
            assert extract(selector, text) == expected
        else:
            with pytest.raises(SelectorResolveError):
                extract(selector, text)


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(min_size=1),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(plain, st.booleans(), st.sampled_from([None, 1, "\t"]))
def test_every_value_of_a_json_text_is_found(value: Any, ascii_only: bool, indent: Any) -> None:
    text = json.dumps({"你": [0, value]}, ensure_ascii=ascii_only, indent=indent)
    found = extract('json:$["你"][1]', text)
    assert (found if isinstance(value, str) else json.loads(found)) == value


wild = st.text(max_size=30) | st.text(st.sampled_from("$.[]'\"*?@()<>=!&|,:-01a中 \\"), max_size=12)


@given(wild | wild.map("${}".format), texts | st.just(ORDER))
def test_no_selector_raises_anything_but_our_error(selector: str, text: str) -> None:
    for kind in ("lines", "chars", "json", "regex"):
        try:
            found = extract(f"{kind}:{selector}", text)
        except SelectorResolveError:
            continue
        assert found
