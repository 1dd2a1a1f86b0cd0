"""What the installed release of CrewAI has."""

from __future__ import annotations

from importlib.metadata import version

from packaging.version import Version


CREWAI = Version(version("crewai"))

HAS = {
    "preflight": Version("1.15.20") <= CREWAI,
    "failures": Version("1.15") <= CREWAI,
    "talks": Version("1.15") <= CREWAI,
    "trains": Version("1.15") <= CREWAI,
}
"""What tests need, as in `@pytest.mark.needs("preflight")`.

preflight: before each call it is asked whether the history fits, and it is summarised if it does not.
failures: what tools report as failed is told with their end.
trains: `Crew.train` runs; the agent's own executor lacks what it calls before.
talks: an agent that is asked alone goes on with a conversation, in the roles that its messages have.
"""
