"""An audit log in memory."""

from __future__ import annotations

from ce_engine import AuditRecord


class Records(list[AuditRecord]):
    """A sink that keeps everything."""

    def write(self, record: AuditRecord) -> None:
        self.append(record)
