"""The texts that the engine itself writes into an input, in English and Chinese (A-12)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import chain

from ce_engine.prepare.blocks.material import Material
from ce_engine.schema.ids import short_id
from ce_engine.text.quote import Locale, entry, heading, plain_name, short_line
from ce_engine.text.relevance.terms import Header, header, is_date


__all__ = [
    "Locale",
    "Snippet",
    "day_line",
    "day_told",
    "excerpt",
    "fitted",
    "knowledge",
    "left_out",
    "replaced",
    "section",
    "short_result",
    "snippet_line",
    "some_of",
    "tell_apart",
]

TEMPLATES: dict[str, dict[str, str]] = {
    "en": {
        "framework__context": "Rules",
        "noted__context": "Rules that were noted",
        "experience__context": "Settings",
        "todo__context": "State",
        "compression__context": "Summary of what was said before",
        "knowledge": "From earlier in this session",
        "gone": "{groups} earlier steps of this task are not shown",
        "kept": "{gone}; evidence {ids}",
        "more": "{ids} and {more} more",
        "short": "[… {lines} lines, {chars} characters left out; full text: evidence {id}]",
        "short_bare": "[… {lines} lines, {chars} characters left out]",
        "undated": "undated",
        "gap": "…",
        "earlier": "[… earlier messages left out]",
        "user": "user",
        "assistant": "assistant",
        "tool": "tool result",
        "document": "document",
        "evidence": "evidence {id}",
    },
    "zh": {
        "framework__context": "规则",
        "noted__context": "记下的规则",
        "experience__context": "设定",
        "todo__context": "状态",
        "compression__context": "此前对话的摘要",
        "knowledge": "本会话较早的记录",
        "gone": "本任务较早的 {groups} 个步骤未显示",
        "kept": "{gone}；证据 {ids}",
        "more": "{ids} 等另外 {more} 条",
        "short": "[… 略去 {lines} 行、{chars} 个字符；全文见证据 {id}]",
        "short_bare": "[… 略去 {lines} 行、{chars} 个字符]",
        "undated": "无日期",
        "gap": "…",
        "earlier": "[… 略去较早的消息]",
        "user": "用户",
        "assistant": "助手",
        "tool": "工具结果",
        "document": "文档",
        "evidence": "证据 {id}",
    },
}

_OURS = frozenset(word.lower() for words in TEMPLATES.values() for word in words.values()) | {
    "system",
    "tool",
    "系统",
}
_AS_OURS = re.compile(
    r"(?:document|tool result)(?:\s|\Z)|(?:文档|工具结果)|.*[(（](?:evidence|证据)\b|.*:(?:\s|\Z)",
    re.DOTALL,
)

KEEP_CHARS = 200
"""Characters of a shortened tool result that stay."""

NAMED_IDS = 8

Document = tuple[int, int, str]
"""A document in a prompt: where it starts and ends, and its evidence id; none overlap."""

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")

# A point inside a number, a version or a name ends nothing, nor one behind the number of an item.
_SENTENCE = re.compile(
    r"(?:[0-9]{1,3}\.\s+)?.+?(?:(?:[\n。！？；]|[.!?](?=[\s.!?]|\Z))+\s*|\Z)", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Snippet:
    """A piece of an earlier message or of evidence, with where it is from.

    `kind` is `user`, `assistant`, `tool`, `document`, or `note` (of our own); `at` is UTC, ISO 8601. Where it
    `says_all` that the evidence says, nobody has to look there.
    """

    kind: str
    text: str
    name: str = ""
    at: str = ""
    evidence_id: str = ""
    says_all: bool = False


def short_result(text: str, evidence_id: str, locale: Locale) -> str:
    """The short form of a tool result: its beginning, what is left out, and where the rest is."""
    if len(text) <= KEEP_CHARS:
        return text
    head = text[:KEEP_CHARS]
    rest = text[KEEP_CHARS:]
    words = TEMPLATES[locale]
    form = words["short"] if evidence_id else words["short_bare"]
    note = form.format(lines=rest.count("\n") + 1, chars=len(rest), id=short_id(evidence_id))
    return f"{head}\n{note}"


def left_out(steps: Sequence[Sequence[str]], locale: Locale) -> str:
    """The line that says how many steps of this turn are left out, and which evidence keeps their results."""
    if not steps:
        return ""
    words, ids = TEMPLATES[locale], _list_ids(list(dict.fromkeys(chain(*steps))), locale)
    text = words["gone"].format(groups=len(steps))
    return entry(words["kept"].format(gone=text, ids=ids) if ids else text)


def fitted(
    text: str,
    documents: Sequence[Document],
    limit: int,
    count: Callable[[str], int],
    locale: Locale,
    part: Callable[[str, int], str] = lambda _text, _chars: "",
) -> str:
    """A prompt with as many of its first `documents` left out as bring it to `limit` tokens, or all.

    Of the last one as much stays as there is room for: `part` gives the best of a text within so many
    characters. It is counted as a whole only a few times, however many documents there are.
    """
    drop_count, short, tokens = 0, text, count(text)
    while tokens > limit and drop_count < len(documents):
        over = tokens - limit
        while over > 0 and drop_count < len(documents):
            start, end, _ = documents[drop_count]
            over -= count(text[start:end])
            drop_count += 1
        short = _without(text, documents[:drop_count], count, locale)
        tokens = count(short)
    if tokens > limit:  # the notes may be what is too much
        return replaced(text, [(run[0][0], run[-1][1], "") for run in _runs(text, documents)])
    while drop_count > 1:  # counts of the parts add up to more than the whole: who fits comes back
        more = _without(text, documents[: drop_count - 1], count, locale)
        if count(more) > limit:
            break
        drop_count, short = drop_count - 1, more
    for room in (0.9, 0.6):  # a part may cost more than the whole does on the average
        start, end, evidence_id = documents[drop_count - 1] if drop_count else (0, 0, "")
        left = int((limit - count(short)) * room * (end - start) / max(1, count(text[start:end])))
        best = part(text[start:end], left)
        parts = [(start, end, f"{best} [… {short_id(evidence_id)}]")] if best else []
        more = _without(text, documents[: drop_count - 1], count, locale, parts)
        if best and count(more) <= limit:
            return more
    return short


def _without(
    text: str,
    documents: Sequence[Document],
    count: Callable[[str], int],
    locale: Locale,
    parts: Sequence[Document] = (),
) -> str:
    """A prompt without some documents, and with `parts` of others in their places.

    A note says where their text is: one a run, none where it costs as much as what it stands for.
    """
    spans = list(parts)
    for run in _runs(text, documents):
        note = f"[… {_list_ids([evidence_id for _, _, evidence_id in run], locale)}]"
        gained = sum(count(text[start:end]) for start, end, _ in run) - count(note)
        spans.append((run[0][0], run[-1][1], note if gained > 0 else ""))
    return replaced(text, sorted(spans))


def _runs(text: str, documents: Sequence[Document]) -> list[list[Document]]:
    """Documents as they stand in a prompt, those together that only space and punctuation parts."""
    runs: list[list[Document]] = []
    for document in sorted(documents):
        if runs and not any(map(str.isalnum, text[runs[-1][-1][1] : document[0]])):
            runs[-1].append(document)
        else:
            runs.append([document])
    return runs


def _list_ids(evidence_ids: Sequence[str], locale: Locale) -> str:
    """The last few ids, and how many there are beside them."""
    short_ids = [short_id(item) for item in evidence_ids[-NAMED_IDS:]]
    ids = ", ".join(short_ids)
    more = len(evidence_ids) - len(short_ids)
    return TEMPLATES[locale]["more"].format(ids=ids, more=more) if more > 0 else ids


def replaced(text: str, spans: Sequence[tuple[int, int, str]]) -> str:
    """The text with each span (start, end, what stands there instead) replaced; spans in order."""
    parts: list[str] = []
    at = 0
    for start, end, instead in spans:
        parts += (text[at:start], instead)
        at = end
    return "".join([*parts, text[at:]])


def rules(constraints: str, texts: Sequence[str], locale: Locale) -> str:
    """What an owner stored as rules, for the system's message: constraints, and instructions."""
    title = f"## {TEMPLATES[locale]['framework__context']}"
    return "\n\n".join(filter(None, [constraints, "\n".join([title, *texts]) if texts else ""]))


def section(name: str, materials: Sequence[Material], locale: Locale) -> str:
    """A section of materials as marked lines under its heading; nothing without any."""
    if not materials:
        return ""
    lines = (entry(material.text) for material in materials)
    return "\n".join([heading(TEMPLATES[locale][name]), *lines])


def knowledge(snippets: Sequence[Snippet], locale: Locale, today: str = "") -> str:
    """Snippets in their order as marked lines, with a heading a day; a year stands where it is another.

    What all is of `today`, the day of the question, needs no heading.
    """
    lines, day = [heading(TEMPLATES[locale]["knowledge"])], ""
    if all(day_told(snippet) == today for snippet in snippets):
        day = today
    for snippet in snippets:
        head = _head(snippet)
        if (now := _day(snippet, head)) != day:
            lines.append(day_line(now, locale, day[:4]))
            day = now
        lines.append(_line(snippet, head, locale))
    return "\n".join(lines)


def day_line(day: str, locale: Locale, year: str = "") -> str:
    """The heading of what is of one day, behind one of `year`; of what has none, where the day is empty."""
    short = day[5:] if year and day.startswith(year) else day
    return heading(short or TEMPLATES[locale]["undated"])


def day_told(snippet: Snippet) -> str:
    """The day of a snippet, `YYYY-MM-DD`: that in front of its text goes before that of the record."""
    return _day(snippet, _head(snippet))


def snippet_line(snippet: Snippet, locale: Locale) -> str:
    """One snippet, marked: who, from where, what; what its heading or its own text tells stands once."""
    return _line(snippet, _head(snippet), locale)


def _head(snippet: Snippet) -> Header | None:
    """A name in front of a message's text, with the day before it where that is all that is before it."""
    if snippet.kind not in ("user", "assistant"):
        return None
    head = header(snippet.text)
    if not head.speaker:
        return None
    return head if is_date(snippet.text[: head.start]) else head._replace(day=None)


def _day(snippet: Snippet, head: Header | None) -> str:
    if head is not None and head.day:
        return date.fromordinal(head.day).isoformat()
    match = _DAY.match(snippet.at)
    return match[0] if match else ""


def _line(snippet: Snippet, head: Header | None, locale: Locale) -> str:
    if snippet.kind == "note":
        return snippet.text
    words = TEMPLATES[locale]
    source = short_line(snippet.name)
    label = source or words.get(snippet.kind, snippet.kind)
    if source:
        label = tell_apart(source, (snippet.kind, words.get(snippet.kind)))
    if source and snippet.kind in ("tool", "document"):
        label = f"{words[snippet.kind]} {source}"
    text, speaker = snippet.text, ""
    if head is not None:
        text = text[head.start :] if head.day else text
        # A name that is a word of ours would make others' text pass for another role's.
        speaker = "" if _reads_as_ours(head.speaker) else head.speaker
    bare = (
        bool(speaker) and not source and len(text) < len(snippet.text)
    )  # the text alone tells who
    if bare or (speaker and speaker == source.lower()):
        label = ""
    if snippet.evidence_id and not snippet.says_all:
        label += f" ({words['evidence'].format(id=short_id(snippet.evidence_id))})"
    return entry(text, f"{label.lstrip()}: " if label else "", bare=bare)


def tell_apart(name: str, own: Sequence[str | None]) -> str:
    """A name in one line, in quotation marks where it would pass for a word of ours that is not its `own`."""
    if not _reads_as_ours(name) or plain_name(name) in own:
        return name
    return f'"{name.replace(chr(34), chr(39))}"'


def _reads_as_ours(name: str) -> bool:
    plain = plain_name(name)
    return plain in _OURS or _AS_OURS.match(plain) is not None


def excerpt(
    text: str,
    query_terms: frozenset[str],
    terms: Callable[[str], Sequence[str]],
    max_chars: int,
) -> tuple[int, ...]:
    """Which sentences of `text` share most with the query, in their order, within `max_chars`; none may fit."""
    sentences = _sentences(text)
    scored = []
    for position, sentence in enumerate(sentences):
        shared = len(query_terms.intersection(terms(sentence)))
        scored.append((-shared, position))
    positions: set[int] = set()
    left = max_chars
    for _, position in sorted(scored):
        size = len(sentences[position]) + 2
        if size <= left:
            positions.add(position)
            left -= size
    return tuple(sorted(positions))


def _sentences(text: str) -> list[str]:
    return [match.group() for match in _SENTENCE.finditer(text)] or [text]


def spans_of(text: str, positions: Sequence[int]) -> list[tuple[int, int]]:
    """Where these sentences of a text stand in it, from and to; those of neighbours as one."""
    places = [match.span() for match in _SENTENCE.finditer(text)] or [(0, len(text))]
    spans: list[tuple[int, int]] = []
    for position in positions:
        begin, end = places[position]
        if spans and spans[-1][1] == begin:
            begin = spans.pop()[0]
        spans.append((begin, end))
    return spans


def some_of(text: str, positions: Sequence[int]) -> str:
    """These sentences of a text, as one; what another release counted beyond the last one is not there."""
    sentences = _sentences(text)
    parts: list[str] = []
    previous = -1
    for position in (each for each in positions if each < len(sentences)):
        if position != previous + 1:
            parts.append("… ")
        parts.append(sentences[position])
        previous = position
    return "".join(parts).strip()
