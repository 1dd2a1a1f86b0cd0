"""What tests need is what the installed release has, by its version."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

import pytest
from packaging.requirements import Requirement

from tests.adapters.langchain.releases import HAS, NEEDS


def installed(requirement: Requirement) -> bool:
    try:
        return requirement.specifier.contains(version(requirement.name), prereleases=True)
    except PackageNotFoundError:
        return False


@pytest.mark.parametrize("need", sorted(NEEDS))
def test_a_release_has_what_its_version_says(need: str) -> None:
    since, _ = NEEDS[need]
    assert HAS[need] == installed(Requirement(since))
