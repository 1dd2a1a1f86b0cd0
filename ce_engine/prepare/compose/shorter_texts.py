"""What of a message's own text may be left out: retrieved documents, and a conversation in a helper's prompt."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ce_engine.prepare.compose.context_places import context_places
from ce_engine.prepare.compose.render import TEMPLATES, Locale, excerpt, fitted, replaced, some_of
from ce_engine.prepare.message_groups import MessageGroup, MessageItem
from ce_engine.prepare.sources import CandidateSources, QuotedSpan
from ce_engine.schema.enums import Origin
from ce_engine.text.relevance.passages import clusters


RETRIEVED, CONVERSATION = "retrieved_text", "rendered_conversation"
"""Why a message goes out shorter."""

SIGNED = frozenset({Origin.ANSWER, Origin.TOOL_CALL})
"""What a model said goes back to it as it came: it may be signed. Nor is a text of several results cut, whose
parts nobody can tell apart."""

_BORDER = "\n\x00and\x00\n"
"""Between texts that are looked at as one; its word keeps what is beside it apart."""

Count = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class ShorterText:
    """A message's text with something left out, why, and the tokens that this saves."""

    text: str
    reason: str
    saved: int


def shorten_texts(
    items: Sequence[MessageItem],
    over: int,
    sources: CandidateSources,
    locale: Locale,
    query: Callable[[], str],
) -> dict[int | str, ShorterText]:
    """Host messages in a shorter form, by index, so that they cost `over` tokens less if that can be.

    First what a helper's prompt holds of a conversation, oldest first; then retrieved documents,
    worst first whichever message they are in; of the best of those the sentences stay that share
    most with what `query` gives (decision 6).
    """
    short_texts: dict[int | str, ShorterText] = {}
    may = [item for item in items if not (item.origin in SIGNED or item.more_call_ids)]
    texts = {item.index: sources.text(item) for item in may if item.index is not None}
    systems = {
        item.index for item in may if item.index is not None and item.origin is Origin.SYSTEM
    }
    for index, text in texts.items():
        if text == "" and index in sources.saved:  # a replay, to which it is not given
            short_texts[index] = ShorterText("", RETRIEVED, sources.saved[index])
            over -= sources.saved[index]
        elif over > 0 and (talk_spans := sources.find_talk(text, index in systems)):
            limit = sources.count(text) - over
            texts[index] = _without_oldest(text, talk_spans, limit, sources.count, locale)
            over -= _note(short_texts, sources, index, text, texts[index], CONVERSATION)
    spans = {index: sources.spans(text) for index, text in texts.items()} if over > 0 else {}
    documents_by_index = context_places(_unquoted(spans), systems)
    if documents_by_index:
        before, query_terms = (
            [texts[index] for index in documents_by_index],
            frozenset(sources.terms(query())),
        )

        def part(text: str, chars: int) -> str:
            return some_of(text, excerpt(text, query_terms, sources.terms, chars))

        after = _without_worst(
            before, [*documents_by_index.values()], over, sources.count, locale, part
        )
        for index, text, short in zip(documents_by_index, before, after, strict=True):
            _note(short_texts, sources, index, text, short, RETRIEVED)
    return short_texts


ShorterTexts = Mapping[int | str, ShorterText]
"""By `MessageItem.key`."""


def saved_in(items: Iterable[MessageItem], shorter: ShorterTexts) -> int:
    """Tokens that the shorter forms of these save."""
    short_texts = (shorter.get(item.key) for item in items) if shorter else ()
    return sum(short_text.saved for short_text in short_texts if short_text is not None)


def speaking(group: MessageGroup) -> MessageItem | None:
    """The message whose text is what a group says: its only one, or the only result of its call."""
    results = [item for item in group.items if item.is_tool_result]
    items = group.items if len(group.items) == 1 else results
    return items[0] if len(items) == 1 else None


def may_be_shorter(group: MessageGroup) -> MessageItem | None:
    """The message of a group whose text a pruner may shorten; `None` where there is none.

    Not what may never be left out, nor what a model said as its host sends it.
    """
    item = speaking(group)
    if item is None or group.must or item.more_call_ids:
        return None
    return None if item.index is not None and item.origin in SIGNED else item


def _note(
    short_texts: dict[int | str, ShorterText],
    sources: CandidateSources,
    index: int,
    text: str,
    short: str,
    reason: str,
) -> int:
    """Note the shorter form of a text, where it is one; the tokens that it saves."""
    if short == text:
        return 0
    earlier_text = short_texts.get(index)
    saved = sources.saved.get(index, sources.count(text) - sources.count(short))
    short_texts[index] = ShorterText(
        short, reason, saved + (earlier_text.saved if earlier_text else 0)
    )
    return saved


def _unquoted(spans: Mapping[int, Sequence[QuotedSpan]]) -> dict[int, list[QuotedSpan]]:
    """The documents in each text, but for those of which another text holds more than twice as much."""
    sizes: Tally[tuple[int, int]] = Tally()
    for index, documents in spans.items():
        for span in documents:
            sizes[index, span.rank] += span.end - span.start
    most: dict[int, int] = {}
    for (_, rank), size in sizes.items():
        most[rank] = max(most.get(rank, 0), size)
    return {
        index: [span for span in documents if 2 * sizes[index, span.rank] >= most[span.rank]]
        for index, documents in spans.items()
    }


def _without_worst(
    texts: Sequence[str],
    spans_of_texts: Sequence[Sequence[QuotedSpan]],
    over: int,
    count: Count,
    locale: Locale,
    part: Callable[[str, int], str],
) -> list[str]:
    """The texts, looked at as one, without as many documents as must go."""
    documents: list[tuple[int, int, int, str]] = []
    begin, border = 0, _BORDER
    while any(border in text for text in texts):  # texts of others may hold anything
        border = border.replace("and", "and and", 1)
    for text, spans in zip(texts, spans_of_texts, strict=True):
        documents += ((-s.rank, -s.start - begin, s.end + begin, s.evidence_id) for s in spans)
        begin += len(text) + len(border)
    whole = border.join(texts)
    worst = [(-start, end, evidence_id) for _, start, end, evidence_id in sorted(documents)]
    limit = count(whole) - over - (len(texts) - 1)  # apart they may cost a token more each
    return fitted(whole, worst, limit, count, locale, part).split(border)


def _without_oldest(
    text: str, talk_spans: Sequence[QuotedSpan], limit: int, count: Count, locale: Locale
) -> str:
    """The text without as many of the oldest messages in it as must go; the newest stays."""
    talks = _talks(talk_spans)
    most = sum(map(len, talks)) - 1
    if most < 1:
        return text
    mark = TEMPLATES[locale]["earlier"]
    without = partial(_without_first, text, talks, mark=mark)
    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        if count(without(middle)) <= limit:
            high = middle
        else:
            low = middle + 1
    short = without(low)
    return short if count(short) < count(text) else text


def _talks(talk_spans: Sequence[QuotedSpan]) -> list[list[QuotedSpan]]:
    """Messages that stand together; one that stands alone is what the prompt is about."""
    return [talk for talk in clusters(talk_spans) if len(talk) > 1]


def _without_first(
    text: str, talks: Sequence[Sequence[QuotedSpan]], most: int, *, mark: str
) -> str:
    """The text without the first so many messages, and what stands between them; a mark is in their place."""
    spans: list[tuple[int, int, str]] = []
    for talk in talks:
        if most <= 0:
            break
        spans.append((talk[0].start, talk[:most][-1].end, mark))
        most -= len(talk)
    return replaced(text, spans)
