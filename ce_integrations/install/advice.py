"""What is known to go wrong with a framework beside its versions, and the cure: `ce doctor` tells of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Protocol


class Advice(Protocol):
    """One thing that may be wrong; `about` names it in a word or two."""

    @property
    def about(self) -> str: ...

    @property
    def cure(self) -> str: ...

    def problem(self) -> str:
        """What is wrong here and now; `""` if nothing is."""
        ...


@dataclass(frozen=True, slots=True)
class OptionalPackage:
    """A package that a part of the framework needs, and that the framework does not bring.

    `part` is the subject of "needs": what does not work without it.
    """

    distribution: str
    part: str

    @property
    def about(self) -> str:
        return self.distribution

    @property
    def cure(self) -> str:
        return f"pip install {self.distribution}, if you use that"

    def problem(self) -> str:
        """That it is not installed."""
        try:
            version(self.distribution)
        except PackageNotFoundError:
            return f"{self.part} needs it, and it is not installed"
        return ""


@dataclass(frozen=True, slots=True)
class Telemetry:
    """What the framework sends to its makers unless one of `switches` is set: its name, and what turns it off.

    The first is the one to use, with its first value.
    """

    notice: str
    switches: tuple[tuple[str, tuple[str, ...]], ...]
    about: str = "telemetry"

    @property
    def cure(self) -> str:
        name, (value, *_) = self.switches[0]
        return f"Set {name}={value} before the framework is imported, if you do not want that"

    def problem(self) -> str:
        """That none of the switches is set."""
        is_off = any(_value(name) in values for name, values in self.switches)
        return "" if is_off else self.notice


@dataclass(frozen=True, slots=True)
class TooWide:
    """A variable that with these values does more than one would think: `effect`."""

    variable: str
    values: tuple[str, ...]
    effect: str
    cure: str

    @property
    def about(self) -> str:
        return self.variable

    def problem(self) -> str:
        """That it has one of them."""
        return self.effect if _value(self.variable) in self.values else ""


def _value(variable: str) -> str:
    return os.environ.get(variable, "").strip().lower()


_ON, _OFF = ("true", "1", "yes", "on"), ("false", "0")


KNOWN: dict[str, Sequence[Advice]] = {
    "crewai": (
        # crewai_core/telemetry.py of 1.15.30: an exporter and signal handlers are made at import.
        Telemetry(
            "crews send figures of their runs to telemetry.crewai.com",
            (
                ("CREWAI_DISABLE_TELEMETRY", _ON),
                ("CREWAI_DISABLE_TRACKING", _ON),
                ("OTEL_SDK_DISABLED", _ON),
            ),
        ),
        Telemetry(
            "a first run may ask on the terminal whether traces go to CrewAI, and waits for the answer",
            (("CREWAI_TRACING_ENABLED", (*_OFF, "true", "1")),),  # either is an answer
            about="tracing",
        ),
        TooWide(
            "OTEL_SDK_DISABLED",
            _ON,
            "it turns off CrewAI's telemetry, and with it all OpenTelemetry of the app",
            "Set CREWAI_DISABLE_TELEMETRY=true in its place",
        ),
    ),
    "haystack-ai": (
        Telemetry(
            "pipelines send figures of their runs to posthog.com, and importing makes ~/.haystack",
            (("HAYSTACK_TELEMETRY_ENABLED", _OFF),),
        ),
    ),
    "semantic-kernel": (
        # 1.45.0 imports google.protobuf in agents/runtime, and does not require it.
        OptionalPackage("protobuf", "agents' orchestration (SequentialOrchestration and others)"),
    ),
}
"""By the framework's distribution; adapters find theirs by what they require."""


def advice_for(distributions: Sequence[str]) -> tuple[Advice, ...]:
    """What is known of these distributions."""
    return tuple(item for name in distributions for item in KNOWN.get(name, ()))
