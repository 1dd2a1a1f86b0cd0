"""What selectors and resolvers of evidence must do, as tests: subclass and give a fixture (A-05, A-27)."""

from __future__ import annotations

import pytest

from ce_engine.errors import EvidenceNotFoundError, SelectorResolveError
from ce_engine.ports.rendering import EvidenceResolver
from ce_engine.schema.selectors import RefSelector


LINES = "The order is paid.\n订单已付款。\nIt ships on Monday."
JSON = '{"items": [{"name": "锅炉"}, {"name": "oven"}]}'
EVIDENCE = {"lines": LINES, "json": JSON, "empty": ""}
"""The contents of the evidence that a resolver is asked for, by id."""

PARTS = {
    ("lines", "lines:2-2"): "订单已付款。",
    ("lines", "lines:2-9"): "订单已付款。\nIt ships on Monday.",
    ("lines", "chars:4-9"): "order",
    ("lines", r"regex:[A-Z]\w+day"): "Monday",
    ("lines", "lines:1-2,regex:付款"): "付款",
    ("json", "json:$.items[0].name"): "锅炉",
    ("json", "json:$.items[*].name"): "锅炉\noven",
}
"""What selectors name, by the evidence's id."""

WRONG = (
    "",
    "lines:0-2",
    "lines:2",
    "chars:3-1",
    "regex:[",
    "json:items[",
    "pages:1-2",
    "lines:9-9",
)
"""Selectors that are malformed, of no known kind, or match nothing in `LINES`."""


class RefSelectorContract:
    """Everything that `RefSelector` promises. A subclass gives a fixture `ref_selector`."""

    def test_it_finds_what_is_named(self, ref_selector: RefSelector) -> None:
        for (name, selector), part in PARTS.items():
            assert ref_selector.extract(EVIDENCE[name], selector) == part

    def test_it_is_pure(self, ref_selector: RefSelector) -> None:
        once = [ref_selector.extract(EVIDENCE[name], selector) for name, selector in PARTS]
        assert [ref_selector.extract(EVIDENCE[name], selector) for name, selector in PARTS] == once

    def test_a_part_stands_in_the_text(self, ref_selector: RefSelector) -> None:
        for name, selector in PARTS:
            for line in ref_selector.extract(EVIDENCE[name], selector).split("\n"):
                assert line in EVIDENCE[name]

    @pytest.mark.parametrize("selector", WRONG)
    def test_what_names_nothing_is_an_error(self, ref_selector: RefSelector, selector: str) -> None:
        with pytest.raises(SelectorResolveError):
            ref_selector.extract(LINES, selector)

    def test_in_an_empty_text_there_is_nothing(self, ref_selector: RefSelector) -> None:
        for selector in ("chars:0-5", "regex:a+", "json:$.a"):
            with pytest.raises(SelectorResolveError):
                ref_selector.extract("", selector)


class EvidenceResolverContract:
    """Everything that `ports.EvidenceResolver` promises.

    A subclass gives a fixture `resolver` of a session with the evidence in `EVIDENCE`, under these ids.
    """

    pytestmark = pytest.mark.anyio

    async def test_it_finds_the_whole_text(self, resolver: EvidenceResolver) -> None:
        for name, content in EVIDENCE.items():
            assert await resolver.resolve(name) == content
            assert await resolver.resolve(name, None) == content

    async def test_it_finds_the_part_that_is_named(self, resolver: EvidenceResolver) -> None:
        for (name, selector), part in PARTS.items():
            assert await resolver.resolve(name, selector) == part

    async def test_evidence_that_is_not_there_is_not_found(
        self, resolver: EvidenceResolver
    ) -> None:
        for selector in (None, "lines:1-1"):
            with pytest.raises(EvidenceNotFoundError):
                await resolver.resolve("of-nobody", selector)

    @pytest.mark.parametrize("selector", WRONG[1:])
    async def test_what_names_nothing_is_an_error(
        self, resolver: EvidenceResolver, selector: str
    ) -> None:
        with pytest.raises(SelectorResolveError):
            await resolver.resolve("lines", selector)
