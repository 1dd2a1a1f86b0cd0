"""What recognises a message, of the host's list or of the store, for reconcile (decision 4)."""

from __future__ import annotations

from collections.abc import Sequence

from ce_engine.prepare.reconcile.match import IncomingMessage
from ce_engine.schema.call import HostMessage
from ce_engine.schema.enums import Origin
from ce_engine.schema.rows import MessageRow
from ce_engine.turns.record.persistence_boundary import Ingest


def incoming(messages: Sequence[HostMessage], ingest: Ingest) -> list[IncomingMessage]:
    """The messages as reconcile knows them; each is made once for a session."""
    of = version(ingest)
    return [
        recognition[1]
        if (recognition := host.recognised) is not None and recognition[0] == of
        else _make_message(host, ingest)
        for host in messages
    ]


def _make_message(host: HostMessage, ingest: Ingest) -> IncomingMessage:
    message = _live(host, ingest)
    host.recognised = (version(ingest), message)
    return message


def version(ingest: Ingest) -> tuple[str, str]:
    """With another one of these, a message is recognised by something else."""
    return (ingest.fingerprinter.key_id, ingest.redactor_version)


def _live(host: HostMessage, ingest: Ingest) -> IncomingMessage:
    if host.origin is Origin.SYSTEM:
        return IncomingMessage(b"", "system")
    message, fingerprinter = host.message, ingest.fingerprinter
    key, loose = fingerprinter.message(message, host.media)
    return IncomingMessage(
        key=key,
        role=message.role.value,
        author=ingest.name(message.author.id) if message.author else None,
        origin=host.origin.value,
        calls=ingest.call_ids(message.tool_calls),
        call_id=ingest.id(message.tool_call_id),
        host_id=fingerprinter.mac("host-id", host.host_id) if host.host_id else None,
        loose_key=loose or None,
    )


def from_row(row: MessageRow, author: str | None) -> IncomingMessage:
    """A stored message, as it would be recognised in a host's list."""
    message = row.message
    return IncomingMessage(
        key=row.key,
        role=message.role.value,
        author=author,
        origin=row.origin,
        calls=tuple(call.id or "" for call in message.tool_calls or ()),
        call_id=message.tool_call_id,
        host_id=row.host_id,
        loose_key=row.loose_key or None,
    )
