"""The audit log as JSON lines in a file that is rotated (B-05)."""

from __future__ import annotations

import json
import os
import threading
from datetime import UTC, datetime
from pathlib import Path

from ce_engine.errors import ConfigError
from ce_engine.schema.audit import AuditRecord


class JsonLinesAudit:
    """Appends a line of JSON for each record, in one write; several processes may share the file.

    A line is with the operating system when `write` returns: it outlives the process, and with
    `durable` the machine, too. The file and its folder's other parts are for this user alone (mode 0600).

    Args:
        path: the file; its folder must be there.
        max_bytes: a file as large as this is put aside as `NAME.TIME`, and a new one begun.
        keep: how many that were put aside stay; the oldest go first. `None` is all.
        durable: wait for the disk at every line.

    Raises:
        ConfigError: the file cannot be written.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        max_bytes: int = 64_000_000,
        keep: int | None = 10,
        durable: bool = False,
    ) -> None:
        self.path = Path(path)
        self._most, self._keep, self._durable = max_bytes, keep, durable
        self._lock = threading.Lock()
        try:
            os.close(self._open())
        except OSError as error:
            raise ConfigError(
                f"the audit log {str(self.path)!r} cannot be written ({error.strerror}): name a file in a "
                "folder that this user may write to"
            ) from error

    def write(self, record: AuditRecord) -> None:
        """Append a record.

        Raises:
            OSError: the disk is full, or the file may not be written any more.
        """
        line = json.dumps(record.as_dict(), ensure_ascii=True, separators=(",", ":")) + "\n"
        with self._lock:
            # Opened anew each time: another process may have put the file aside, or this one been forked.
            file = self._open()
            try:
                os.write(file, line.encode())
                if self._durable:
                    os.fsync(file)
                is_full = os.fstat(file).st_size >= self._most
            finally:
                os.close(file)
            if is_full:
                self._put_aside()

    def _open(self) -> int:
        return os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def _put_aside(self) -> None:
        # To the microsecond: a name that was taken already would be written over.
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        aside = self.path.with_name(f"{self.path.name}.{stamp}-{os.getpid()}")
        try:
            if self.path.stat().st_size >= self._most:  # else another process was faster
                self.path.rename(aside)
        except FileNotFoundError:
            return
        if self._keep is not None:
            old = sorted(self.path.parent.glob(f"{self.path.name}.*"))
            for each in old[: max(0, len(old) - self._keep)]:
                each.unlink(missing_ok=True)
