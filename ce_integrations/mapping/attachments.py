"""Pictures and files in the forms that providers and frameworks have for them, as the engine's attachments."""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ce_engine import Attachment, CharBasedEstimator
from ce_integrations.mapping.file_headers import (
    HEAD_BYTES,
    MOST_PIXELS,
    Data,
    format_of,
    image_size,
    pdf_pages,
    wav_seconds,
)


__all__ = ["attachment_of"]

KINDS: Mapping[str, str] = {
    **dict.fromkeys(("image", "image_url", "input_image"), "image"),
    **dict.fromkeys(("audio", "input_audio"), "audio"),
    "video": "video",
    **dict.fromkeys(
        ("file", "input_file", "document", "media", "text-plain", "inline_data"), "file"
    ),
}
"""What a block is, by its type; files are looked at more closely."""

TEXT_BYTES = 16_384
"""So much of a text is counted, and the rest by its share."""

_INSIDE = ("image_url", "file", "input_audio", "source", "inline_data", "metadata", "extras")
"""Where forms keep what others have in the block itself."""
_DATA = ("data", "base64", "file_data", "bytes", "image", "audio", "video")
_URL = ("url", "image_url", "video_url", "file_uri")
_MIME = (
    "mime_type",
    "media_type",
    "image_mimetype",
    "video_mimetype",
    "document_mimetype",
    "format",
)
_NAME = ("filename", "file_name", "name", "path", "title")
_NAMELESS = frozenset({"input_document"})
"""What LlamaIndex calls a document that nobody named."""
_DATA_URL = re.compile(r"data:([^;,]{0,100})(?:;[^;,]{0,100})*?(;base64)?,")
_FORMAT = re.compile(r"[a-z][a-z0-9-]{1,7}")
_TEXTS = frozenset({"json", "xml", "yaml", "csv", "md", "markdown", "html", "plain", "txt", "py"})
_ALIKE = {"jpg": "jpeg", "plain": "txt", "mpeg": "mp3", "x-wav": "wav", "markdown": "md"}
_ESTIMATOR = CharBasedEstimator()


def attachment_of(block: Mapping[Any, Any], digest: str = "") -> Attachment | None:
    """The picture or file that a block is; `None` for a block that is neither.

    Nothing is fetched, no file is read: what is not in the block is not known.
    """
    kind = KINDS.get(str(block.get("type") or next(iter(block), "")))
    if kind is None:
        return None
    fields = _flat(block)
    (mime, data), name = _content(fields), _name(fields)
    head = data.head(HEAD_BYTES) if data is not None else b""
    file_type = format_of(head) or _declared(mime, name)
    kind = _kind(mime, file_type) if kind == "file" else kind
    width, height = _declared_size(fields)
    detail = _first(fields, ("detail",)) or "auto"
    attachment = Attachment(kind, file_type, name, width, height, detail=detail, digest=digest)
    return attachment if data is None else _measured(attachment, data, mime, head)


def _measured(media: Attachment, data: Data, mime: str, head: bytes) -> Attachment:
    """With what its bytes tell."""
    size = image_size(data, media.format) if media.kind == "image" else None
    width, height = size or (media.width, media.height)
    return replace(
        media,
        width=width,
        height=height,
        size=data.size,
        pages=pdf_pages(data) if media.format == "pdf" else None,
        seconds=wav_seconds(data) if media.format == "wav" else None,
        tokens=_text_tokens(data, mime, media.format, head) if media.kind == "file" else None,
    )


def _content(fields: Mapping[Any, Any]) -> tuple[str, Data | None]:
    """What a block says that its content is, and the content, if it has it."""
    mime, data, text = _first(fields, _MIME), _bytes_of(fields), _text(fields)
    if text is not None:
        return mime, Data(text.encode("utf-8", "replace"), is_base64=False)
    url = _first(fields, _URL)
    if data is None and (match := _DATA_URL.match(url)):
        mime, begin = mime or match[1], match.end()
        data = (
            Data.of(url, begin)
            if match[2]
            else Data(url[begin:].encode("utf-8", "replace"), is_base64=False)
        )
    return mime, data


def _flat(block: Mapping[Any, Any]) -> dict[Any, Any]:
    """The fields of a block and of what stands inside it, which say more."""
    fields = {**block, "type": None}
    for key in _INSIDE:
        inner = block.get(key)
        if isinstance(inner, Mapping):
            fields |= inner
    return fields


def _first(fields: Mapping[Any, Any], names: Sequence[str]) -> str:
    for name in names:
        value = fields.get(name)
        if value is not None and not isinstance(value, Mapping | bytes):
            return str(value)
    return ""


def _bytes_of(fields: Mapping[Any, Any]) -> Data | None:
    for name in _DATA:
        value = fields.get(name)
        if isinstance(value, io.BytesIO) and not value.closed:
            value = value.getvalue()  # its position stays
        if isinstance(value, str | bytes) and value:
            if isinstance(value, str) and (match := _DATA_URL.match(value)):
                return Data.of(value, match.end())
            return Data.of(value)
    return None


def _text(fields: Mapping[Any, Any]) -> str | None:
    """The text that stands in a block as it is: Anthropic's sources, LangChain's `text-plain`."""
    text = fields.get("data") if fields.get("type") == "text" else fields.get("text")
    if fields.get("type") == "content":
        text = fields.get("content")
    if isinstance(text, Sequence) and not isinstance(text, str | bytes):
        parts = (part.get("text") for part in text if isinstance(part, Mapping))
        text = "".join(part for part in parts if isinstance(part, str))
    return text if isinstance(text, str) else None


def _name(fields: Mapping[Any, Any]) -> str:
    """The file's name, without the folders that it is in."""
    name = re.split(r"[/\\]", _first(fields, _NAME))[-1]
    return "" if name in _NAMELESS else name


def _declared(mime: str, name: str) -> str:
    """The format by what it is said to be."""
    for declaration in (mime.rpartition("/")[2], name.rpartition(".")[2] if "." in name else ""):
        word = declaration.partition(";")[0].partition("+")[0].strip().lower()
        word = _ALIKE.get(word, word)
        if _FORMAT.fullmatch(word):
            return word
    return ""


def _kind(mime: str, file_type: str) -> str:
    for kind in ("image", "audio", "video"):
        if mime.startswith(f"{kind}/"):
            return kind
    return {"wav": "audio", "mp3": "audio", "flac": "audio", "ogg": "audio"}.get(file_type, "file")


def _declared_size(fields: Mapping[Any, Any]) -> tuple[int | None, int | None]:
    width, height = fields.get("width"), fields.get("height")
    if not (isinstance(width, int) and isinstance(height, int)):
        return None, None
    is_sound = min(width, height) > 0 and max(width, height) <= MOST_PIXELS
    return (width, height) if is_sound else (None, None)


def _text_tokens(data: Data, mime: str, file_type: str, head: bytes) -> int | None:
    """What a file costs whose bytes are a text; an upper bound."""
    is_text = mime.startswith("text/") or file_type in _TEXTS
    if not is_text and (file_type or mime or b"\x00" in head or not _is_utf8(head)):
        return None
    part = data.head(TEXT_BYTES)
    tokens = _ESTIMATOR.estimate_text(part.decode("utf-8", "replace"))
    return tokens if data.size <= len(part) else -(-tokens * data.size // max(1, len(part)))


def _is_utf8(head: bytes) -> bool:
    try:
        # The last letter may be cut.
        return bool(codecs.getincrementaldecoder("utf-8")().decode(head))
    except UnicodeDecodeError:
        return False
