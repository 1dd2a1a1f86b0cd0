"""Texts of a megabyte through the mapper."""

from __future__ import annotations

from tests.adapters.haystack.natives import Haystack
from tests.adapters.long_texts import LongTextTests


class TestLongTexts(Haystack, LongTextTests):
    pass
