"""CrewAI at home where its tests are: it calls nobody else, and keeps its files apart."""

from __future__ import annotations

import os
from tempfile import TemporaryDirectory


# Read when it is imported: what it would tell its makers, and what it would fetch.
os.environ.update(
    {
        "CREWAI_DISABLE_TELEMETRY": "true",
        "CREWAI_DISABLE_TRACKING": "true",
        "CREWAI_DISABLE_VERSION_CHECK": "true",
        "CREWAI_TRACING_ENABLED": "false",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }
)


class Home:
    """A folder of its own for a process that is no test: many at once share no database."""

    def __init__(self) -> None:
        self._folder = TemporaryDirectory()
        self._before = os.environ.get("CREWAI_STORAGE_DIR")
        os.environ["CREWAI_STORAGE_DIR"] = self._folder.name

    def leave(self) -> None:
        if self._before is None:
            del os.environ["CREWAI_STORAGE_DIR"]
        else:
            os.environ["CREWAI_STORAGE_DIR"] = self._before
        self._folder.cleanup()
