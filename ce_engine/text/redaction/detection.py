"""Asks a detector of somebody else's, on a thread of its own, and for no longer than it may take (B-04)."""

from __future__ import annotations

import os
import queue
import re
import threading
import time
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import TypeVar

from ce_engine.errors import RedactionError
from ce_engine.ports.redaction import PiiDetector, PiiSpan
from ce_engine.schema.text_cache import text_cache
from ce_engine.schema.time_limits import TimeUpError
from ce_engine.text.redaction.scan import SensitiveSpan


T = TypeVar("T")

IDLE_S = 30.0
"""Seconds after which the thread ends that has nothing to do."""
SHORT = 80
"""Characters of a text whose findings are remembered, in memory only."""
LABEL = re.compile(r"[A-Z][A-Z_]{0,30}[A-Z]")
_HAS_WORD = re.compile(r"[^\W\d_]{2}")
_LEFT: ContextVar[list[float] | None] = ContextVar("ce_detection_left", default=None)


class _Job:
    __slots__ = ("done", "dropped", "found", "locale", "text")

    def __init__(self, text: str, locale: str) -> None:
        self.text, self.locale = text, locale
        self.done, self.dropped = threading.Event(), False
        self.found: list[PiiSpan] | BaseException = []


class Detection:
    """A detector as the patterns use it: `spans` gives what it found, or raises and never waits for long.

    Args:
        detector: see `PiiDetector`.
        min_score: what it is less sure of is left.
        timeout_s: seconds for one text; while one takes longer, every other is refused at once.

    Raises:
        RedactionError: a label of it cannot stand in a placeholder.
    """

    def __init__(self, detector: PiiDetector, min_score: float, timeout_s: float) -> None:
        self._detector, self._least, self._seconds = detector, min_score, timeout_s
        self.name = str(detector.name)
        self.labels = tuple(detector.labels)
        wrong = [label for label in self.labels if not LABEL.fullmatch(label)]
        if wrong:
            raise RedactionError(
                f"the detector {self.name!r} has labels that no placeholder can carry: {wrong}; "
                "expected capital letters and `_`, such as 'PERSON'"
            )
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._began, self._process = 0.0, os.getpid()
        self._lock = threading.Lock()
        self._short = text_cache(2048)(self._find_spans)

    def spans(self, text: str, locale: str) -> list[SensitiveSpan]:
        """What the detector finds in a text.

        Raises:
            RedactionError: it failed.
            TimeUpError: it took longer than it may.
        """
        if not _HAS_WORD.search(text):
            return []
        return [*(self._short if len(text) <= SHORT else self._find_spans)(text, locale)]

    def _find_spans(self, text: str, locale: str) -> tuple[SensitiveSpan, ...]:
        left, began = _LEFT.get(), time.monotonic()
        if left is not None and left[0] <= 0:
            raise TimeUpError("the detector took longer for the texts of one call than it may")
        try:
            spans = self._ask_detector(_Job(text, locale))
        finally:
            if left is not None:
                left[0] -= time.monotonic() - began
        return tuple(
            SensitiveSpan(*_trimmed(text, span), span.label, f"detector_{span.label.lower()}")
            for span in spans
            if span.score >= self._least
        )

    def _ask_detector(self, job: _Job) -> Sequence[PiiSpan]:
        self._start()
        self._jobs.put(job)
        while True:
            began = self._began
            wait = self._seconds - (time.monotonic() - began) if began else self._seconds
            if wait <= 0:
                job.dropped = True
                raise TimeUpError("the detector took longer for a text than it may")
            if job.done.wait(max(0.001, wait)):
                break
            self._start()
        if isinstance(job.found, BaseException):
            raise RedactionError(f"the detector failed: {type(job.found).__name__}")
        return job.found

    def _start(self) -> None:
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                return
            if self._process != os.getpid():  # a forked child has the queue, and no thread
                self._jobs, self._process = queue.SimpleQueue(), os.getpid()
            self._began = 0.0
            self._thread = threading.Thread(target=self._work, name="ce-detector", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        jobs = self._jobs
        while True:
            try:
                job = jobs.get(timeout=IDLE_S)
            except queue.Empty:
                return
            if job.dropped:
                continue
            self._began = time.monotonic()
            try:
                job.found = self._checked(job)
            except BaseException as error:  # noqa: BLE001 - somebody else's may raise anything
                job.found = error
            self._began = 0.0
            job.done.set()

    def _checked(self, job: _Job) -> list[PiiSpan]:
        spans = list(self._detector.detect(job.text, job.locale))
        for span in spans:
            if not 0 <= span.start < span.end <= len(job.text) or span.label not in self.labels:
                raise RedactionError("the detector gave a span that is not in the text")
        return spans


def _trimmed(text: str, span: PiiSpan) -> tuple[int, int]:
    """The bounds without the white space at either end."""
    part = text[span.start : span.end]
    start = span.start + len(part) - len(part.lstrip())
    return start, start + max(1, len(part.strip()))


def in_call(seconds: list[float], work: Callable[[], T]) -> T:
    """Do work whose questions to detectors take no longer than `seconds[0]` together, which goes down."""
    token = _LEFT.set(seconds)
    try:
        return work()
    finally:
        _LEFT.reset(token)
