"""What of a session has the words of evidence that is to be deleted (A-30)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ce_engine.schema.document import Evidence, SessionDocument
from ce_engine.schema.events import Event, EventType
from ce_engine.schema.rows import SessionState, ToolCallRow
from ce_engine.stores.erasing import Erasing
from ce_engine.stores.quotations import Quotations


def quoting_ids(
    texts: Iterable[str],
    state: SessionState,
    document: SessionDocument,
    originals: Sequence[Evidence],
) -> set[str]:
    """The ids of messages, evidence, blocks and tool calls that have one of the texts, or whose original has."""
    calls = [ToolCallRow(call) for call in document.session.tool_state.tool_calls]
    ids = set[str]()
    for text in texts:
        erasing = Erasing.of(text, "")
        erasing.changed(state.rows, erasing.message)
        erasing.changed(state.evidence, erasing.evidence)
        erasing.changed(document.context_blocks, erasing.block)
        erasing.changed(calls, erasing.tool_call)
        ids.update(erasing.cleared, _quoting_originals(originals, erasing.quotations))
    return ids


def _quoting_originals(originals: Iterable[Evidence], quotations: Quotations) -> Iterator[str]:
    for original in originals if quotations else ():
        values = (original.content, original.metadata)
        if any(quotations.without_data(value) is not value for value in values):
            yield original.evidence_id


def unquoted_chunks(chunks: Mapping[int, str], texts: Iterable[str]) -> dict[int, str]:
    """A streamed answer so far, by the same indexes, without what it has of the texts; empty if it has nothing."""
    whole = said = "".join(chunks[index] for index in sorted(chunks))
    for text in texts:
        said = Quotations(text).without(said)
    return {} if said == whole else {**dict.fromkeys(chunks, ""), min(chunks): said}


def quoting_events(events: Iterable[Event], texts: Iterable[str]) -> list[int]:
    """The numbers of the events that have one of the texts: a host's own may have it."""
    all_quotations = [Quotations(text) for text in texts]
    numbers = []
    for event in events:
        if event.event_type == EventType.DELETED:
            continue
        by_host = event.event_type == EventType.RECORDED
        values = [event.payload, event.meta, event.tags]
        if any(
            quotations.without_data(value, passages_only=not by_host or value is not event.payload)
            is not value
            for quotations in all_quotations
            for value in values
        ):
            numbers.append(event.seq or 0)
    return numbers
