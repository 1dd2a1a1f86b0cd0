"""The audit log as JSON lines in a file that is rotated (B-05)."""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ce_engine.errors import ConfigError
from ce_engine.schema.audit import AuditRecord
from ce_engine.schema.times import parse_time
from ce_engine.stores.private_files import NO_WAIT, open_regular


logger = logging.getLogger("ce_engine.audit")

_STAMP, _NEXT = "%Y%m%dT%H%M%S.%fZ", timedelta(microseconds=1)
_ASIDE = re.compile(r"\.\d{8}T\d{6}\.\d{6}Z-\d+")
"""What stands behind the name of what was put aside."""
_LINE_BYTES = 16_384
"""A record is shorter."""
_WRITING_S = 0.02
"""A write takes less."""
_LOOKS = 3


class JsonLinesAudit:
    """Appends a line of JSON for each record, in one write; several processes may share the file.

    A pipe may be in its place: what that does not take at once is lost, and nobody waits for it.

    A line is with the operating system when `write` returns: it outlives the process, and with
    `durable` the machine, too. The file and its folder's other parts are for this user alone (mode 0600).

    Args:
        path: the file; its folder must be there.
        max_bytes: a file as large as this is put aside as `NAME.TIME`, and a new one begun.
        keep: how many that were put aside stay; the oldest go first. `None` is all.
        max_age: no record stays longer, and none goes before nine tenths of it; it takes a next record, or a next
            process, to look. What else lies beside the file is never touched.
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
        max_age: timedelta | None = None,
        durable: bool = False,
    ) -> None:
        self.path = Path(path)
        self._most, self._keep, self._durable = max_bytes, keep, durable
        self._span = max_age / 20 if max_age is not None else None
        """Of time that one file holds."""
        self._begun: tuple[int, datetime | None] = (0, None)
        self._looked: datetime | None = None
        self._is_torn: bool | None = None
        """Whether the last record was broken off within its line; `None` until there was a look."""
        self._lock = threading.Lock()
        try:
            os.close(self._open())
        except OSError as error:
            if error.errno == errno.ENXIO and self.path.is_fifo():
                # Its reader may come in a moment: the app starts all the same.
                logger.warning(
                    "the audit log %r is a pipe that nobody reads: records are lost until its reader is started",
                    str(self.path),
                )
                return
            raise ConfigError(
                f"the audit log {str(self.path)!r} cannot be written ({error.strerror}): name a file in a "
                "folder that this user may write to"
            ) from error

    def write(self, record: AuditRecord) -> None:
        """Append a record.

        Raises:
            OSError: the disk is full, the file may not be written any more, or a pipe takes no more.
        """
        line = json.dumps(record.as_dict(), ensure_ascii=True, separators=(",", ":")) + "\n"
        now = parse_time(record.ts)
        with self._lock:
            self._put_old_aside(now)
            # Opened anew each time: another process may have put the file aside, or this one been forked.
            file = self._open()
            try:
                self._append(file, line.encode())
                if self._durable:
                    os.fsync(file)
                state = os.fstat(file)
            finally:
                os.close(file)
            if state.st_size >= self._most:
                self._put_aside(state.st_ino)
            self._forget(now)

    def _open(self) -> int:
        # A pipe that nobody reads, or that is full, refuses: the record is lost, and the app's call goes on.
        return os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | NO_WAIT, 0o600)

    def _append(self, file: int, line: bytes) -> None:
        """Write a line to its last byte, after the end of one that was broken off."""
        if self._is_torn is not False:  # before the first record, and after one that failed
            look = _ends_within_a_line(self.path)
            self._is_torn = bool(self._is_torn) if look is None else look
        data = b"\n" + line if self._is_torn else line
        size = 0
        try:
            while size < len(data):
                size += os.write(file, data[size:])
        finally:
            if size:
                self._is_torn = data[size - 1 : size] != b"\n"

    def _put_old_aside(self, now: datetime | None) -> None:
        """Begin a new file where the first record of this one is older than a file's records may be."""
        if self._span is None or now is None or not self.path.exists():
            return
        number = self.path.stat().st_ino
        if self._begun[0] != number or self._begun[1] is None:
            self._begun = number, _time_of(self.path, last=False)
        begun = self._begun[1]
        if begun is not None and now - begun >= self._span:
            self._put_aside(number)

    def _forget(self, now: datetime | None) -> None:
        """Delete what was put aside and has records that are too old; looked for once in a file's time."""
        if self._span is None or now is None:
            return
        if self._looked is not None and now - self._looked < self._span:
            return
        self._looked = now
        for path in self._aside():
            last = _time_of(path, last=True)
            if last is not None and now - last >= 18 * self._span:
                path.unlink(missing_ok=True)

    def _aside(self) -> list[Path]:
        """What was put aside, the oldest first."""
        name, there = self.path.name, self.path.parent.iterdir()
        candidates = (path for path in there if path.name.startswith(name))
        return sorted(path for path in candidates if _ASIDE.fullmatch(path.name.removeprefix(name)))

    def _put_aside(self, number: int) -> None:
        # To the microsecond: a name that was taken already would be written over. Behind the newest: the clock may
        # have been ahead, and the oldest go first.
        now, names = datetime.now(UTC), [path.name for path in self._aside()]
        if names:
            newest = names[-1].removeprefix(f"{self.path.name}.").partition("-")[0]
            with suppress(ValueError):
                now = max(now, datetime.strptime(newest, _STAMP).replace(tzinfo=UTC) + _NEXT)
        aside = self.path.with_name(f"{self.path.name}.{now.strftime(_STAMP)}-{os.getpid()}")
        try:
            if self.path.stat().st_ino == number:  # else another process was faster
                self.path.rename(aside)
        except FileNotFoundError:
            return
        if self._keep is not None:
            old = self._aside()
            for path in old[: max(0, len(old) - self._keep)]:
                path.unlink(missing_ok=True)


def _ends_within_a_line(path: Path) -> bool | None:
    """Whether the last record was broken off, by whichever process; `None` where that cannot be seen."""
    size = 0
    try:
        for _ in range(_LOOKS):
            with open(path, "rb", opener=open_regular) as file:
                known_size, size = size, file.seek(0, os.SEEK_END)
                file.seek(max(0, size - 1))
                if file.read(1) in (b"", b"\n"):
                    return False
            if size == known_size:
                return True
            time.sleep(_WRITING_S)  # another process may be writing just now
    except OSError:
        pass
    return None


def _time_of(path: Path, *, last: bool) -> datetime | None:
    """When the first or the last record of a file was made; `None` where no line tells."""
    try:
        with open(path, "rb", opener=open_regular) as file:
            if last:
                file.seek(max(0, path.stat().st_size - _LINE_BYTES))
            lines = file.read(_LINE_BYTES).splitlines()
        return parse_time(str(json.loads(lines[-1 if last else 0])["ts"]))
    except (OSError, ValueError, LookupError, TypeError):
        return None
