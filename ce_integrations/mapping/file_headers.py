"""What the first bytes of a picture or a file tell: its format, size, pages, length. Nothing is decoded whole."""

from __future__ import annotations

import base64
import binascii
import io
import re
from dataclasses import dataclass
from itertools import islice

import imagesize


HEAD_BYTES = 4_096
"""Enough for the sizes of most pictures."""

SCAN_BYTES = 262_144
"""How far a JPEG is searched for its size, behind what cameras and editors write before it."""

WHOLE_BYTES = 1_048_576
"""A PDF up to here is searched whole for its pages; of a longer one the beginning and the end."""

END_BYTES = 65_536

MOST_PAGES = 1_000
"""No provider takes more, whatever a file claims."""

MOST_PIXELS = 1_000_000
"""A side that claims more is not believed."""

WAV_BYTES_PER_SECOND = range(4_000, 1_600_000)
"""From a telephone's to a studio's; other claims are not believed."""

_BASE64 = re.compile(rb"[A-Za-z0-9+/_\-\s]*={0,2}\s*")
_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"\xff\xd8\xff", "jpeg"),
    (b"GIF8", "gif"),
    (b"BM", "bmp"),
    (b"%PDF-", "pdf"),
    (b"ID3", "mp3"),
    (b"fLaC", "flac"),
    (b"OggS", "ogg"),
)
_RIFF = {b"WEBP": "webp", b"WAVE": "wav", b"AVI ": "avi"}
_PICTURES = frozenset({"png", "jpeg", "gif", "bmp", "webp"})
_PAGE = re.compile(rb"/Type\s{0,9}/Page(?![A-Za-z])")
_LINEAR_PAGES = re.compile(rb"/Linearized.{0,400}?/N\s{1,9}(\d{1,9})", re.DOTALL)
_PAGE_TREE = re.compile(rb"/Type\s{0,9}/Pages\b")
_COUNT = re.compile(rb"/Count\s{1,9}(\d{1,9})")
_NEAR = 500
"""Bytes on either side of a page tree's name in which its count stands."""
_MOST_TREES = 64


@dataclass(frozen=True, slots=True)
class Data:
    """Bytes, or base64 of them as it stands in a message, from `start` on."""

    raw: bytes | str
    is_base64: bool
    start: int = 0

    @classmethod
    def of(cls, value: str | bytes, start: int = 0) -> Data:
        """What a block has: text is base64, and so are bytes that look like it."""
        if isinstance(value, str):
            return cls(value, is_base64=True, start=start)
        return cls(value, is_base64=_BASE64.fullmatch(value[:HEAD_BYTES]) is not None)

    @property
    def size(self) -> int:
        """Bytes; of base64 with line ends in it, a little more than there are."""
        if not self.is_base64:
            return len(self.raw) - self.start
        return max(
            0,
            (len(self.raw) - self.start) * 3 // 4
            - _ascii(self.raw[max(self.start, len(self.raw) - 2) :]).count(b"="),
        )

    def head(self, size: int) -> bytes:
        """The first bytes."""
        if not self.is_base64:
            return _ascii(self.raw[self.start : self.start + size])
        return _decoded(_ascii(self.raw[self.start : self.start + size * 4 // 3 + 4]))[:size]

    def tail(self, size: int) -> bytes:
        """The last bytes."""
        if not self.is_base64:
            return _ascii(self.raw[max(self.start, len(self.raw) - size) :])
        begin = max(self.start, len(self.raw) - (size * 4 // 3 + 4))
        text = b"".join(_ascii(self.raw[begin:]).split())
        return _decoded(text[len(text) % 4 :])


def _ascii(part: bytes | str) -> bytes:
    return part.encode("ascii", "replace") if isinstance(part, str) else part


def _decoded(text: bytes) -> bytes:
    """As much of base64 as its whole groups give; empty for what is none."""
    text = b"".join(text.split()).replace(b"-", b"+").replace(b"_", b"/").rstrip(b"=")
    text = text[: len(text) // 4 * 4] if len(text) % 4 == 1 else text + b"=" * (-len(text) % 4)
    try:
        return base64.b64decode(text)
    except (binascii.Error, ValueError):
        return b""


def format_of(head: bytes) -> str:
    """The format that the first bytes have; empty for one that is not known."""
    if head[:4] == b"RIFF":
        return _RIFF.get(head[8:12], "")
    if head[4:8] == b"ftyp":
        return "mp4"
    return next((name for magic, name in _MAGIC if head.startswith(magic)), "")


def image_size(data: Data, file_type: str) -> tuple[int, int] | None:
    """Width and height in pixels of a picture in a format that is known."""
    if file_type not in _PICTURES:
        return None
    size = _size(data.head(HEAD_BYTES))
    if size is None and file_type == "jpeg" and data.size > HEAD_BYTES:
        size = _size(data.head(SCAN_BYTES))
    return size


def _size(head: bytes) -> tuple[int, int] | None:
    width, height = imagesize.get(io.BytesIO(head), exif_rotation=False)
    is_sound = 0 < width <= MOST_PIXELS and 0 < height <= MOST_PIXELS
    return (int(width), int(height)) if is_sound else None


def pdf_pages(data: Data) -> int | None:
    """How many pages a PDF has, where that can be read without unpacking it."""
    is_whole = data.size <= WHOLE_BYTES
    sample = data.head(WHOLE_BYTES) if is_whole else data.head(END_BYTES) + data.tail(END_BYTES)
    count = len(_PAGE.findall(sample)) if is_whole else 0
    if not count:
        claims = [*_LINEAR_PAGES.finditer(sample[:HEAD_BYTES])]
        for tree in islice(_PAGE_TREE.finditer(sample), _MOST_TREES):
            claims += _COUNT.finditer(sample, max(0, tree.start() - _NEAR), tree.end() + _NEAR)
        count = max((int(claim[1]) for claim in claims), default=0)
    return min(count, MOST_PAGES) or None


def wav_seconds(data: Data) -> float | None:
    """How long a sound without compression is."""
    per_second = int.from_bytes(data.head(32)[28:32], "little")
    return data.size / per_second if per_second in WAV_BYTES_PER_SECOND else None
