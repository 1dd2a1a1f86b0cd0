"""JSONPaths (RFC 9535) in plain JSON data, within bounds of time: a path, or the data, may be made to be searched without end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from ce_engine.errors import SelectorResolveError
from ce_engine.schema.time_limits import TimeUpError, breathe, seconds_left, within


if TYPE_CHECKING:
    from jsonpath import JSONPath, JSONPathMatch

    from ce_engine.schema.timed_paths import TimedEnvironment


LOOKUP_S = 0.3
"""How long JSONPaths with filters or more than one `..` may take, all of one application together."""
LINEAR_S = 2.0
"""The same of a path without: it takes no longer than its text is long."""


Place = tuple[str | int, ...]


def json_locations(paths: Iterable[str], value: object) -> dict[Place, str]:
    """Where JSONPaths (RFC 9535) lead in plain JSON data, keys and indexes from the root on, with the last path that does.

    Raises:
        SelectorResolveError: one is no JSONPath, leads too deep, or takes too long.
        TimeUpError: the same, where the caller's own time is limited.
    """
    kinds: dict[float, list[str]] = {LINEAR_S: [], LOOKUP_S: []}
    for path in (ordered := list(paths)):
        kinds[seconds_for(path)].append(path)
    places: dict[str, list[Place]] = {}
    for path in kinds[LINEAR_S]:
        places |= _search([path], value, LINEAR_S)
    places |= _search(kinds[LOOKUP_S], value, LOOKUP_S)
    return {place: path for path in ordered for place in places[path]}


def _search(paths: Sequence[str], value: object, most: float) -> dict[str, list[Place]]:
    """Where each of some paths leads, which have so many seconds together."""
    from jsonpath import JSONPathError  # noqa: PLC0415 - slow to import, and rarely needed

    if not isinstance(
        value, dict | list
    ):  # a text is taken as JSON there, and others have no members
        return {path: [] for path in paths}
    try:
        with within(min(most, seconds_left() or most)):
            return {path: list(map(_parts, compiled(path).finditer(value))) for path in paths}
    except TimeUpError:
        if seconds_left() is not None:  # it was its caller's time
            raise
        raise SelectorResolveError(
            f"a path of {', '.join(paths)!r} takes too long in this data; name the members on the way, "
            "without `..` and filters in filters"
        ) from None
    except (JSONPathError, TimeoutError, RecursionError) as error:
        raise SelectorResolveError(
            f"a path of {', '.join(paths)!r} leads too deep or too far in this data; name the members on "
            "the way, without `..`"
        ) from error


def json_path(path: str) -> str:
    """The JSONPath that a field path means; a dotted one begins at the root.

    Raises:
        SelectorResolveError: it is none.
    """
    full = path if path.startswith("$") else f"$.{path}".replace("$.[", "$[")
    compiled(full)
    return full


@lru_cache(256)
def compiled(path: str) -> JSONPath:
    """The path, of which every step breathes.

    Raises:
        SelectorResolveError: it is none.
    """
    from jsonpath import JSONPathError  # noqa: PLC0415 - slow to import, and rarely needed

    try:
        query: JSONPath = _environment().compile(path)
    except JSONPathError as error:
        reason = error.args[0] if error.args else "malformed"  # its str() can fail
        raise SelectorResolveError(
            f"selector {f'json:{path}'!r} is no JSONPath (RFC 9535): {reason}. It begins "
            "with $, for example json:$.items[0].name"
        ) from error
    return query


@lru_cache(256)
def seconds_for(path: str) -> float:
    """How long the search of a path may take."""
    from ce_engine.schema.timed_paths import is_linear  # noqa: PLC0415 - slow to import

    return LINEAR_S if is_linear(compiled(path)) else LOOKUP_S


@cache
def _environment() -> TimedEnvironment:
    from ce_engine.schema.timed_paths import TimedEnvironment  # noqa: PLC0415 - slow to import

    return TimedEnvironment()


def _parts(match: JSONPathMatch) -> Place:
    breathe()
    return tuple(match.parts)
