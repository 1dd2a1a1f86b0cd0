"""Texts of a megabyte through the mapper."""

from __future__ import annotations

from tests.adapters.langchain.natives import LangChain
from tests.adapters.long_texts import LongTextTests


class TestLongTexts(LangChain, LongTextTests):
    pass
