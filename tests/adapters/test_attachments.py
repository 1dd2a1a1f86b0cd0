"""Pictures and files, in the forms of providers and frameworks: what is known of them, and what they cost."""

from __future__ import annotations

import hashlib
import io
import random
import struct
import tracemalloc
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from PIL import Image

from ce_engine import Attachment
from ce_engine.text.tokens import attachment_tokens
from ce_integrations.mapping.attachments import attachment_of
from ce_integrations.mapping.content_blocks import beside_text, media_digests
from ce_integrations.mapping.file_headers import Data, image_size, pdf_pages
from ce_integrations.testing.adapter_pictures import png


PNG = png(640, 480)
URL = f"data:image/png;base64,{b64encode(PNG).decode()}"
PDF = b"%PDF-1.4\n1 0 obj\n<</Type /Pages /Count 3>>\n" + b"<< /Type/Page >>\n" * 3
TEXT = "你好, world. " * 20


def b64(data: bytes) -> str:
    return b64encode(data).decode()


def made(kind: str, width: int = 640, height: int = 480, **more: Any) -> bytes:
    """A real picture, as its writer makes it."""
    out = io.BytesIO()
    Image.new("RGB", (width, height), "red").save(out, kind, **more)
    return out.getvalue()


def of(block: dict[str, Any]) -> Attachment:
    found = attachment_of(block)
    assert found is not None
    return found


PICTURES: dict[str, dict[str, Any]] = {
    "openai": {"type": "image_url", "image_url": {"url": URL, "detail": "high"}},
    "openai, a text": {"type": "image_url", "image_url": URL},
    "responses": {"type": "input_image", "image_url": URL},
    "anthropic": {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": b64(PNG)},
    },
    "google": {"type": "media", "mime_type": "image/png", "data": PNG},
    "google, inline": {"inline_data": {"mime_type": "image/png", "data": b64(PNG)}},
    "langchain 1": {"type": "image", "base64": b64(PNG), "mime_type": "image/png"},
    "langchain 0.3": {
        "type": "image",
        "source_type": "base64",
        "data": b64(PNG),
        "mime_type": "image/png",
    },
    "llamaindex": {"type": "image", "image": b64encode(PNG), "path": None, "url": None},
    "llamaindex, a stream": {"type": "image", "image": io.BytesIO(PNG)},
    "as a file": {"type": "file", "base64": b64(PNG), "mime_type": "image/png"},
    "said to be a jpeg": {"type": "image", "base64": b64(PNG), "mime_type": "image/jpeg"},
    "for URLs": {"type": "image", "base64": urlsafe_b64encode(PNG).decode()},
    "in lines": {"type": "image", "base64": "\n".join([b64(PNG)[:76], b64(PNG)[76:]])},
}


@pytest.mark.parametrize("form", PICTURES)
def test_a_picture_s_size_is_read_from_it_in_every_form(form: str) -> None:
    found = of(PICTURES[form])
    assert (found.kind, found.format, found.width, found.height) == ("image", "png", 640, 480)
    assert found.size is not None
    assert abs(found.size - len(PNG)) <= (form == "in lines")
    assert attachment_tokens(found) == (85 + 2 * 170, True)


@pytest.mark.parametrize(
    ("data", "known"),
    [
        (made("JPEG"), "jpeg"),
        (made("GIF"), "gif"),
        (made("WEBP"), "webp"),
        (made("WEBP", lossless=True), "webp"),
        (made("JPEG", exif=b"Exif\0\0" + b"\0" * 60_000), "jpeg"),
        (made("JPEG", icc_profile=b"\0" * 150_000, comment=b"x" * 9_000), "jpeg"),
    ],
    ids=["jpeg", "gif", "webp", "webp, lossless", "behind exif", "far behind"],
)
def test_sizes_of_what_is_used(data: bytes, known: str) -> None:
    found = of({"type": "image", "base64": b64(data)})
    assert (found.format, found.width, found.height) == (known, 640, 480)


BROKEN = {
    "nothing": b"",
    "no picture": b"hello, this is no picture",
    "a beginning": PNG[:12],
    "no size": b"\xff\xd8\xff\xe0" + b"\0" * 400,
    "a side of none": png(0, 480),
    "a side of billions": PNG[:16] + struct.pack(">II", 2**31, 5) + PNG[24:],
    "negative": b"GIF89a" + struct.pack("<HH", 60_000, 60_000) + b"\0" * 90,
    "svg": b"<svg xmlns='http://www.w3.org/2000/svg' width='1e9' height='10'/>",
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_cannot_be_read_counts_as_a_default_and_says_so(name: str) -> None:
    found = of({"type": "image", "base64": b64(BROKEN[name]), "mime_type": "image/png"})
    assert (found.width, found.height) == (None, None)
    assert attachment_tokens(found) == (765, False)


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "base64": "a"},
        {"type": "image", "base64": "é" * 9},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,====="}},
        {"type": "image_url", "image_url": {"url": "data:,\ud800"}},
        {"type": "image_url", "image_url": None},
        {"type": "image", "width": 10**400, "height": 1},
        {"type": "image", "width": -3, "height": 1},
        {"type": "file", "file": "?", "filename": 7},
        {"type": "document", "source": {"type": "content", "content": [None, {"text": 3}]}},
        {"type": "text-plain", "text": "\ud800"},
    ],
)
def test_whatever_a_block_has_is_mapped(block: dict[str, Any]) -> None:
    tokens, _ = attachment_tokens(of(block), "gpt-4o")
    assert 0 <= tokens <= 2_000


def test_a_url_is_not_opened_and_its_size_is_taken_from_the_block() -> None:
    there = {"type": "image", "url": "https://example.org/a.png"}
    assert attachment_tokens(of(there)) == (765, False)
    assert attachment_tokens(of({**there, "width": 64, "height": 64})) == (255, True)
    low = {"type": "image_url", "image_url": {"url": there["url"], "detail": "low"}}
    assert attachment_tokens(of(low), "gpt-4o") == (85, True)
    assert attachment_tokens(of(low), "claude-sonnet-4-5")[1] is False


@pytest.mark.parametrize(
    "block",
    [
        {"type": "file", "file": {"filename": "报告.pdf", "file_data": f"data:application/pdf;base64,{b64(PDF)}"}},
        {"type": "input_file", "filename": "C:\\docs\\报告.pdf", "file_data": b64(PDF)},
        {"type": "document", "title": "报告.pdf", "source": {"type": "base64", "data": b64(PDF)}},
        {"type": "file", "base64": b64(PDF), "extras": {"filename": "/home/li/报告.pdf"}},
        {"type": "media", "mime_type": "application/pdf", "data": PDF, "name": "报告.pdf"},
        {"type": "document", "data": b64encode(PDF), "path": "x/报告.pdf", "title": "input_document"},
    ],
    ids=["openai", "responses", "anthropic", "langchain", "google", "llamaindex"],
)  # fmt: skip
def test_a_document_has_its_name_and_pages_in_every_form(block: dict[str, Any]) -> None:
    found = of(block)
    assert (found.kind, found.format, found.name) == ("file", "pdf", "报告.pdf")
    assert (found.pages, found.size) == (3, len(PDF))
    assert attachment_tokens(found, "gpt-4o") == (6_000, True)
    assert attachment_tokens(found, "claude-opus-4-1") == (9_000, True)


def test_a_document_without_pages_counts_by_its_size() -> None:
    small = of({"type": "file", "base64": b64(b"%PDF-1.4\n")})
    assert (small.pages, attachment_tokens(small)) == (None, (3, False))
    large = of({"type": "file", "base64": b64(b"%PDF-1.7\n" + b"\xaa" * 120_000)})
    assert attachment_tokens(large) == (3 * 2_000, False)
    gone = of({"type": "file", "file": {"file_id": "file-1"}})
    assert attachment_tokens(gone) == (2_000, False)


def test_pages_of_long_documents_are_read_at_their_ends() -> None:
    middle = b"\xaa" * 1_200_000
    first = b"%PDF-1.5\n<</Linearized 1/L 9/N 12/T 3>>" + middle
    last = b"%PDF-1.5\n" + middle + b"<</Kids [1 0 R] /Type/Pages /Count 40 >>"
    turned = b"%PDF-1.5\n" + middle + b"<</Count 41 /Type /Pages>>"
    huge = b"%PDF-1.5\n" + middle + b"<</Count 999999999 /Type /Pages>>"
    for data, pages in ((first, 12), (last, 40), (turned, 41), (huge, 1_000)):
        assert pdf_pages(Data.of(data)) == pdf_pages(Data.of(b64(data))) == pages


def test_text_files_cost_their_text() -> None:
    forms: list[dict[str, Any]] = [
        {"type": "text-plain", "text": TEXT, "title": "t.txt"},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": TEXT}},
        {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": TEXT}]}},
        {"type": "file", "base64": b64(TEXT.encode()), "mime_type": "text/csv"},
        {"type": "file", "base64": b64(TEXT.encode()), "extras": {"filename": "notes.md"}},
        {"type": "file", "base64": b64(TEXT.encode())},
    ]  # fmt: skip
    costs = {attachment_tokens(of(form)) for form in forms}
    assert len(costs) == 1
    ((tokens, is_known),) = costs
    assert is_known
    assert len(TEXT) / 3 < tokens < len(TEXT.encode())
    long = of({"type": "file", "base64": b64(TEXT.encode() * 1_000), "mime_type": "text/plain"})
    assert 900 * tokens < attachment_tokens(long)[0] < 1_100 * tokens


def test_sounds_cost_their_seconds() -> None:
    head = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0" + struct.pack("<II", 16_000, 32_000)
    two = {"data": b64(head + b"\0" * (64_000 - len(head))), "format": "wav"}
    found = of({"type": "input_audio", "input_audio": two})
    assert (found.kind, found.format, found.seconds) == ("audio", "wav", 2.0)
    assert attachment_tokens(found, "gpt-4o-audio-preview") == (20, True)
    assert attachment_tokens(found, "gemini-2.5-flash") == (64, True)
    lies = b64(head[:28] + struct.pack("<I", 1) + b"\0" * 64_000)
    assert of({"type": "audio", "base64": lies}).seconds is None
    mp3 = of({"type": "audio", "base64": b64(b"ID3" + b"\0" * 39_997)})
    assert attachment_tokens(mp3, "gpt-4o-audio-preview") == (100, False)


def test_results_of_tools_have_their_pictures() -> None:
    result = {"type": "tool_result", "tool_use_id": "c1", "content": [PICTURES["anthropic"]]}
    beside = beside_text([result])
    assert [(each.width, each.height) for each in beside.attachments] == [(640, 480)]
    assert len(beside.digests) == 1


def test_only_the_beginning_of_a_picture_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    head = Data.head

    def noted(self: Data, size: int) -> bytes:
        seen.append(len(found := head(self, size)))
        return found

    monkeypatch.setattr(Data, "head", noted)
    of({"type": "image", "base64": b64(PNG + b"\0" * 10_000_000)})
    assert max(seen) <= 4_096
    assert image_size(Data.of(b"\xff\xd8\xff\xe0" + b"\0" * 10_000_000), "jpeg") is None
    assert max(seen) <= 262_144


BIG = 10_000_000
LARGE: dict[str, Callable[[bytes], dict[str, Any]]] = {
    "base64": lambda data: {"type": "image", "base64": b64(data)},
    "a data URL": lambda data: {
        "type": "image_url",
        "image_url": {"url": f"data:image/png;base64,{b64(data)}"},
    },
    "bytes": lambda data: {"type": "image", "image": data},
    "a file in memory": lambda data: {"type": "image", "image": io.BytesIO(data)},
}


@pytest.mark.parametrize("form", LARGE)
def test_a_large_picture_is_told_apart_by_a_bounded_part_of_it(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = LARGE[form]

    def digest(data: bytes) -> str:
        return beside_text([made(data)]).digests[0]

    data = PNG + random.Random(1).randbytes(BIG)
    known, block = digest(data), made(data)
    assert known == digest(bytes(bytearray(data)))
    for at in (
        len(PNG),
        BIG // 2,
        len(data) - 9,
    ):  # the middle: as one part of a picture that changed
        assert digest(data[:at] + bytes(60_000) + data[at + 60_000 :]) != known
    assert digest(data + b"\0" * 3) != known
    read, hashed = 0, hashlib.blake2b

    class Counting:
        def __init__(self, data: bytes = b"", **how: Any) -> None:
            self.hash = hashed(**how)
            self.update(data)

        def update(self, data: bytes) -> None:
            nonlocal read
            read += len(data)
            self.hash.update(data)

        def hexdigest(self) -> str:
            return self.hash.hexdigest()

    monkeypatch.setattr(hashlib, "blake2b", Counting)
    tracemalloc.start()
    beside_text([block])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 0 < read < 2_000_000
    assert peak < 2_000_000, "nor is it copied"


def test_a_small_file_is_told_apart_by_all_of_it() -> None:
    data = bytearray(PNG + bytes(1_000_000))
    seen = set()
    for at in range(0, len(data), 99_991):
        data[at] ^= 1
        seen |= {beside_text([form(bytes(data))]).digests[0] for form in LARGE.values()}
    assert len(seen) == 11 * 3  # bytes and a file in memory are the same


class Live:
    """What an app holds: its name is its address."""

    def __init__(self, data: bytes) -> None:
        self.data = data


class Broken(Live):
    def tobytes(self) -> bytes:
        raise OSError(f"image file is truncated ({len(self.data)} bytes not processed)")


def test_a_picture_that_is_an_object_is_told_apart_by_its_bytes() -> None:
    sizes = {"red": (2, 1), "blue": (2, 1), "redder": (1, 2)}
    shown = {name: Image.new("RGB", size, name.removesuffix("der")) for name, size in sizes.items()}
    blocks = [{"type": "image", "image": each} for each in (shown["red"].copy(), *shown.values())]
    copy, red, *others = (media_digests([block]) for block in blocks)
    assert copy == red
    assert len({red, *others}) == len(shown)


@pytest.mark.parametrize("kind", [Live, Broken])
def test_an_object_of_which_nothing_is_known_has_no_digest(kind: type[Live]) -> None:
    """Its address tells nothing: another one may stand there next."""
    block = {"type": "image", "image": kind(b"red"), "detail": "图"}
    found = beside_text([block, {"type": "image", "image": "cmVk"}])
    assert media_digests([block]) == ()
    assert len(found.digests) == 1
    assert [each.digest for each in found.attachments] == ["", *found.digests]


def test_values_that_say_what_they_are_count_by_that() -> None:
    named = [
        {"type": "file", "at": each} for each in (Path("a"), Path("b"), Path("a"), UUID(int=7))
    ]
    first, second, again, last = (beside_text([each]).digests for each in named)
    assert first == again
    assert len({*first, *second, *last}) == 3
