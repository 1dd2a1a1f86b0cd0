"""The shorter forms of a tool result: a reference, what changed, compact JSON, selected lines."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ce_engine.prepare.compose.render import Locale
from ce_engine.prepare.tool_results.json_form import changed, compact, read
from ce_engine.prepare.tool_results.lines import selected
from ce_engine.schema.document import ToolRequest
from ce_engine.text.quote import neutral


REPEATED, CHANGED, COMPACT, SELECTED = (
    "repeated_result",
    "changed_fields",
    "compact_json",
    "selected_lines",
)
"""What was done to a result, as reports tell it."""

FORMS = frozenset({REPEATED, CHANGED, COMPACT, SELECTED})
"""Reasons of decisions on single results."""

FETCH = "fetch_evidence"
"""The tool by which an agent reads stored evidence; what that gives is never shortened."""

T = TypeVar("T")

LEAST = 4
"""Tokens that a form must save: a message that changes for less is not worth a copy."""

WORTH = 0.8
"""Of the result, what a form that refers to another one may cost at most: to look above costs, too."""

DEEPEST = 4
"""Changes of changes: so many, then the whole result again."""

SHORT_CHARS = 60
"""A result of so few characters costs no more than a reference."""

LONG = 1500
"""Tokens from which on a result is cut to lines, where the agent can fetch the others."""

CALL_CHARS = 80
"""Of a call, in a reference."""

_FETCH = re.compile(rf"(?:.*[-.:/])?{FETCH}")
_ID = re.compile(r"(?:^|_)(?:id|uuid|key)$|[a-z](?:Id|ID|Uuid|UUID|Key)$")
_ERROR = re.compile(r"\s*(?:Error|ERROR|Exception|Traceback|错误|出错|失败)")

_WORDS: dict[Locale, dict[str, str]] = {
    "en": {
        REPEATED: "[the same as the last result of {call} above]",
        CHANGED: "[as the last result of {call} above, but for:]\n{json}",
        "gone": "\n[no longer there: {names}]",
    },
    "zh": {
        REPEATED: "[与上文最近一次 {call} 的结果相同]",
        CHANGED: "[与上文最近一次 {call} 的结果相同，只有以下不同：]\n{json}",
        "gone": "\n[已不再有：{names}]",
    },
}


@dataclass(frozen=True, slots=True)
class Form:
    """What goes out of a result instead of its text.

    Attributes:
        kind: `REPEATED`, `CHANGED`, `COMPACT` or `SELECTED`.
        text: as it goes out.
        saved: tokens.
        base: the `Item.key` of the result above that it refers to.
        depth: how many forms refer to each other there.
    """

    kind: str
    text: str
    saved: int
    base: int | str | None = None
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Result:
    """A tool result of the line with its text and its call; `key` is that of its `Item`.

    `label` is the call on one line, as a reference names it; a long one is cut.
    """

    key: int | str
    n: int
    text: str
    call: ToolRequest
    evidence_id: str = ""
    label: str = field(init=False)

    def __post_init__(self) -> None:
        args = ", ".join(f"{name}={_plain(value)}" for name, value in self.call.args.items())
        object.__setattr__(self, "label", neutral(f"{self.call.name}({_short(args)})"))

    @property
    def is_plain(self) -> bool:
        """Whether it may be anything but itself: no error, nor what was fetched on purpose."""
        return not is_fetch(self.call.name) and not _ERROR.match(self.text)


@dataclass(frozen=True, slots=True)
class ResultFacts:
    """What a result is by itself: the ids that it is known by, its fields if it is an object, its own form."""

    ids: frozenset[tuple[str, str]] = frozenset()
    own_ids: Mapping[str, str] = field(default_factory=dict)
    names: frozenset[str] = frozenset()
    form: Form | None = None
    tokens: int = 0

    def is_of(self, earlier: ResultFacts) -> bool:
        """Whether both tell of one thing: an id is the same, none differs, and most fields are there."""
        if not (self.names and earlier.names and self.ids & earlier.ids):
            return False
        earlier_ids = earlier.own_ids
        if any(earlier_ids.get(name, value) != value for name, value in self.own_ids.items()):
            return False
        return 2 * len(self.names & earlier.names) >= len(self.names)


@dataclass(frozen=True, slots=True)
class FormMaker:
    """Makes the forms of results; each is made once and in `cache` from then on.

    Attributes:
        count: tokens of a text.
        question: what a result was asked for: the words that its lines are chosen by.
        cache: what was made before, for one counter and language.
    """

    locale: Locale
    count: Callable[[str], int]
    terms: Callable[[str], Sequence[str]]
    question: Callable[[int], str]
    fetches: bool
    cache: MutableMapping[tuple[Any, ...], tuple[int, Any]]

    def facts(self, result: Result) -> ResultFacts:
        return self._once((result.n, self.fetches), (result.text,), lambda: self._facts(result))

    def repeated(self, result: Result, base: Result, depth: int) -> Form | None:
        """The reference to an equal result above."""

        def make() -> Form | None:
            text = _WORDS[self.locale][REPEATED].format(call=base.label)
            return self._worth(result, Form(REPEATED, text, 0, base.key, depth))

        key = (REPEATED, result.n, base.n, base.key, depth)
        return self._once(key, (result.text, base.text), make)

    def changed(self, result: Result, base: Result, depth: int) -> Form | None:
        """What changed since a result above that tells of the same thing."""

        def make() -> Form | None:
            old, new = read(base.text), read(result.text)
            if not (isinstance(old, dict) and isinstance(new, dict)):
                return None
            other, missing = changed(old, new)
            if not other and not missing:
                return self.repeated(result, base, depth)
            words, compact_text = _WORDS[self.locale], compact(other)
            if compact_text is None:
                return None
            text = words[CHANGED].format(call=base.label, json=compact_text)
            if missing:
                text += words["gone"].format(names=", ".join(missing))
            return self._worth(result, Form(CHANGED, text, 0, base.key, depth))

        key = (CHANGED, result.n, base.n, base.key, depth)
        return self._once(key, (result.text, base.text), make)

    def _worth(self, result: Result, form: Form) -> Form | None:
        facts = self.facts(result)
        saved = facts.tokens - self.count(form.text)
        alone = facts.tokens - (facts.form.saved if facts.form else 0)
        if saved < LEAST or facts.tokens - saved > WORTH * alone:
            return None
        return Form(form.kind, form.text, saved, form.base, form.depth)

    def _facts(self, result: Result) -> ResultFacts:
        tokens, value = self.count(result.text), read(result.text)
        args = _ids(result.call.args)
        own = _ids(value) if isinstance(value, dict) else {}
        form = self._alone(result, tokens, None if value is None else compact(value))
        names = frozenset(value) if isinstance(value, dict) else frozenset[str]()
        return ResultFacts(frozenset(args.items() | own.items()), own, names, form, tokens)

    def _alone(self, result: Result, tokens: int, compact_text: str | None) -> Form | None:
        """The form that refers to nothing above."""
        saved = tokens - self.count(compact_text) if compact_text is not None else 0
        if tokens - saved > LONG and self.fetches and result.evidence_id:
            question = f"{self.question(result.n)} {result.label}"
            text = selected(result.text, frozenset(self.terms(question)), self.terms, self.locale)
            text = text.replace("{id}", result.evidence_id, 1)
            return Form(SELECTED, text, tokens - self.count(text))
        return (
            Form(COMPACT, compact_text, saved)
            if compact_text is not None and saved >= LEAST
            else None
        )

    def _once(self, key: tuple[Any, ...], of: tuple[str, ...], make: Callable[[], T]) -> T:
        entry, mark = self.cache.get(key), hash(of)
        if entry is None or entry[0] != mark:
            entry = self.cache[key] = mark, make()
        value: T = entry[1]
        return value


def is_fetch(name: object) -> bool:
    """Whether a tool's name is that of ours; some frameworks put a plugin's name before it."""
    return isinstance(name, str) and _FETCH.fullmatch(name) is not None


def _ids(fields: Mapping[str, Any]) -> dict[str, str]:
    """The fields by which things are known."""
    return {
        name: str(value)
        for name, value in fields.items()
        if isinstance(value, str | int)
        and not isinstance(value, bool)
        and value != ""
        and _ID.search(name)
    }


def _plain(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def _short(text: str) -> str:
    return text if len(text) <= CALL_CHARS else f"{text[:CALL_CHARS]}…"
