"""Whether what an adapter or a demo needs is installed, in a version that it knows."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

from ce_engine import MissingDependencyError, UnsupportedVersionError


def check_requirements(
    requires: tuple[str, ...], extra: str, versions: Mapping[str, str] | None = None
) -> None:
    """Compare what is installed with what is required (`versions`: other versions than those, by name).

    Without an `extra` of ours the framework itself is to be installed.

    Raises:
        MissingDependencyError: a distribution is not installed.
        UnsupportedVersionError: its version is outside the range.
    """
    from packaging.requirements import Requirement  # noqa: PLC0415 - only an installation needs it

    for text in requires:
        requirement = Requirement(text)
        cure = f"pip install 'ce-integrations[{extra}]'" if extra else f"pip install '{text}'"
        try:
            installed = (versions or {}).get(requirement.name) or version(requirement.name)
        except PackageNotFoundError:
            raise MissingDependencyError(
                f"{requirement.name} is not installed; expected {text}. Run: {cure}"
            ) from None
        if not requirement.specifier.contains(installed, prereleases=True):
            raise UnsupportedVersionError(
                f"{requirement.name} {installed} is installed; expected {text}. "
                f"Run: pip install '{text}'"
            )
