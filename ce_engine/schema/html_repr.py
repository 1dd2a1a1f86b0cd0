"""How a notebook shows a value: what is drawn of it is an app's, and is only looked for when it is wanted."""

from __future__ import annotations

from importlib import import_module


DRAWING = "ce_engine.apps.notebook"
"""Named, not imported: a value knows no app, and costs nothing where nobody draws it."""


class HtmlRepr:
    """Mixed into a value of which `ce_engine.apps.notebook` draws a picture."""

    def _repr_html_(self) -> str:
        """What a notebook shows: HTML without a script, everything escaped."""
        drawn: str = import_module(DRAWING).html_of(self)
        return drawn
