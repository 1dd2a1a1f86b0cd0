"""What tests of the redactor share: an engine on disk, and all places where a canary may not be."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ce_engine import ContextEngine, Report, RuntimeConfig, StoreConfig, create_context_engine
from tests.canary.canaries import Canaries


KIND = "mail"
"""The one that also stands in names: they are ASCII."""


@dataclass(frozen=True)
class Places:
    """Where words end that an app says: the store, events, reports, logs, output."""

    engine: ContextEngine
    folder: Path
    caplog: pytest.LogCaptureFixture
    capfd: pytest.CaptureFixture[str]
    told: list[str] = field(default_factory=list)

    def stored(self) -> list[bytes]:
        return [path.read_bytes() for path in self.folder.glob("ce.db*")]

    def judge(self, canary: Canaries, report: Report | None) -> None:
        """No canary is anywhere, now that the app is done; closes the engine."""
        assert report is not None
        assert self.engine.sync.flush()
        stored = self.stored()
        assert any(b"[EMAIL_" in data for data in stored)
        self.engine.sync.close()
        stored += self.stored()
        ours = [repr(vars(r)) for r in self.caplog.records if r.name.startswith("ce_")]
        left = {
            "store": canary.found_in(*stored),
            "events": canary.found_in(*self.told),
            "report": canary.found_in(report.model_dump_json()),
            "logs": canary.found_in(*ours),
            "output": canary.found_in(*self.capfd.readouterr()),
        }
        assert self.told
        assert {place: doors for place, doors in left.items() if doors} == {}


class CanaryTests:
    """A framework's test lets its app tell canaries, and has `places` judged."""

    @pytest.fixture
    def engine(self, tmp_path: Path) -> Iterator[ContextEngine]:
        config = RuntimeConfig(store=StoreConfig(deadline_s=20))
        made = create_context_engine(f"sqlite:///{tmp_path / 'ce.db'}", config=config)
        yield made
        made.sync.close()

    @pytest.fixture
    def canary(self) -> Canaries:
        return Canaries(3, KIND)

    @pytest.fixture
    def places(
        self,
        engine: ContextEngine,
        tmp_path: Path,
        caplog: pytest.LogCaptureFixture,
        capfd: pytest.CaptureFixture[str],
    ) -> Places:
        for name in ("ce_engine", "ce_integrations"):
            caplog.set_level(logging.DEBUG, name)
        places = Places(engine, tmp_path, caplog, capfd)
        engine.bus.on_all(lambda event: places.told.append(event.model_dump_json()))
        return places
