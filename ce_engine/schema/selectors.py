"""Selectors: which part of a piece of evidence a ref points to (A-05)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

from ce_engine.errors import SchemaValidationError, SelectorResolveError
from ce_engine.schema.expanded_pattern import is_large
from ce_engine.schema.json_paths import LINEAR_S, LOOKUP_S, compiled, seconds_for
from ce_engine.schema.time_limits import TimeUpError, breathe, seconds_left, within


MAX_SELECTOR = 1_000
"""Characters of a selector."""
MAX_TEXT = 1_000_000
"""Characters of a text that `json` and `regex` look into; `lines` and `chars` have no bound."""
MAX_MATCHES = 1_000
SEARCH_S = 0.2
"""How long one search of a pattern may take: one that backtracks without end is given up; all parts have `LOOKUP_S`."""


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
        methods = [callable(getattr(kind, method, None)) for method in ("parse", "find")]
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
                kind_names = ", ".join(f"{name}:..." for name in self._kinds)
                raise SelectorResolveError(
                    f"selector {part!r} is of no known kind; known: {kind_names}"
                )
            parsed.append(ParsedSelector(name, kind.parse(argument)))
        return parsed

    def extract(self, content: str, selector: str) -> str:
        """The part of the text that the selector names; it is never empty.

        Raises:
            SelectorResolveError: the selector is malformed, or matches nothing.
        """
        spans: Sequence[TextSpan] = [TextSpan(0, len(content))]
        parts = self.parse(selector)
        most = LINEAR_S if all(map(_is_linear, parts)) else LOOKUP_S
        try:
            with within(min(most, seconds_left() or most)):
                for parsed in parts:
                    matches = self._kinds[parsed.type].find(content, parsed.params)
                    spans = list(_common(spans, _outermost(matches)))
        except TimeUpError as error:
            raise SelectorResolveError(
                f"selector {selector!r} was given up after {most} s; name lines, or fewer parts"
            ) from error
        texts = [content[s.start : s.end] if s.text is None else s.text for s in spans]
        if not texts:
            raise SelectorResolveError(
                f"selector {selector!r} matches nothing in a text of {len(content)} characters and "
                f"{content.count(chr(10)) + 1} lines. See that it was made for this text; lines "
                "count from 1, characters from 0."
            )
        return "\n".join(texts)


def _is_linear(part: ParsedSelector) -> bool:
    """Whether it takes no longer than the text is long."""
    if part.type == "json":
        return seconds_for(part.params["path"]) == LINEAR_S
    return part.type in ("lines", "chars")


def _outermost(spans: Iterable[TextSpan]) -> list[TextSpan]:
    """The spans in order, without those that lie in another one."""
    outer: list[TextSpan] = []
    for span in sorted(spans, key=lambda s: (s.start, -s.end)):
        if not outer or span.end > outer[-1].end:
            outer.append(span)
    return outer


def _common(left: Sequence[TextSpan], right: Sequence[TextSpan]) -> Iterator[TextSpan]:
    """What lies in both; a span that is kept whole keeps its `text`. Both are in order."""
    i = j = 0
    while i < len(left) and j < len(right):
        a, b = left[i], right[j]
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
            if is_large(argument):
                raise SelectorResolveError(
                    f"selector {f'regex:{argument}'!r} repeats so much that it cannot be compiled; leave "
                    "out repeats of repeats such as (a{99}){99}, or name lines"
                )
            regex.compile(argument)
        except (regex.error, RecursionError) as error:
            raise SelectorResolveError(
                f"selector {f'regex:{argument}'!r} is no regular expression: {error}"
            ) from error
        return {"pattern": argument}

    def find(self, content: str, params: Mapping[str, Any]) -> list[TextSpan]:
        import regex  # noqa: PLC0415 - as above

        _check_size("regex", content)
        pattern, seconds = params["pattern"], min(SEARCH_S, seconds_left() or SEARCH_S)
        try:
            matches = regex.finditer(pattern, content, timeout=seconds, concurrent=True)
            return _bounded(TextSpan(*match.span()) for match in matches)
        except TimeoutError as error:
            raise SelectorResolveError(
                f"selector {f'regex:{pattern}'!r} was given up after {seconds:.1f} s; avoid repeats "
                "within repeats such as (a|aa)+, or name lines"
            ) from error


class _Json:
    def parse(self, argument: str) -> dict[str, Any]:
        compiled(argument)
        return {"path": argument}

    def find(self, content: str, params: Mapping[str, Any]) -> list[TextSpan]:
        from jsonpath import JSONPathError  # noqa: PLC0415 - as above

        _check_size("json", content)
        path = params["path"]
        try:
            value = json.loads(content)
            place = _Places(content)
            most = seconds_for(path)
            with within(min(most, seconds_left() or most)):
                matches = compiled(path).finditer(content if isinstance(value, str) else value)
                return _bounded(place.span(match.parts, match.obj) for match in matches)
        except (JSONPathError, TimeoutError, RecursionError) as error:
            raise SelectorResolveError(
                f"selector {f'json:{path}'!r} leads too deep or too far in this text; name the "
                "members on the way, without `..` and filters in filters"
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
        members: dict[str | int, int] = {}
        is_object = self._text[start] == "{"
        at = self._skip(start + 1)
        while self._text[at] not in "]}":
            breathe()
            key: str | int = len(members)
            if is_object:
                key, at = self._decode(self._text, at)
                at = self._skip(self._skip(at) + 1)
            members[key] = at
            at = self._skip(self._decode(self._text, at)[1])
            if self._text[at] == ",":
                at = self._skip(at + 1)
        return members

    def _skip(self, at: int) -> int:
        while at < len(self._text) and self._text[at] in " \t\r\n":
            at += 1
        return at


def _check_size(name: str, content: str) -> None:
    if len(content) > MAX_TEXT:
        raise SelectorResolveError(
            f"{name} selectors look into texts of at most {MAX_TEXT:,} characters; this one has "
            f"{len(content):,}. Use lines or chars."
        )


def _bounded(spans: Iterable[TextSpan]) -> list[TextSpan]:
    matches = list(islice(spans, MAX_MATCHES + 1))
    if len(matches) > MAX_MATCHES:
        raise SelectorResolveError(
            f"the selector matches at more than {MAX_MATCHES:,} places; name fewer"
        )
    return matches


KINDS: Mapping[str, SelectorKind] = {
    "lines": _Lines(),
    "chars": _Chars(),
    "json": _Json(),
    "regex": _Regex(),
}
"""The kinds that every selector knows."""
