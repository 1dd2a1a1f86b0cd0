"""Redacts nested data in one pass: keys, strings and numbers, each under the key that may label it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from ce_engine.errors import RedactionError
from ce_engine.text.redaction.labelled import sensitive_key
from ce_engine.text.redaction.placeholders import Numbering


MAX_DEPTH = 1000

_Visit = tuple[Any, Any, Any, str, int]
"""A value, the new container and the place in it, the key that labels it, the depth."""


class _Done(Protocol):
    @property
    def text(self) -> str: ...

    @property
    def rules(self) -> tuple[str, ...]: ...

    @property
    def count(self) -> int: ...


class FieldRedactor(Protocol):
    """What redacts the text of one leaf."""

    def redact_paths(self, value: Any, numbering: Numbering, locale: str) -> tuple[Any, list[str]]:
        """Replace what the field paths lead to."""
        ...

    def redact_field(self, key: str, text: str, numbering: Numbering, locale: str) -> _Done:
        """Replace in a text that stands under `key`."""
        ...

    def is_placeholder(self, text: str) -> bool:
        """Say whether the text is one placeholder and nothing else."""
        ...


class JsonWalk:
    """One pass over nested data, without recursion: it may be nested as deep as it likes."""

    def __init__(self, redactor: FieldRedactor, numbering: Numbering, locale: str) -> None:
        self._redactor, self._numbering, self._locale = redactor, numbering, locale
        self.count = 0
        self.rules: dict[str, None] = {}

    def without_fields(self, value: Any) -> Any:
        """The value without what the field paths lead to."""
        fresh, hits = self._redactor.redact_paths(value, self._numbering, self._locale)
        self.count += len(hits)
        self.rules |= dict.fromkeys(hits)
        return fresh

    def run(self, value: Any) -> Any:
        root = [value]
        todo: list[_Visit] = [(value, root, 0, "", 0)]
        while todo:
            item, parent, place, key, depth = todo.pop()
            if depth > MAX_DEPTH:
                raise RedactionError(
                    f"the data is nested deeper than {MAX_DEPTH} levels, or holds itself: flatten it"
                )
            if isinstance(item, Mapping):
                fresh: dict[Any, Any] = {}
                parent[place] = fresh
                children: list[_Visit] = [
                    (v, fresh, k, k if isinstance(k, str) else "", depth + 1)
                    for k, v in self._keyed(item)
                ]
            elif isinstance(item, list | tuple):
                places: list[Any] = [None] * len(item)
                parent[place] = places
                children = [(v, places, at, key, depth + 1) for at, v in enumerate(item)]
            else:
                parent[place] = self._leaf(item, key)
                continue
            todo.extend(reversed(children))
        return root[0]

    def _keyed(self, item: Mapping[Any, Any]) -> Iterator[tuple[Any, Any]]:
        taken: set[Any] = set()
        for key, value in item.items():
            name = self._leaf(key, "")
            while name in taken:
                name = f"{name}'"  # two spellings of one value: neither entry may be lost
            taken.add(name)
            yield name, value

    def _leaf(self, item: Any, key: str) -> Any:
        if item is None or isinstance(item, bool):
            return item
        if not isinstance(item, str | int | float):
            raise RedactionError(
                f"{type(item).__name__!r} is no JSON value: hand over dict, list, str, int, float, bool "
                "or None, for instance by json.loads(json.dumps(value, default=str))"
            )
        text = item if isinstance(item, str) else _spelled(item)
        label = sensitive_key(key, text)
        if label == "SECRET" and not isinstance(item, str):
            label = None  # `{"token": 5}` counts
        if label and text and not self._redactor.is_placeholder(text):
            self._hit([f"key_{label.lower()}"])
            return self._numbering.placeholder(label, text, self._locale)
        if isinstance(item, str):
            item = text = self.without_fields(text)
        done = self._redactor.redact_field(key, text, self._numbering, self._locale)
        if not done.count:
            return item
        self._hit(done.rules)
        return done.text

    def _hit(self, rules: Iterable[str]) -> None:
        self.count += 1
        self.rules |= dict.fromkeys(rules)


def _spelled(number: float) -> str:
    """Return a number as it would stand in a text; a phone in a column of floats ends in `.0`."""
    if not abs(number) < 1e24:  # longer than anything here, or no number
        return ""
    return str(int(number)) if number == int(number) else str(number)
