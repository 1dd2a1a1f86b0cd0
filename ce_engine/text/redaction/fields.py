"""JSON fields that are taken out whole, by their paths, wherever structured data is stored (A-19)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from typing import Any

from ce_engine.errors import RedactionError, SelectorResolveError
from ce_engine.schema.json_paths import json_locations, json_path


MAX_TEXT = 1_000_000
"""Characters of a text that is read as JSON."""

NO_NAME = "FIELD"
"""The label of a field whose path does not end in a name."""

Place = Callable[[str, str], str]
"""The placeholder of (label, value)."""

_LAST_NAME = re.compile(r"(?:\.|\[['\"])([^\W\d_]\w*)(?:['\"]\])?(?:\[[^\]'\"]*\])*\Z")


class FieldPaths:
    """Replaces the values at some JSONPaths (RFC 9535); `customer.phone` is `$.customer.phone`.

    A value goes whole, an object or a list too; `null` stays. Label and number of its placeholder are
    those of the path's last name: `$.customer.phone` gives `[PHONE_1]`, `$[*]` gives `[FIELD_1]`.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = tuple(dict.fromkeys(map(json_path, paths)))
        self._labels = {path: _label(path) for path in self.paths}

    @property
    def labels(self) -> Iterable[str]:
        return self._labels.values()

    def replaced(
        self, value: Any, place: Place, is_placeholder: Callable[[str], bool]
    ) -> tuple[Any, list[str]]:
        """The data with placeholders, and the rule of each that was put in; `value` stays as it is.

        Raises:
            RedactionError: a path leads too deep in it.
        """
        try:
            locations = json_locations(self.paths, value)
        except SelectorResolveError as error:
            raise RedactionError(f"field paths cannot be looked up here: {error}") from error
        hits: list[str] = []
        root = [_copied(value) if locations else value]
        for parts in sorted(locations, key=len):  # what holds others goes first, and they with it
            path = locations[parts]
            old, parent, key = _at(root, parts)
            if old is None or (isinstance(old, str) and (not old or is_placeholder(old))):
                continue
            text = old if isinstance(old, str) else json.dumps(old, ensure_ascii=False)
            parent[key] = place(self._labels[path], text)
            hits.append(f"field {path}")
        return root[0], hits

    def replaced_in_text(
        self, text: str, place: Place, is_placeholder: Callable[[str], bool]
    ) -> tuple[str, list[str]]:
        """The same in a text that is a JSON object or list; it is written anew if something hits.

        Raises:
            RedactionError: it looks like JSON but is too long to be read, or a path leads too deep.
        """
        body = text.removeprefix("\ufeff")  # files begin with it
        if not self.paths or body.lstrip()[:1] not in ("{", "["):
            return text, []
        if len(text) > MAX_TEXT:
            raise RedactionError(
                f"the text may be JSON and has {len(text)} characters; fields are looked up in "
                f"{MAX_TEXT} at most"
            )
        twice: list[str] = []
        try:
            value = json.loads(body, object_pairs_hook=lambda pairs: _object(pairs, twice))
        except json.JSONDecodeError:
            return text, []
        except (RecursionError, ValueError) as error:
            raise RedactionError(
                "the JSON is nested too deep, or has a number too long, to look up fields in"
            ) from error
        fresh, hits = self.replaced(value, place, is_placeholder)
        if not hits and not twice:
            return text, []
        # Anew, not in place: of two equal keys the parser sees one, and the other must go as well.
        indent = 2 if "\n" in text.strip() else None
        fresh_text = json.dumps(fresh, ensure_ascii=False, indent=indent)
        if not _is_encodable(fresh_text):  # half an emoji, spelled `\ud83d`, must stay spelled so
            fresh_text = json.dumps(fresh, indent=indent)
        return fresh_text, hits


def _object(pairs: list[tuple[str, Any]], twice: list[str]) -> dict[str, Any]:
    """A JSON object; `twice` gets a key of it that is there more than once."""
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        twice.append(pairs[0][0])
    return mapping


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _label(path: str) -> str:
    match = _LAST_NAME.search(path)
    return match[1].upper() if match else NO_NAME


def _copied(value: Any) -> Any:
    try:
        return deepcopy(value)
    except RecursionError as error:
        raise RedactionError("the data is nested too deep to take fields out of it") from error


def _at(root: list[Any], parts: tuple[str | int, ...]) -> tuple[Any, Any, Any]:
    """The value at a location, what holds it, and its key there; `None` where a parent is replaced."""
    parent: Any = root
    key: str | int = 0
    for part in parts:
        parent, key = parent[key], part
        if not isinstance(parent, dict | list):
            return None, parent, key
    return parent[key], parent, key
