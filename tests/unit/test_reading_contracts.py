"""What comes with the engine passes the suites of those who read: selectors, resolvers, models; faults do not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ce_engine import (
    EvidenceResolver,
    EvidenceSource,
    EvidenceType,
    LlmAdapter,
    LlmRequest,
    LlmResponse,
    MemoryStore,
    RefSelector,
    SchemaValidationError,
    Scope,
    SourceKind,
)
from ce_engine.schema.document import Evidence, EvidenceLinks
from ce_engine.testing import (
    EvidenceResolverContract,
    LlmAdapterContract,
    MockLlmAdapter,
    RefSelectorContract,
)
from ce_engine.testing.reading_contracts import EVIDENCE
from ce_engine.tracing import StoreResolver


pytestmark = pytest.mark.req("A-27")
SCOPE = Scope(session_id="s")


class TestRefSelector(RefSelectorContract):
    @pytest.fixture
    def ref_selector(self) -> RefSelector:
        return RefSelector()


class TestMockLlmAdapter(LlmAdapterContract):
    @pytest.fixture
    def llm_adapter(self) -> LlmAdapter:
        return MockLlmAdapter()


class TestStoreResolver(EvidenceResolverContract):
    @pytest.fixture
    async def resolver(self) -> EvidenceResolver:
        store = MemoryStore()
        for name, content in EVIDENCE.items():
            evidence = Evidence(
                evidence_id=name,
                type=EvidenceType.TOOL_RESULT,
                source=EvidenceSource(kind=SourceKind.TOOL, name="search"),
                content=content,
                links=EvidenceLinks(),
            )
            await store.put_evidence(SCOPE, evidence)
        return StoreResolver(store, SCOPE)


# What the suites are for


class Guesses:
    """A resolver that never says that it found nothing."""

    async def resolve(self, evidence_id: str, selector: str | None = None) -> str:
        del selector
        return EVIDENCE.get(evidence_id, "")


class Silent:
    """A model that answers nothing."""

    async def generate(self, request: LlmRequest) -> LlmResponse:
        del request
        return LlmResponse("  ", "m", 1, 2, 9)


class FromZero(RefSelector):
    """Lines that count from 0."""

    def extract(self, content: str, selector: str) -> str:
        if selector.startswith("lines:"):
            return content.split("\n")[int(selector[6])]
        return super().extract(content, selector)


@pytest.mark.anyio
async def test_faults_are_caught() -> None:
    resolves, models, selects = (
        EvidenceResolverContract(),
        LlmAdapterContract(),
        RefSelectorContract(),
    )
    with pytest.raises(pytest.fail.Exception):
        await resolves.test_evidence_that_is_not_there_is_not_found(Guesses())
    with pytest.raises(AssertionError):
        await resolves.test_it_finds_the_part_that_is_named(Guesses())
    with pytest.raises(AssertionError):
        await models.test_it_answers(Silent())
    with pytest.raises(AssertionError):
        await models.test_tokens_are_told_and_add_up(Silent())
    with pytest.raises(AssertionError):
        selects.test_it_finds_what_is_named(FromZero())


class Heading:
    def parse(self, argument: str) -> dict[str, Any]:
        return {"name": argument}

    def find(self, content: str, params: Mapping[str, Any]) -> list[Any]:
        del content, params
        return []


@pytest.mark.req("A-05")
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
