"""What a model call used, from the mappings in which providers and frameworks say it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ce_engine import Usage


__all__ = ["summed", "usage_of"]

_CACHED = frozenset({"cached_tokens", "cache_read"})
"""Of these none tells something, too: a provider that caches had nothing of this call."""

_KINDS = {"input": ("input", "prompt"), "output": ("output", "completion")}


def usage_of(fields: Mapping[str, Any] | None) -> Usage | None:
    """Read a usage in OpenAI's names, Anthropic's or LangChain's; `None` where nothing or none is told.

    Details keep their names, but for `audio`, which both directions have: `input_audio`.
    """
    if not fields:
        return None
    tokens: dict[str, int] = {}
    details: dict[str, int] = {}
    for kind, names in _KINDS.items():
        tokens[kind] = next((n for name in names if (n := fields.get(f"{name}_tokens"))), 0)
        for name in names:
            for plural in ("token", "tokens"):
                for part, n in (fields.get(f"{name}_{plural}_details") or {}).items():
                    if isinstance(n, int) and (n or part in _CACHED):
                        details[f"{kind}_audio" if part.startswith("audio") else part] = n
    total = fields.get("total_tokens") or tokens["input"] + tokens["output"]
    if not total:  # as of a stream for which nobody asked for it
        return None
    return Usage(tokens["input"], tokens["output"], total, details=details)


def summed(usages: Sequence[Usage]) -> Usage:
    """What several calls used together."""
    details: dict[str, int] = {}
    for usage in usages:
        for name, tokens in usage.details.items():
            details[name] = details.get(name, 0) + tokens
    return Usage(
        sum(usage.prompt_tokens for usage in usages),
        sum(usage.completion_tokens for usage in usages),
        sum(usage.total_tokens for usage in usages),
        estimated=any(usage.estimated for usage in usages),
        cached=all(usage.cached for usage in usages),
        details=details,
    )
