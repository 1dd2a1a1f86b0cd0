"""How constraints read: a fixed header, and a number for each (D-06)."""

from __future__ import annotations

from collections.abc import Sequence

from ce_engine.text.quote import one_line


_HEADERS = {
    "en": "[Constraints - must not be violated]",
    "zh": "[约束 - 不可违反]",
}


def render_constraints(texts: Sequence[str], locale: str = "en") -> str:
    """The constraints in their order, each on one line of its own; nothing without any.

    Line breaks in a text become spaces: no text can pass for a constraint that nobody made.
    """
    lines = [f"{n}. {one_line(text)}" for n, text in enumerate(texts, start=1)]
    return "\n".join([_HEADERS["zh" if locale.startswith("zh") else "en"], *lines]) if lines else ""
