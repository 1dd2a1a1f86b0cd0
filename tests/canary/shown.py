"""Pictures and files with canaries in whatever of them is text."""

from __future__ import annotations

from ce_engine import Attachment, AttachmentRecord
from tests.canary.canaries import Canaries


def attachment(c: Canaries) -> Attachment:
    """Of a live message."""
    return Attachment(
        kind=c("Attachment.kind"),
        format=c("Attachment.format"),
        name=c("Attachment.name"),
        detail=c("Attachment.detail"),
        digest=c("Attachment.digest"),
    )


def record(c: Canaries) -> AttachmentRecord:
    """As a caller might hand it in, though it is the engine's to make."""
    return AttachmentRecord(
        kind=c("AttachmentRecord.kind"),
        format=c("AttachmentRecord.format"),
        name=c("AttachmentRecord.name"),
        digest=c("AttachmentRecord.digest"),
    )
