"""Texts of a megabyte through the mapper."""

from __future__ import annotations

from tests.adapters.long_texts import LongTextTests
from tests.adapters.semantic_kernel.natives import SemanticKernel


class TestLongTexts(SemanticKernel, LongTextTests):
    pass
