"""Redacts nested data in one pass: keys, strings and numbers, each under the key that may label it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from ce_engine.errors import RedactionError
from ce_engine.text.redaction import key_names
from ce_engine.text.redaction.key_names import NO_HINT, Hint, key_name
from ce_engine.text.redaction.placeholders import Numbering


MAX_DEPTH = 1000


class _Visit(NamedTuple):
    """A value, the new container and the place in it, the key that labels it, what else does, the depth."""

    item: Any
    parent: Any
    place: Any
    key: str
    hint: Hint | None
    depth: int


class _Pair(NamedTuple):
    """What the name in a mapping says of the value beside it."""

    name: str
    hint: Hint


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
        todo = [_Visit(value, root, 0, "", None, 0)]
        while todo:
            visit = todo.pop()
            if visit.depth > MAX_DEPTH:
                raise RedactionError(
                    f"the data is nested deeper than {MAX_DEPTH} levels, or holds itself: flatten it"
                )
            if isinstance(visit.item, Mapping):
                children = self._fields(visit)
            elif isinstance(visit.item, list | tuple):
                children = self._items(visit)
            else:
                visit.parent[visit.place] = self._leaf(visit.item, visit.key, visit.hint)
                continue
            todo.extend(reversed(children))
        return root[0]

    def _fields(self, visit: _Visit) -> list[_Visit]:
        """Those of a mapping; a pair's value has the key that stands beside it."""
        fresh: dict[Any, Any] = {}
        visit.parent[visit.place] = fresh
        above, pair = _above(visit), _find_pair(visit.item)
        children = []
        for own, value in self._keyed(visit.item):
            key, hint = own if isinstance(own, str) else "", None
            name = key_name(key)
            if name.label is None or name.role == key_names.VALUE:
                is_value = name.role == key_names.VALUE
                if above and name.role != key_names.ABOUT:
                    value_too = is_value and not above.guess
                    hint = above._replace(value=above.value or value_too)
                    key = visit.key if value_too else key
                if pair and is_value and not (above and pair.hint is NO_HINT):
                    key, hint = pair
            children.append(_Visit(value, fresh, own, key, hint, visit.depth + 1))
        return children

    def _items(self, visit: _Visit) -> list[_Visit]:
        """Those of a list; an option names the item behind it, and the first of two in a list of such the other."""
        items: list[Any] = [None] * len(visit.item)
        paired = isinstance(visit.parent, list) and visit.depth > 0 and len(items) == 2
        visit.parent[visit.place] = items
        children = []
        behind: tuple[str, Hint] | None = None
        for at, item in enumerate(visit.item):
            key, hint = behind or (visit.key, visit.hint)
            behind = None
            if isinstance(item, str):
                option = key_names.option(item)
                if option and not option[2]:
                    behind = option[0], Hint(option[1], value=True)
                elif paired and at == 0 and (label := key_names.name_of_pair(item)):
                    behind = visit.key, Hint(label, value=False)
            children.append(_Visit(item, items, at, key, hint, visit.depth + 1))
        return children

    def _keyed(self, item: Mapping[Any, Any]) -> Iterator[tuple[Any, Any]]:
        names: set[Any] = set()
        for key, value in item.items():
            name = self._leaf(key, "", None)
            while name in names:
                name = f"{name}'"  # two spellings of one value: neither entry may be lost
            names.add(name)
            yield name, value

    def _leaf(self, item: Any, key: str, hint: Hint | None) -> Any:
        if item is None or isinstance(item, bool):
            return item
        if not isinstance(item, str | int | float):
            raise RedactionError(
                f"{type(item).__name__!r} is no JSON value: hand over dict, list, str, int, float, bool "
                "or None, for instance by json.loads(json.dumps(value, default=str))"
            )
        text = item if isinstance(item, str) else _spelled(item)
        label, begin = _label(item, text, key, hint)
        if label and text and not self._redactor.is_placeholder(text[begin:]):
            self._hit([f"key_{label.lower()}"])
            place = self._numbering.placeholder(label, text[begin:], self._locale)
            return text[:begin] + place
        if isinstance(item, str):
            item = text = self.without_fields(text)
        done = self._redactor.redact_field(key, text, self._numbering, self._locale)
        if not done.count:
            return item
        label, begin = _label(item, done.text, key, hint)
        begins_alike = text[:begin] == done.text[:begin]
        if label and begins_alike and not self._redactor.is_placeholder(done.text[begin:]):
            # Without what was taken out it reads as what goes whole, and would where it is looked at once more.
            self._hit([f"key_{label.lower()}"])
            return text[:begin] + self._numbering.placeholder(label, text[begin:], self._locale)
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


def _label(item: Any, text: str, key: str, hint: Hint | None) -> tuple[str | None, int]:
    """Return the label of a leaf that goes whole, from the place where what is secret in it begins."""
    if not isinstance(item, str):
        label = None if hint else key_names.sensitive_key(key, text)
        return None if label == "SECRET" else label, 0  # `{"token": 5}` counts
    option = key_names.option(text)
    if option and option[2]:  # `--password=...`
        secret = key_names.is_secret(text[option[2] :], Hint(option[1], value=True))
        return (option[1], option[2]) if secret else (None, 0)
    if hint is None:
        return key_names.sensitive_key(key, text), 0
    return hint.label if key_names.is_secret(text, hint) else None, 0


def _above(visit: _Visit) -> Hint | None:
    """What the key of a mapping, or what is above it, says of the values in it."""
    name = key_name(visit.key)
    if visit.hint or name.inside is None:
        return visit.hint
    return Hint(name.inside, name.values == key_names.ALL, guess=name.values == key_names.RANDOM)


def _find_pair(item: Mapping[Any, Any]) -> _Pair | None:
    """The name of a mapping that has one, for the value beside it: `{"name": "password", "value": ...}`."""
    names = [
        text
        for key, text in item.items()
        if isinstance(key, str) and isinstance(text, str) and key_name(key).role == key_names.NAME
    ]
    for text in names:
        if label := key_names.name_of_pair(text):
            return _Pair(text, Hint(label, value=True))
    return _Pair(names[0], NO_HINT) if names and len(names[0]) <= key_names.NAME_LENGTH else None
