"""`fetch_evidence`: a tool by which an agent of any framework reads what was stored of its own session.

The tool knows neither engine nor session. Each run of a tool is told to our hooks as it begins, with whose it
is; the tool's function takes up the run that asked for its evidence. So one tool serves all of an app's users,
it can be made before anything is installed, and where nobody governs the run it finds nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ce_engine import EvidenceTool, Scope
from ce_integrations.identity.session import CallInfo, resolve
from ce_integrations.identity.user_around import user_around


if TYPE_CHECKING:
    from collections.abc import Hashable

    from ce_integrations.calls.hooks import Hooks

NAME = EvidenceTool.name
DESCRIPTION: str = EvidenceTool.schema["function"]["description"]
PARAMETERS: Mapping[str, Any] = EvidenceTool.schema["function"]["parameters"]

MAX_WAITING = 256
"""Runs that have begun and whose function was not called yet; the oldest are forgotten."""


@dataclass(frozen=True, slots=True)
class _Asked:
    hooks: Hooks[Any]
    scope: Scope
    args: str
    user: str | None


class _Waiting:
    """Runs of the tool that have begun, by an id of the run and its hooks."""

    def __init__(self) -> None:
        self._runs: dict[Hashable, _Asked] = {}
        self._lock = threading.Lock()

    def put(self, key: Hashable, run: _Asked) -> None:
        with self._lock:
            self._runs[key] = run
            while len(self._runs) > MAX_WAITING:
                del self._runs[next(iter(self._runs))]

    def forget(self, key: Hashable) -> None:
        with self._lock:
            self._runs.pop(key, None)

    def take(self, evidence_id: str) -> _Asked | None:
        """The run that asked for this; `None` where nobody did, or people who are not told apart."""
        here = user_around()
        with self._lock:
            runs = {
                key: entry
                for key, entry in self._runs.items()
                if evidence_id in entry.args and here in (None, entry.user, entry.scope.user_id)
            }
            if len({(id(entry.hooks.engine), entry.scope.key) for entry in runs.values()}) != 1:
                return None
            key, run = next(iter(runs.items()))
            del self._runs[key]
        return run if run.hooks.active else None


_waiting = _Waiting()


def begun(hooks: Hooks[Any], run_id: Hashable, name: str, args: object, info: CallInfo) -> None:
    """Note a tool's run, if it is one of `fetch_evidence`: whose it is."""
    if is_fetch(name):
        evidence_id = args.get("evidence_id", "") if isinstance(args, Mapping) else args
        scope = resolve(info, hooks.choice).scope
        _waiting.put((id(hooks), run_id), _Asked(hooks, scope, str(evidence_id), user_around()))


def ended(hooks: Hooks[Any], run_id: Hashable) -> None:
    """Forget a run that is over."""
    _waiting.forget((id(hooks), run_id))


def is_fetch(name: str) -> bool:
    """Whether this names the tool; some frameworks put a plugin's name before it."""
    return name == NAME or name.endswith((f"-{NAME}", f".{NAME}"))


def fetch_evidence(evidence_id: str, lines: str = "", find: str = "") -> str:
    """Read the whole text, or more lines, of an earlier result that is shown only in part.

    Args:
        evidence_id: The id of the evidence, as it stands in the text.
        lines: Only these lines, such as 10-40.
        find: Only lines that have one of these words.
    """
    run = _waiting.take(str(evidence_id))
    if run is not None:
        engine, config = run.hooks.engine, run.hooks.config
        with run.hooks.guard("fetch_evidence"):
            return engine.loop.run(
                engine.fetch_evidence(run.scope, evidence_id, lines, find, config)
            )
    return _nothing(evidence_id)


async def afetch_evidence(evidence_id: str, lines: str = "", find: str = "") -> str:
    """The same, awaited."""
    run = _waiting.take(str(evidence_id))
    if run is not None:
        engine, config = run.hooks.engine, run.hooks.config
        with run.hooks.guard("fetch_evidence"):
            return await engine.fetch_evidence(run.scope, evidence_id, lines, find, config)
    return _nothing(evidence_id)


def _nothing(evidence_id: str) -> str:
    return f"There is no evidence {str(evidence_id)[:80]} in this conversation."
