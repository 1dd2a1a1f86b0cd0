"""What the installed release of Haystack has."""

from __future__ import annotations

from importlib.metadata import version

from packaging.version import Version


HAYSTACK = Version(version("haystack-ai"))

HAS = {"compaction": Version("3.2") <= HAYSTACK, "mappings": Version("3.2") <= HAYSTACK}
"""What tests need, as in `@pytest.mark.needs("compaction")`.

compaction: a hook that asks a model to sum up what an agent sends.
mappings: inputs without a component's name that are mappings.
"""
