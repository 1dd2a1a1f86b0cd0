"""One model call as a flat record, and what it is grouped by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ce_engine.errors import ConfigError


TAG = "tag:"
"""What a grouping by an A/B tag begins with; the tag's name follows."""

OWN = "(engine's own)"
"""Stands for the agent of a call that the engine made itself, to summarise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """What is recorded of one model call: numbers, names and ids, never content.

    Attributes:
        at: when it was prepared (UTC, ISO 8601); `""` where that is not known.
        sent: tokens of the input that went out, by our count.
        untouched: tokens that would have gone out without us; `None` where nobody can say.
        untouched_prefix: leading ones of them that are those of the lane's call before.
        put_in: by hand, those of `untouched` that are of rules and evidence of the app.
        beside: what that is: `app`, the app's own list, or `talk`, the whole talk sent each time.
        cause: why it costs more than without us, where it does.
        estimated: nobody told what was used: it is our count.
        prefix: leading tokens equal to those of the lane's call before; `None` on its first one.
        prompt: tokens of the input as the provider told; `None` where it did not.
        completion: tokens of the answer as the provider told, else 0.
        cached: how many of `prompt` the provider told to have had in its cache, if it did.
        from_cache: answered from the app's own cache: nothing was sent or spent.
        attempts: how often it was tried.
        evidence: ids of what its answer rests on, or was given.
        redacted: pieces in which something was redacted.
        degradations: codes, each once.
        counter: what counted `sent`, as `Report.estimator` has it.
    """

    session: str
    user: str = ""
    at: str = ""
    framework: str = ""
    model: str = ""
    provider: str = ""
    agent: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    status: str = ""
    sent: int = 0
    untouched: int | None = None
    untouched_prefix: int | None = None
    put_in: int = 0
    beside: str = ""
    cause: str = ""
    estimated: bool = False
    prefix: int | None = None
    prompt: int | None = None
    completion: int = 0
    cached: int | None = None
    from_cache: bool = False
    latency_ms: int | None = None
    first_token_ms: int | None = None
    attempts: int = 1
    left_out: int = 0
    shortened: int = 0
    over_budget: bool = False
    evidence: frozenset[str] = frozenset()
    redacted: frozenset[str] = frozenset()
    degradations: tuple[str, ...] = ()
    counter: str = ""
    tool_calls: int = 0
    tool_errors: int = 0

    @property
    def went_wrong(self) -> bool:
        """Whether anything did: whatever and however often, it is one call."""
        is_bad = self.status == "failed" or self.over_budget
        return is_bad or bool(self.tool_errors or self.degradations)


_FIELDS: dict[str, Callable[[CallRecord], str]] = {
    "framework": lambda call: call.framework,
    "model": lambda call: call.model,
    "agent": lambda call: call.agent,
    "session": lambda call: call.session,
}

GROUPINGS = (*_FIELDS, f"{TAG}NAME")


def grouping(by: str) -> Callable[[CallRecord], str]:
    """What gives the name of a call's group; `""` where the call has none.

    Args:
        by: `framework`, `model`, `agent`, `session`, or `tag:NAME` with the name of an A/B tag.

    Raises:
        ConfigError: it is none of these.
    """
    if by.startswith(TAG) and (name := by.removeprefix(TAG)):
        return lambda call: call.tags.get(name, "")
    if by not in _FIELDS:
        raise ConfigError(f"calls cannot be grouped by {by!r}; expected {', '.join(GROUPINGS)}")
    return _FIELDS[by]
