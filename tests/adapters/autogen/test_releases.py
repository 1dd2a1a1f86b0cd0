"""What tests need is what the installed release has, by its version."""

from __future__ import annotations

from importlib.metadata import version

import pytest
from packaging.requirements import Requirement

from tests.adapters.autogen.releases import HAS, NEEDS


@pytest.mark.parametrize("need", sorted(NEEDS))
def test_a_release_has_what_its_version_says(need: str) -> None:
    since = Requirement(NEEDS[need][0])
    assert HAS[need] == since.specifier.contains(version(since.name), prereleases=True)
