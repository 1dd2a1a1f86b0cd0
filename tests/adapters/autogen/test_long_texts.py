"""Texts of a megabyte through the mapper."""

from __future__ import annotations

from tests.adapters.autogen.natives import AutoGen
from tests.adapters.long_texts import LongTextTests


class TestLongTexts(AutoGen, LongTextTests):
    pass
