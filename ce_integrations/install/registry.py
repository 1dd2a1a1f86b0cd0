"""The adapters that are installed, found by the entry points `ce_integrations.adapters`."""

from __future__ import annotations

import logging
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from ce_engine import UnsupportedTargetError
from ce_integrations.install.adapter import Adapter
from ce_integrations.install.options import check_one


if TYPE_CHECKING:
    from ce_integrations.install.adapter import Installation

GROUP = "ce_integrations.adapters"

_logger = logging.getLogger("ce_integrations")


def load_adapters() -> dict[str, Adapter[Any, Any]]:
    """Load every adapter that is installed, by name; a broken one is reported and left out."""
    adapters: dict[str, Adapter[Any, Any]] = {}
    for point in entry_points(group=GROUP):
        try:
            adapter = point.load()
        except Exception as error:  # noqa: BLE001 - a stranger's module may fail in any way
            kind = type(error).__name__
            _logger.warning("the adapter %r (%s) is broken: %s", point.name, point.value, kind)
            continue
        if isinstance(adapter, Adapter):
            adapters[point.name] = adapter
        else:
            kind = type(adapter).__name__
            _logger.warning("the adapter %r (%s) is a %s", point.name, point.value, kind)
    return adapters


def install_ce(target: object, **options: Any) -> Installation[Any, Any]:
    """Install context engineering on an object of any framework; options as of each `install_ce`.

    Raises:
        UnsupportedTargetError: no installed adapter knows what to do with it.
    """
    adapters = load_adapters()
    for adapter in adapters.values():
        if adapter.accepts(target):
            return adapter.install_ce(target, **options)
    check_one(target)
    kind = type(target)
    raise UnsupportedTargetError(
        f"no adapter accepts a {kind.__module__}.{kind.__qualname__}; installed are: "
        f"{', '.join(sorted(adapters)) or 'none'}. Pass a model, chain or agent of one of these."
    )
