"""The contract suite for adapters, and `Wire`, a model server on loopback that records requests."""

from __future__ import annotations

import sys
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from ce_integrations.testing.adapter_contract import AdapterContract
    from ce_integrations.testing.answers import text, tool_calls
    from ce_integrations.testing.framework_apps import (
        MODEL,
        SYSTEM,
        Page,
        Surface,
        Tool,
        in_session,
    )
    from ce_integrations.testing.wire import Wire

__all__ = [
    "MODEL",
    "SYSTEM",
    "AdapterContract",
    "Page",
    "Surface",
    "Tool",
    "Wire",
    "in_session",
    "text",
    "tool_calls",
]

_HOMES = {
    "AdapterContract": "adapter_contract",
    "Wire": "wire",
    "text": "answers",
    "tool_calls": "answers",
}

if "pytest" in sys.modules:  # so that a test that fails shows what it compared
    sys.modules["pytest"].register_assert_rewrite(
        *(f"{__name__}.{module.name}" for module in iter_modules(__path__))
    )


def __getattr__(name: str) -> object:
    """Load what is asked for: the suite needs the test tools, the server does not."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = import_module(f"{__name__}.{_HOMES.get(name, 'framework_apps')}")
    return getattr(home, name)
