"""Pictures and files at the persistence boundary: what they are is kept, what they show is not."""

from __future__ import annotations

from collections.abc import Sequence

from ce_engine.schema.call import UNREADABLE, Attachment, HostMessage
from ce_engine.schema.degradation import MESSAGE_UNMAPPED
from ce_engine.schema.document import AttachmentRecord
from ce_engine.turns.record.persistence_boundary import Ingest


def attachment_records(
    attachments: Sequence[Attachment], ingest: Ingest
) -> list[AttachmentRecord] | None:
    """What is stored of a message's attachments, names redacted; `None` for none."""
    return [_record(attachment, ingest) for attachment in attachments] or None


def unreadable(messages: Sequence[HostMessage], ingest: Ingest) -> list[str]:
    """The warnings of messages that could not be mapped: place in the call, and the type's name, redacted."""
    return [
        f"{MESSAGE_UNMAPPED}: #{n} {ingest.name(host.attachments[0].name)}"
        for n, host in enumerate(messages)
        if is_unreadable(host)
    ]


def is_unreadable(host: HostMessage) -> bool:
    """Whether it stands for a message that could not be mapped."""
    return bool(host.attachments) and host.attachments[0].kind == UNREADABLE


def _record(live: Attachment, ingest: Ingest) -> AttachmentRecord:
    digest = ingest.fingerprinter.mac("media", live.digest).hex() if live.digest else None
    return AttachmentRecord(
        kind=ingest.code(live.kind, "file"),
        format=ingest.code(live.format, "") or None,
        name=ingest.address(live.name) or None,
        width=live.width,
        height=live.height,
        size=live.size,
        pages=live.pages,
        digest=digest,
    )
