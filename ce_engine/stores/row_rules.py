"""What every store does alike with rows: number, chain, merge, keep, filter. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Any

from ce_engine.errors import SchemaValidationError, SessionNotFoundError, VersionConflictError
from ce_engine.schema.copies import copied
from ce_engine.schema.document import ContextBlock, Evidence, EvidenceLinks, Message, Summary
from ce_engine.schema.enums import EvidenceType, ModelUsageStage, Origin, Priority, Role, TurnStatus
from ce_engine.schema.event_chain import link, payload_mac
from ce_engine.schema.events import Event, EventType
from ce_engine.schema.ids import ChainKeys
from ce_engine.schema.report import BlockFilter, EvidenceFilter
from ce_engine.schema.rows import (
    CreateSession,
    EventChain,
    EvidenceRow,
    ForSession,
    LinkEvidence,
    MessageRow,
    PutSummary,
    SummaryRow,
    ToolCallRow,
    TurnRow,
    Write,
)
from ce_engine.schema.scope import Scope, check_project
from ce_engine.schema.times import parse_time


def check_place(scope: Scope, version: int, expected: int) -> None:
    """See that a session that is put whole takes the place that it is meant for, a deleted one's too.

    Raises:
        VersionConflictError: it would take another one's.
    """
    if version != expected:
        raise VersionConflictError(
            f"the place of session {scope.session_id!r} has version {version}, expected {expected}"
        )


def check_kinds(writes: Iterable[Write]) -> None:
    """Raise `TypeError` for what is no write: that is a caller's fault, not the store's."""
    for write in writes:
        if not isinstance(write, Write):
            raise TypeError(f"a store takes no {type(write).__name__}; see ports.Store.apply")


def check_version(scope: Scope, expected: int | None, version: int) -> None:
    """Raise `VersionConflictError` if `expected` is given and not `version`; 0 means no session."""
    if expected is not None and expected != version:
        raise VersionConflictError(
            f"session {scope.session_id!r} is at version {version}, expected {expected}. "
            "Read it again and repeat the change."
        )


def check_key(scope: Scope, writes: Iterable[Write], key_id: str, epoch: int) -> None:
    """Refuse a group that was made for a session with another key.

    Raises:
        SessionNotFoundError: that session was deleted.
        VersionConflictError: somebody else made the session.
    """
    for write in writes:
        if not isinstance(write, CreateSession | ForSession) or write.key_id == key_id:
            continue
        if isinstance(write, ForSession) and epoch > write.epoch:
            raise SessionNotFoundError(
                f"session {scope.session_id!r} was deleted meanwhile: what was made for it is not "
                "stored. The next call begins it anew."
            )
        raise VersionConflictError(
            f"session {scope.session_id!r} has key {key_id!r}, expected {write.key_id!r}: it was "
            "made by somebody else meanwhile, or the secret has changed. Read it again."
        )


def check_there(scope: Scope, is_new: bool) -> None:
    """Raise `SessionNotFoundError` if a group made the session that it wants to patch or delete."""
    if is_new:
        raise SessionNotFoundError(
            f"there is no session {scope.session_id!r} of this account and user to patch or delete; "
            "put_session makes one"
        )


def own_events(scope: Scope, chain: EventChain | None) -> list[Event]:
    """The events for who reads them from a project.

    Raises:
        ScopeViolationError: the session belongs to another one (D-10).
    """
    if chain is None:
        return []
    if not chain.head.is_deleted:
        check_project(scope, chain.head.project_id)
    return chain.events


_ORIGINS = {Role.SYSTEM: Origin.SYSTEM, Role.USER: Origin.TASK, Role.TOOL: Origin.TOOL_RESULT}


def plain_row(message: Message) -> MessageRow:
    """A row of a message that no adapter mapped: nothing recognises it but its text."""
    asks = Origin.TOOL_CALL if message.tool_calls else Origin.ANSWER
    return MessageRow(
        message=message,
        key=b"",
        loose_key=b"",
        origin=_ORIGINS.get(message.role, asks),
        length=len(message.content),
    )


def numbered(rows: Iterable[MessageRow], known_ids: Collection[str], last: int) -> list[MessageRow]:
    """The rows that are not known yet, with `seq` from `last + 1` on."""
    seen = set(known_ids)
    new: list[MessageRow] = []
    for row in rows:
        message_id = row.message.message_id
        if message_id is not None:
            if message_id in seen:
                continue
            seen.add(message_id)
        last += 1
        new_row = copied(row)
        new_row.message = row.message.model_copy(update={"seq": last})
        new.append(new_row)
    return new


def chained(
    events: Iterable[Event],
    known_ids: Collection[str],
    last: int,
    head: str,
    keys: ChainKeys,
    session_key: Callable[[], bytes],
) -> list[Event]:
    """The events that are not known yet, with `seq` and `hash` after the event `last` of hash `head`.

    An event whose payload has no MAC gets one: its maker did not know the session's key.
    """
    seen = set(known_ids)
    new: list[Event] = []
    for event in events:
        if event.event_id:
            if event.event_id in seen:
                continue
            seen.add(event.event_id)
        last += 1
        update: dict[str, Any] = {"seq": last}
        if not event.payload_mac:
            event = event.model_copy(update={"payload_mac": payload_mac(event, session_key())})  # noqa: PLW2901
        head = update["hash"] = link(event, last, head, keys.own)
        new.append(event.model_copy(update=update))
    return new


def check_epoch(scope: Scope, write: PutSummary, epoch: int) -> None:
    """Raise `SessionNotFoundError` if what a summary stands for may not be there any more."""
    if write.epoch != epoch:
        raise SessionNotFoundError(
            f"a summary was made of epoch {write.epoch} of session {scope.session_id!r}, which has "
            f"{epoch}: something of it was deleted or replaced since. Make it anew."
        )


def newest_summary(rows: Iterable[SummaryRow], otherwise: Summary | None) -> Summary | None:
    """The summary that a session's document shows: the one that reaches furthest."""
    summaries = [row.summary for row in rows]
    if not summaries:
        return otherwise
    return max(summaries, key=lambda s: (s.message_index_range.to_index, s.updated_at))


def is_summary(evidence: Evidence) -> bool:
    """Whether a piece of evidence is what a model answered when it was asked for a summary."""
    stage = evidence.metadata.get("stage")
    return evidence.type is EvidenceType.LLM_OUTPUT and stage == ModelUsageStage.SUMMARIZE.value


def may_become(stored_turn: TurnRow | None, turn: TurnRow) -> bool:
    """Whether a turn takes the place of the known one: who is gone may have closed it just before."""
    is_abandoned = turn.status is TurnStatus.ABANDONED
    return stored_turn is None or not is_abandoned or stored_turn.status is TurnStatus.OPEN


def merged_call(first: ToolCallRow, later: ToolCallRow) -> ToolCallRow:
    """One row of two for the same call: the ended one, else the first; results add up."""
    winner, other = (later, first) if later.ended else (first, later)
    results = [*first.call.result_evidence_ids, *later.call.result_evidence_ids]
    update = {
        "called_at": first.call.called_at or later.call.called_at,
        "result_evidence_ids": list(dict.fromkeys(results)),
    }
    return replace(
        winner,
        call=winner.call.model_copy(update=update),
        host_call_id=winner.host_call_id or other.host_call_id,
        message_id=winner.message_id or other.message_id,
        turn_id=winner.turn_id or other.turn_id,
        ended=first.ended or later.ended,
    )


def linked(row: EvidenceRow, write: LinkEvidence) -> EvidenceRow:
    """The row with another call among its links, and with the message that has its content."""
    evidence = _with_link(row.evidence, write.links)
    return replace(row, evidence=evidence, message_id=write.message_id or row.message_id)


def _with_link(evidence: Evidence, links: EvidenceLinks) -> Evidence:
    stored_links = list(evidence.metadata.get("links", ()))
    entry = links.model_dump(exclude_none=True)
    if not entry or entry in stored_links or links == evidence.links:
        return evidence
    if evidence.links == EvidenceLinks():
        return evidence.model_copy(update={"links": links})
    return evidence.model_copy(
        update={"metadata": {**evidence.metadata, "links": [*stored_links, entry]}}
    )


REMOVED = ("messages", "evidences", "tool_calls", "turns")
"""What `PutResult.removed` counts of a deleted session."""

SUMMED_UP = frozenset({"messages", "summary"})
"""Fields of a session with which the summaries of its lanes go."""

DELETED_AT = "deleted_at"
"""The key in a piece of evidence's metadata that says when its content was deleted."""
_TRACES = ("created_at", "links")


def emptied(event: Event, scope: Scope) -> Event:
    """What stays of an event when its session is deleted: the envelope, whole if it is of a deletion."""
    if event.event_type == EventType.DELETED:
        return event
    account_id, user_id, session_id = scope.key
    empty = {"payload": {}, "tags": {}, "meta": {}, "nonce": ""}
    own = {"account_id": account_id, "user_id": user_id, "session_id": session_id}
    return event.model_copy(update=empty | own)


def without_content(evidence: Evidence, at: str) -> Evidence | None:
    """What stays of evidence when it is deleted; `None` if it was deleted already."""
    kept_keys = {*_TRACES, DELETED_AT}
    if (
        DELETED_AT in evidence.metadata
        and not evidence.content
        and evidence.metadata.keys() <= kept_keys
    ):
        return None
    traces = {name: evidence.metadata[name] for name in _TRACES if name in evidence.metadata}
    return evidence.model_copy(update={"content": "", "metadata": {**traces, DELETED_AT: at}})


def not_resting_on(blocks: Iterable[ContextBlock], evidence_id: str) -> list[ContextBlock]:
    """The blocks that do not refer to the evidence."""
    return [b for b in blocks if all(ref.evidence_id != evidence_id for ref in b.refs)]


def replaced(
    messages: Sequence[Message], rows: Mapping[str, MessageRow], counter: int
) -> tuple[list[MessageRow], int]:
    """Rows for a session's new messages, and its highest number from then on.

    Messages keep their numbers if they all have one and these rise, else they count from 1. A row is
    kept where its message (same id, role, content) is still there.
    """
    numbers = [message.seq or 0 for message in messages]
    if numbers != sorted(set(numbers)) or 0 in numbers:
        numbers = list(range(1, len(messages) + 1))
    new_rows = []
    for number, message in zip(numbers, messages, strict=True):
        row = rows.get(message.message_id) if message.message_id else None
        if row is None or (row.message.role, row.message.content) != (
            message.role,
            message.content,
        ):
            row = plain_row(message)
        new_rows.append(replace(row, message=message.model_copy(update={"seq": number})))
    return new_rows, max([counter, *numbers])


def kept_evidence(
    items: Iterable[Evidence], rows: Mapping[str, EvidenceRow], messages: Sequence[Message]
) -> list[EvidenceRow]:
    """Rows for a session's new evidence, numbered from 1.

    A row is kept where its content is unchanged, and its message where that has this content.
    """
    contents = {message.message_id: message.content for message in messages}
    new_rows = []
    for number, item in enumerate(items, start=1):
        row = rows.get(item.evidence_id)
        if row is None or row.evidence.content != item.content:
            row = EvidenceRow(item)
        by_message = row.message_id
        if by_message is not None and contents.get(by_message) != item.content:
            by_message = None
        new_rows.append(replace(row, evidence=item, message_id=by_message, seq=number))
    return new_rows


def chosen_evidence(items: Iterable[Evidence], filter: EvidenceFilter | None) -> list[Evidence]:
    """The first `limit` pieces that match every given part of the filter."""
    if filter is None:
        return list(items)
    since, until = _bound("since", filter.since), _bound("until", filter.until)

    def fits(item: Evidence) -> bool:
        if filter.types is not None and item.type not in filter.types:
            return False
        if filter.source_kinds is not None and item.source.kind not in filter.source_kinds:
            return False
        if filter.tags and not _has_tags(item, filter.tags):
            return False
        return (since is None and until is None) or _within(item, since, until)

    return list(islice((item for item in items if fits(item)), filter.limit))


def _has_tags(item: Evidence, tags: Mapping[str, str]) -> bool:
    item_tags = item.metadata.get("tags")
    return isinstance(item_tags, Mapping) and tags.items() <= item_tags.items()


def _within(item: Evidence, since: datetime | None, until: datetime | None) -> bool:
    at = parse_time(item.metadata.get("created_at"))
    return at is not None and (since is None or since <= at) and (until is None or at <= until)


def _bound(name: str, text: str | None) -> datetime | None:
    if text is None:
        return None
    moment = parse_time(text)
    if moment is None:
        raise SchemaValidationError(
            f"EvidenceFilter.{name} is {text!r}; expected a time such as 2026-01-31T12:00:00Z"
        )
    return moment


def chosen_blocks(items: Iterable[ContextBlock], filter: BlockFilter | None) -> list[ContextBlock]:
    """The first `limit` blocks that match every given part of the filter."""
    if filter is None:
        return list(items)
    ranks = list(Priority)
    tests: list[Callable[[ContextBlock], bool]] = []
    if (types := filter.block_types) is not None:
        tests.append(lambda item: item.block_type in types)
    if (priorities := filter.priorities) is not None:
        tests.append(lambda item: item.priority in priorities)
    if (least := filter.min_priority) is not None:
        tests.append(lambda item: ranks.index(item.priority) <= ranks.index(least))
    return list(islice((item for item in items if all(t(item) for t in tests)), filter.limit))
