"""What tests of several frameworks share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ce_engine import ContextEngine, MemoryStore, create_context_engine


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore())
    yield made
    made.sync.close()
