"""Some lines of a long tool result, with their numbers: those that say most about what was asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ce_engine.prepare.compose.render import Locale
from ce_engine.prepare.tool_results.json_form import read, write


SHOWN_CHARS = 2_400
"""Of a long result that go out."""

LINE_CHARS = 300
"""Of one line; the rest of it is fetched with the line."""

HEAD, TAIL = 3, 2
"""Lines at the beginning and the end that say what it is and how it ended."""

_WORDS: dict[Locale, str] = {
    "en": '[{total} lines, {shown} of them here; read the others with fetch_evidence(evidence_id="{{id}}", lines="1-{some}")]',
    "zh": '[共 {total} 行，此处为其中 {shown} 行；其余可用 fetch_evidence(evidence_id="{{id}}", lines="1-{some}") 读取]',
}

SOME = 50


def lines_of(text: str) -> list[str]:
    """The lines of a result; of a JSON list its elements, of a JSON object its fields."""
    value = read(text)
    if isinstance(value, list):
        return [write(item) for item in value]
    if isinstance(value, dict):
        return [f"{write(name)}: {write(item)}" for name, item in value.items()]
    return text.splitlines() or [text]


def selected(
    text: str, query_terms: frozenset[str], terms: Callable[[str], Sequence[str]], locale: Locale
) -> str:
    """The lines that share most with the `query_terms`; `{id}` stands for where all of them are."""
    lines = lines_of(text)
    positions = _choose_lines(lines, query_terms, terms)
    note = _WORDS[locale].format(total=len(lines), shown=len(positions), some=min(SOME, len(lines)))
    return "\n".join([note, *numbered(lines, positions)])


def numbered(
    lines: Sequence[str], positions: Sequence[int], most: int = LINE_CHARS
) -> Iterator[str]:
    """Lines with their numbers, from 1, and a mark where some are left out between them."""
    before = -1
    for at in positions:
        if at != before + 1:
            yield "…"
        line, before = lines[at], at
        yield f"{at + 1}: {line if len(line) <= most else line[:most] + '…'}"
    if positions and positions[-1] < len(lines) - 1:
        yield "…"


def _choose_lines(
    lines: Sequence[str], query_terms: frozenset[str], terms: Callable[[str], Sequence[str]]
) -> list[int]:
    shared = [len(query_terms.intersection(terms(line[:LINE_CHARS]))) for line in lines]
    ends = {*range(min(HEAD, len(lines))), *range(max(0, len(lines) - TAIL), len(lines))}
    positions, left = set[int](), SHOWN_CHARS
    for at in sorted(range(len(lines)), key=lambda n: (n not in ends, -shared[n], n)):
        size = min(len(lines[at]), LINE_CHARS) + 8
        if size > left:
            break
        positions.add(at)
        left -= size
    return sorted(positions)
