"""Selectors: which part of a piece of evidence a ref points to (A-05)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from ce_engine.errors import SchemaValidationError, SelectorResolveError
from ce_engine.schema.time_limits import TimeUpError, breathe, seconds_left, within


if TYPE_CHECKING:
    from jsonpath import CompoundJSONPath, JSONPath, JSONPathEnvironment, JSONPathMatch


MAX_SELECTOR = 1_000
"""Characters of a selector."""
MAX_TEXT = 1_000_000
"""Characters of a text that `json` and `regex` look into; `lines` and `chars` have no bound."""
MAX_MATCHES = 1_000
SEARCH_S = 0.2
"""How long one search of a pattern may take: a pattern that backtracks without end is given up."""
LOOKUP_S = 2.0
"""How long a JSONPath may take, with all of its searches."""


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A part of a text by its offsets in characters, `end` excluded.

    `text` is what the part says if it is taken whole, where that is not what stands there: the
    value of a JSON string without its escapes.
    """

    start: int
    end: int
    text: str | None = None


@dataclass(frozen=True, slots=True)
class ParsedSelector:
    """One selector of a combination, e.g. `lines` with `{"from": 12, "to": 18}`."""

    type: str
    params: dict[str, Any]


class SelectorKind(Protocol):
    """A kind of selector; both methods are pure and raise `SelectorResolveError`."""

    def parse(self, argument: str) -> dict[str, Any]:
        """Read what stands behind `kind:`."""
        ...

    def find(self, content: str, params: Mapping[str, Any]) -> Iterable[TextSpan]:
        """The parts of the text that are meant."""
        ...


class RefSelector:
    r"""Takes out of a text the part that a selector names.

    | selector | means |
    |---|---|
    | `lines:12-18` | lines by number, from 1, both included |
    | `chars:120-260` | characters by offset, from 0, the last one excluded |
    | `json:$.items[0].name` | the values that a JSONPath (RFC 9535) finds |
    | `regex:def\s+\w+` | all matches of a pattern |

    Several, with commas between, mean what lies in all of them, by offsets in the original text. A
    comma divides only where a known kind and a colon follow; inside a pattern write `[,]` there.
    Parts come in the order of the text, a line for each. An end behind the text's end is its end.
    """

    def __init__(self) -> None:
        self._kinds: dict[str, SelectorKind] = dict(KINDS)

    def register(self, name: str, kind: SelectorKind) -> None:
        """Add a kind, or replace one; `name` is a word in small letters, else `SchemaValidationError`."""
        methods = [callable(getattr(kind, each, None)) for each in ("parse", "find")]
        if not re.fullmatch("[a-z]+", name) or isinstance(kind, type) or not all(methods):
            raise SchemaValidationError(
                "a kind of selector has a name in small letters, such as 'xpath', and is an object with "
                f"parse(argument) and find(content, params); found {name!r}, {kind!r}"
            )
        self._kinds[name] = kind

    def parse(self, selector: str) -> list[ParsedSelector]:
        """Read a selector.

        Raises:
            SelectorResolveError: it is malformed.
        """
        if len(selector) > MAX_SELECTOR:
            raise SelectorResolveError(
                f"the selector has {len(selector)} characters; at most {MAX_SELECTOR} are read"
            )
        names = "|".join(map(re.escape, sorted(self._kinds)))
        parsed = []
        for part in re.split(rf",\s*(?=(?:{names}):)", selector):
            name, colon, argument = part.partition(":")
            kind = self._kinds.get(name) if colon else None
            if kind is None:
                known = ", ".join(f"{name}:..." for name in self._kinds)
                raise SelectorResolveError(f"selector {part!r} is of no known kind; known: {known}")
            parsed.append(ParsedSelector(name, kind.parse(argument)))
        return parsed

    def extract(self, content: str, selector: str) -> str:
        """The part of the text that the selector names; it is never empty.

        Raises:
            SelectorResolveError: the selector is malformed, or matches nothing.
        """
        spans: Sequence[TextSpan] = [TextSpan(0, len(content))]
        for parsed in self.parse(selector):
            found = self._kinds[parsed.type].find(content, parsed.params)
            spans = list(_common(spans, _outermost(found)))
        texts = [content[s.start : s.end] if s.text is None else s.text for s in spans]
        if not texts:
            raise SelectorResolveError(
                f"selector {selector!r} matches nothing in a text of {len(content)} characters and "
                f"{content.count(chr(10)) + 1} lines. See that it was made for this text; lines "
                "count from 1, characters from 0."
            )
        return "\n".join(texts)


def _outermost(spans: Iterable[TextSpan]) -> list[TextSpan]:
    """The spans in order, without those that lie in another one."""
    kept: list[TextSpan] = []
    for span in sorted(spans, key=lambda s: (s.start, -s.end)):
        if not kept or span.end > kept[-1].end:
            kept.append(span)
    return kept


def _common(ours: Sequence[TextSpan], theirs: Sequence[TextSpan]) -> Iterator[TextSpan]:
    """What lies in both; a span that is kept whole keeps its `text`. Both are in order."""
    i = j = 0
    while i < len(ours) and j < len(theirs):
        a, b = ours[i], theirs[j]
        start, end = max(a.start, b.start), min(a.end, b.end)
        if start < end:
            whole = (s.text for s in (a, b) if (s.start, s.end) == (start, end))
            yield TextSpan(start, end, next((text for text in whole if text is not None), None))
        i, j = (i + 1, j) if a.end <= b.end else (i, j + 1)


class _Lines:
    def parse(self, argument: str) -> dict[str, Any]:
        return _range("lines", argument, least=1)

    def find(self, content: str, params: Mapping[str, Any]) -> Iterator[TextSpan]:
        start = 0
        for _ in range(params["from"] - 1):
            start = content.find("\n", start) + 1
            if not start:
                return
        end = start - 1
        for _ in range(params["to"] - params["from"] + 1):
            end = content.find("\n", end + 1)
            if end < 0:
                end = len(content)
                break
        yield TextSpan(start, end - content.endswith("\r", start, end))


class _Chars:
    def parse(self, argument: str) -> dict[str, Any]:
        return _range("chars", argument, least=0)

    def find(self, content: str, params: Mapping[str, Any]) -> Iterator[TextSpan]:
        yield TextSpan(min(params["from"], len(content)), min(params["to"], len(content)))


def _range(name: str, argument: str, *, least: int) -> dict[str, Any]:
    ends = re.fullmatch("([0-9]{1,15})-([0-9]{1,15})", argument)
    start, end = (int(ends[1]), int(ends[2])) if ends else (0, 0)
    if ends is None or start < least or end < start + 1 - least:
        raise SelectorResolveError(
            f"selector {f'{name}:{argument}'!r} names no range; expected {name}:FROM-TO, with "
            f"numbers from {least} on, for example {name}:{least}-{least + 9}"
        )
    return {"from": start, "to": end}


class _Regex:
    def parse(self, argument: str) -> dict[str, Any]:
        import regex  # noqa: PLC0415 - slow to import, and rarely needed

        try:
            regex.compile(argument)
        except (regex.error, RecursionError) as error:
            raise SelectorResolveError(
                f"selector {f'regex:{argument}'!r} is no regular expression: {error}"
            ) from error
        return {"pattern": argument}

    def find(self, content: str, params: Mapping[str, Any]) -> list[TextSpan]:
        import regex  # noqa: PLC0415 - as above

        _check_size("regex", content)
        pattern = params["pattern"]
        try:
            matches = regex.finditer(pattern, content, timeout=SEARCH_S, concurrent=True)
            return _bounded(TextSpan(*match.span()) for match in matches)
        except TimeoutError as error:
            raise SelectorResolveError(
                f"selector {f'regex:{pattern}'!r} was given up after {SEARCH_S} s; avoid repeats "
                "within repeats such as (a|aa)+, or name lines"
            ) from error


class _Json:
    def parse(self, argument: str) -> dict[str, Any]:
        from jsonpath import JSONPathError  # noqa: PLC0415 - slow to import, and rarely needed

        try:
            _environment().compile(argument)
        except JSONPathError as error:
            reason = error.args[0] if error.args else "malformed"  # its str() can fail
            raise SelectorResolveError(
                f"selector {f'json:{argument}'!r} is no JSONPath (RFC 9535): {reason}. It begins "
                "with $, for example json:$.items[0].name"
            ) from error
        return {"path": argument}

    def find(self, content: str, params: Mapping[str, Any]) -> list[TextSpan]:
        from jsonpath import JSONPathError  # noqa: PLC0415 - as above

        _check_size("json", content)
        path = params["path"]
        try:
            value = json.loads(content)
            place = _Places(content)
            with within(min(LOOKUP_S, seconds_left() or LOOKUP_S)):
                matches = _environment().finditer(
                    path, content if isinstance(value, str) else value
                )
                return _bounded(place.span(match.parts, match.obj) for match in matches)
        except (JSONPathError, TimeoutError, RecursionError) as error:
            raise SelectorResolveError(
                f"selector {f'json:{path}'!r} leads too deep or too far in this text; name the "
                "members on the way, without `..`"
            ) from error
        except ValueError as error:
            raise SelectorResolveError(
                f"selector {f'json:{path}'!r} needs a text that is JSON, and this is none "
                f"({type(error).__name__}); use lines, chars or regex"
            ) from error


class _Places:
    """Where the values of a JSON text stand in it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._decode = json.JSONDecoder().raw_decode
        self._known: dict[int, dict[str | int, int]] = {}

    def span(self, parts: Sequence[str | int], value: object) -> TextSpan:
        """Where the value at this location stands; of a string, what is between its quotes."""
        breathe()
        start = self._skip(0)
        for part in parts:
            if start not in self._known:
                self._known[start] = self._members(start)
            start = self._known[start][part]
        end = self._decode(self._text, start)[1]
        return (
            TextSpan(start + 1, end - 1, value) if isinstance(value, str) else TextSpan(start, end)
        )

    def _members(self, start: int) -> dict[str | int, int]:
        """Key or index -> where the value begins; of equal keys the last one counts, as in `json`."""
        found: dict[str | int, int] = {}
        named = self._text[start] == "{"
        at = self._skip(start + 1)
        while self._text[at] not in "]}":
            breathe()
            key: str | int = len(found)
            if named:
                key, at = self._decode(self._text, at)
                at = self._skip(self._skip(at) + 1)
            found[key] = at
            at = self._skip(self._decode(self._text, at)[1])
            if self._text[at] == ",":
                at = self._skip(at + 1)
        return found

    def _skip(self, at: int) -> int:
        while at < len(self._text) and self._text[at] in " \t\r\n":
            at += 1
        return at


def json_locations(path: str, value: object) -> list[tuple[str | int, ...]]:
    """Where a JSONPath (RFC 9535) leads in plain JSON data: keys and indexes from the root on.

    Raises:
        SelectorResolveError: it is no JSONPath, or leads too deep.
    """
    from jsonpath import JSONPathError  # noqa: PLC0415 - slow to import, and rarely needed

    compiled = _compiled(path)
    try:
        # A text is taken as JSON there, and what is no container has no members.
        found = compiled.finditer(value) if isinstance(value, dict | list) else ()
        with within(min(LOOKUP_S, seconds_left() or LOOKUP_S)):
            return [_parts(match) for match in found]
    except TimeUpError:
        if seconds_left() is not None:  # it was its caller's time
            raise
        raise SelectorResolveError(f"path {path!r} takes too long in this data") from None
    except (JSONPathError, TimeoutError, RecursionError) as error:
        raise SelectorResolveError(
            f"path {path!r} leads too deep in this data; name the members on the way, without `..`"
        ) from error


def json_path(path: str) -> str:
    """The JSONPath that a field path means; a dotted one begins at the root.

    Raises:
        SelectorResolveError: it is none.
    """
    full = path if path.startswith("$") else f"$.{path}".replace("$.[", "$[")
    _compiled(full)
    return full


@lru_cache(256)
def _compiled(path: str) -> JSONPath | CompoundJSONPath:
    KINDS["json"].parse(path)
    return _environment().compile(path)


@cache
def _environment() -> JSONPathEnvironment:
    from jsonpath import JSONPathEnvironment  # noqa: PLC0415 - slow to import, and rarely needed
    from jsonpath.function_extensions import Match, Search  # noqa: PLC0415 - as above

    class TimedMatch(Match):
        def __call__(self, value: object, pattern: object) -> bool:
            compiled = self.check_cache(pattern) if isinstance(pattern, str) else None
            return compiled is not None and _hits(compiled.fullmatch, value)

    class TimedSearch(Search):
        def __call__(self, value: object, pattern: object) -> bool:
            compiled = self.check_cache(pattern) if isinstance(pattern, str) else None
            return compiled is not None and _hits(compiled.search, value)

    environment = JSONPathEnvironment(strict=True)
    environment.function_extensions["match"] = TimedMatch(thread_safe=True)
    environment.function_extensions["search"] = TimedSearch(thread_safe=True)
    return environment


def _hits(search: Callable[..., object], value: object) -> bool:
    breathe()
    seconds = min(SEARCH_S, seconds_left() or SEARCH_S)
    return isinstance(value, str) and bool(search(value, timeout=seconds, concurrent=True))


def _parts(match: JSONPathMatch) -> tuple[str | int, ...]:
    breathe()
    return tuple(match.parts)


def _check_size(name: str, content: str) -> None:
    if len(content) > MAX_TEXT:
        raise SelectorResolveError(
            f"{name} selectors look into texts of at most {MAX_TEXT:,} characters; this one has "
            f"{len(content):,}. Use lines or chars."
        )


def _bounded(spans: Iterable[TextSpan]) -> list[TextSpan]:
    found = list(islice(spans, MAX_MATCHES + 1))
    if len(found) > MAX_MATCHES:
        raise SelectorResolveError(
            f"the selector matches at more than {MAX_MATCHES:,} places; name fewer"
        )
    return found


KINDS: Mapping[str, SelectorKind] = {
    "lines": _Lines(),
    "chars": _Chars(),
    "json": _Json(),
    "regex": _Regex(),
}
"""The kinds that every selector knows."""
