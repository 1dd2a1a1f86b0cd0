"""Ways to ask a model of Haystack, for the contract suite: its own methods, and what asks it in their place."""

from __future__ import annotations

from typing import Any

from ce_integrations.testing.framework_apps import Surface


SURFACES: dict[str, Surface] = {}
_: Any = None
