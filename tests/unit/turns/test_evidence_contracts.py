"""The suites of selectors and resolvers: our own parts keep them, and faults do not (A-27)."""

from __future__ import annotations

import pytest

from ce_engine import (
    EvidenceResolver,
    EvidenceSource,
    EvidenceType,
    MemoryStore,
    RefSelector,
    Scope,
    SourceKind,
)
from ce_engine.audit.trace import StoreResolver
from ce_engine.schema.document import Evidence, EvidenceLinks
from ce_engine.testing import EvidenceResolverContract, RefSelectorContract
from ce_engine.testing.evidence_contracts import EVIDENCE


pytestmark = pytest.mark.req("A-27")
SCOPE = Scope(session_id="s")


class TestRefSelector(RefSelectorContract):
    @pytest.fixture
    def ref_selector(self) -> RefSelector:
        return RefSelector()


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


class FromZero(RefSelector):
    """Lines that count from 0."""

    def extract(self, content: str, selector: str) -> str:
        if selector.startswith("lines:"):
            return content.split("\n")[int(selector[6])]
        return super().extract(content, selector)


@pytest.mark.anyio
async def test_faults_are_caught() -> None:
    resolves, selects = EvidenceResolverContract(), RefSelectorContract()
    with pytest.raises(pytest.fail.Exception):
        await resolves.test_evidence_that_is_not_there_is_not_found(Guesses())
    with pytest.raises(AssertionError):
        await resolves.test_it_finds_the_part_that_is_named(Guesses())
    with pytest.raises(AssertionError):
        selects.test_it_finds_what_is_named(FromZero())
