"""JSONPaths (RFC 9535) whose search `breathe`s at every step: it may rest, and ends where its time is up.

A path, or the data that it is asked of, may be made to be searched without end: filters in filters, each
with `..`. Nothing that comes out tells so; the search itself must look at its clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from jsonpath import JSONPath, JSONPathEnvironment, JSONPathMatch
from jsonpath.exceptions import JSONPathTypeError
from jsonpath.filter import FilterQuery, walk
from jsonpath.function_extensions import Match, Search
from jsonpath.segments import JSONPathRecursiveDescentSegment
from jsonpath.selectors import Filter, JSONPathSelector

from ce_engine.schema.expanded_pattern import is_large
from ce_engine.schema.time_limits import breathe, seconds_left


MAX_PATTERN = 1_000
"""Characters of a pattern, which may stand in the data."""
SEARCH_S = 0.2
"""How long one search of a pattern may take: a pattern that backtracks without end is given up."""


class TimedEnvironment(JSONPathEnvironment):
    """Compiles paths that breathe, and whose patterns have a limit."""

    def __init__(self) -> None:
        super().__init__(strict=True)
        self.function_extensions["match"] = _TimedMatch(thread_safe=True)
        self.function_extensions["search"] = _TimedSearch(thread_safe=True)

    def compile(self, path: str) -> Any:
        """See `JSONPathEnvironment.compile`."""
        compiled = super().compile(path)
        if isinstance(compiled, JSONPath):  # the others are not RFC 9535, and refused before
            _time(compiled)
        return compiled

    def is_truthy(self, obj: object) -> bool:
        """See `JSONPathEnvironment.is_truthy`; asked for each value that a filter looks at."""
        breathe()
        return super().is_truthy(obj)


def is_linear(path: Any) -> bool:
    """Whether a path looks at each value of the data a few times at most: no filter, one name a step, one `..`."""
    segments = path.segments
    descents = sum(isinstance(segment, JSONPathRecursiveDescentSegment) for segment in segments)
    is_named = all(len(segment.selectors) == 1 for segment in segments)
    return (
        descents <= 1 and is_named and not any(isinstance(s.selectors[0], Filter) for s in segments)
    )


def _time(path: JSONPath) -> None:
    """Make every selector of a path breathe, and of the paths in its filters."""
    for segment in path.segments:
        for selector in segment.selectors:
            if isinstance(selector, Filter):
                for expression in walk(selector.expression):
                    if isinstance(expression, FilterQuery):
                        _time(expression.path)
            if not getattr(selector, "is_timed", False):
                selector.__class__ = _timed(type(selector))


@cache
def _timed(kind: type[JSONPathSelector]) -> type[JSONPathSelector]:
    resolve: Callable[..., Iterable[JSONPathMatch]] = kind.resolve

    def timed(self: JSONPathSelector, node: JSONPathMatch) -> Iterable[JSONPathMatch]:
        breathe()
        for match in resolve(self, node):
            breathe()
            yield match

    return type(kind.__name__, (kind,), {"__slots__": (), "resolve": timed, "is_timed": True})


class _TimedMatch(Match):
    def __call__(self, value: object, pattern: object) -> bool:
        compiled = self.check_cache(_bounded(pattern)) if isinstance(pattern, str) else None
        return compiled is not None and _hits(compiled.fullmatch, value)


class _TimedSearch(Search):
    def __call__(self, value: object, pattern: object) -> bool:
        compiled = self.check_cache(_bounded(pattern)) if isinstance(pattern, str) else None
        return compiled is not None and _hits(compiled.search, value)


def _bounded(pattern: str) -> str:
    """The pattern, which may stand in the data as well as in the path."""
    if len(pattern) > MAX_PATTERN or is_large(pattern):
        raise JSONPathTypeError("the pattern is too large")
    return pattern


def _hits(search: Callable[..., object], value: object) -> bool:
    breathe()
    seconds = min(SEARCH_S, seconds_left() or SEARCH_S)
    return isinstance(value, str) and bool(search(value, timeout=seconds, concurrent=True))
