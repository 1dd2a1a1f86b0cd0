"""The audit log as JSON lines in a file that is rotated (B-05)."""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO

from ce_engine.errors import ConfigError
from ce_engine.runtime.fork import renew_after_fork
from ce_engine.schema.audit import AuditRecord
from ce_engine.schema.times import parse_time
from ce_engine.stores.private_files import NO_WAIT, open_regular


logger = logging.getLogger("ce_engine.audit")

_STAMP, _NEXT = "%Y%m%dT%H%M%S.%fZ", timedelta(microseconds=1)
_ASIDE = re.compile(r"\.\d{8}T\d{6}\.\d{6}Z-\d+")
"""What stands behind the name of what was put aside."""
_LINE_BYTES = 16_384
"""Most records are shorter."""
_WRITING_S = 0.02
"""A write takes less."""
_LOOKS = 3


class JsonLinesAudit:
    """Appends a line of JSON for each record, in one write; several processes may share the file.

    Where one writes while another is held up within its line, an empty line may stand between; none is lost.

    A pipe may be in its place: what that does not take at once is lost, and nobody waits for it. A link is followed:
    what is put aside lies beside the file that it leads to.

    A line is with the operating system when `write` returns: it outlives the process, and with
    `durable` the machine, too. A file that is made here is for this user alone (mode 0600); one that is there keeps
    the rights that it has.

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
        self._renew()
        renew_after_fork(self._renew)
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

    def _renew(self) -> None:
        """Know nothing yet, and hold nothing: in a forked child nobody lets go of what a thread held."""
        self._begun: tuple[int, datetime | None] = (0, None)
        self._looked: datetime | None = None
        self._is_torn = False
        """Whether the last record was broken off within its line."""
        self._end = (0, 0)
        """The file, and where in it that was seen: another process has written since where it is longer."""
        self._lock = threading.Lock()

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
        state = os.fstat(file)
        if (state.st_ino, state.st_size) != self._end:
            look = _ends_within_a_line(self.path)
            self._is_torn = self._is_torn if look is None else look
        data = b"\n" + line if self._is_torn else line
        size = 0
        try:
            while size < len(data):
                size += os.write(file, data[size:])
        finally:
            if size:
                self._is_torn = data[size - 1 : size] != b"\n"
            is_file = stat.S_ISREG(state.st_mode)
            self._end = state.st_ino, os.lseek(file, 0, os.SEEK_CUR) if is_file else state.st_size

    def _put_old_aside(self, now: datetime | None) -> None:
        """Begin a new file where the first record of this one is older than a file's records may be."""
        if self._span is None or now is None:
            return
        try:
            number = self.path.stat().st_ino
        except FileNotFoundError:  # another process has just put it aside
            return
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
        """What was put aside, the oldest first; where the path is a link, beside the file itself."""
        path = self.path.resolve()
        candidates = (each for each in path.parent.iterdir() if each.name.startswith(path.name))
        return sorted(each for each in candidates if _ASIDE.fullmatch(each.name[len(path.name) :]))

    def _put_aside(self, number: int) -> None:
        # To the microsecond: a name that was taken already would be written over. Behind the newest: the clock may
        # have been ahead, and the oldest go first.
        now, path = datetime.now(UTC), self.path.resolve()
        if names := [each.name for each in self._aside()]:
            newest = names[-1].removeprefix(f"{path.name}.").partition("-")[0]
            with suppress(ValueError):
                now = max(now, datetime.strptime(newest, _STAMP).replace(tzinfo=UTC) + _NEXT)
        aside = path.with_name(f"{path.name}.{now.strftime(_STAMP)}-{os.getpid()}")
        try:
            if path.stat().st_ino == number:  # else another process was faster
                path.rename(aside)
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
    """When the first or the last record of a file was made that is whole; without one, when it was last written."""
    try:
        with open(path, "rb", opener=open_regular) as file:
            lines = _from_the_end(file) if last else iter(file)
            times = (time for line in lines if (time := _time_in(line)) is not None)
            written = datetime.fromtimestamp(os.fstat(file.fileno()).st_mtime, UTC)
            return next(times, written)
    except OSError:
        return None


def _time_in(line: bytes) -> datetime | None:
    try:
        return parse_time(str(json.loads(line)["ts"]))
    except (ValueError, LookupError, TypeError):
        return None


def _from_the_end(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file, the last first; what goes before is read as it is asked for."""
    place, rest, size = file.seek(0, os.SEEK_END), b"", _LINE_BYTES
    while place:
        begin = max(0, place - size)
        file.seek(begin)
        rest, *lines = (file.read(place - begin) + rest).split(b"\n")
        place, size = begin, 2 * size
        yield from reversed(lines)
    yield rest
