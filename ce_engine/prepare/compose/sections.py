"""How the sections of what is brought in read, and what they cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ce_engine.config import RuntimeConfig
from ce_engine.prepare.blocks.constraints import render_constraints
from ce_engine.prepare.blocks.material import Material
from ce_engine.prepare.compose.compose import SYSTEM, texts_of
from ce_engine.prepare.compose.render import rules, section
from ce_engine.schema.settings import CONSTRAINTS
from ce_engine.text.quote import quote


FRAMING = 8
"""Tokens that a new message or a join may cost beyond its text; an upper bound."""


class Sections:
    """Renders and counts for one configuration; `count` gives the tokens of a text."""

    def __init__(self, config: RuntimeConfig, count: Callable[[str], int]) -> None:
        self.count = count
        self.locale = config.locale
        self._config = config
        self._fence = count(quote("|", config.locale))

    def text(self, name: str, items: Sequence[Material]) -> str:
        """A section's text; constraints have a form of their own (D-06), and rules are no data."""
        locale = self._config.locale
        if name not in SYSTEM:
            return section(name, items, locale)
        constraints = render_constraints([m.text for m in items if m.source == CONSTRAINTS], locale)
        return rules(constraints, [m.text for m in items if m.source != CONSTRAINTS], locale)

    def around(self, contexts: Mapping[str, str]) -> int:
        """What the places where contexts go out cost beside their text."""
        texts = texts_of(contexts, self._config.placement, self._config.locale)
        return texts.quotes * (self._fence + FRAMING) + bool(texts.rules) * FRAMING
