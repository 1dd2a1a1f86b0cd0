"""Texts of a megabyte through the mapper."""

from __future__ import annotations

from tests.adapters.crewai.natives import CrewAI
from tests.adapters.long_texts import LongTextTests


class TestLongTexts(CrewAI, LongTextTests):
    pass
