"""What pictures and files cost, by the providers' public formulas."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeVar

from ce_engine.schema.call import Attachment
from ce_engine.text.tokens.models import bare_name, begins


Value = TypeVar("Value")

UNKNOWN_SIDE = 1024
"""A picture of unknown size counts as one of 1024 x 1024 pixels: the formulas' own examples have it."""

MOST_PIXELS = 1_000_000
"""A side; what claims more counts as this."""

TILES: Mapping[str, tuple[int, int]] = {
    "": (85, 170),
    "computer-use": (65, 129),
    "gpt-5": (70, 140),
    "o1": (75, 150),
    "o3": (75, 150),
}
"""OpenAI: start of a model's name -> tokens of a picture, and of each tile of 512 pixels in it.

`gpt-4o-mini` is billed at 33 times what stands here, so that a picture has the price that it has
with `gpt-4o`. That is a matter of money: for the budget it counts as with `gpt-4o`.
"""

PATCHES: Mapping[str, float] = {
    "gpt-4.1-mini": 1.62,
    "gpt-4.1-nano": 2.46,
    "gpt-5-mini": 1.62,
    "gpt-5-nano": 2.46,
    "gpt-5.2": 1.2,
    "gpt-5.3": 1.2,
    "gpt-5.4": 1.2,
    "gpt-5.5": 1.2,
    "o4-mini": 1.72,
}
"""OpenAI's other formula: start of a model's name -> tokens for each patch of 32 pixels."""

PATCH = 32
MOST_PATCHES = 1_536
LOW_DETAIL_SIDE = 512

CLAUDE: Mapping[str, tuple[int, int]] = {"": (1_568, 1_600), "claude-opus-4-7": (2_576, 4_784)}
"""Anthropic: start of a model's name -> the long side that pictures are scaled to, and their most tokens."""

CLAUDE_PIXELS = 750
CLAUDE_PATCH = 28

GEMINI_TILE_TOKENS = 258
GEMINI_MOST = 3_072
GEMINI_3_TOKENS = 1_120
"""Gemini 3 pays for the resolution that is asked for; this is its default."""

PAGE_TOKENS: Mapping[str, int] = {"openai": 2_000, "anthropic": 3_000, "gemini": 560}
"""A page of a PDF, which goes in as its text and its picture; for Anthropic the most that it names."""

BYTES_PER_PAGE = 50_000
"""Of a PDF that does not tell its pages."""

AUDIO_PER_SECOND: Mapping[str, int] = {"openai": 10, "anthropic": 32, "gemini": 32}
AUDIO_BYTES_PER_SECOND = 4_000
"""Of compressed speech: less is hardly ever used."""

VIDEO_PER_SECOND = 295
VIDEO_BYTES_PER_SECOND = 60_000

FILE_TOKENS = 2_000
"""A file, a sound or a film of which nothing is known, such as one that has an id at the provider."""

BYTES_PER_TOKEN = 3
"""Of a file of any other kind, as an upper bound."""


_SELLERS: Mapping[str, str] = {
    "gpt": "openai",
    "openai": "openai",
    "claude": "anthropic",
    "anthropic": "anthropic",
    "gemini": "gemini",
    "google": "gemini",
}
"""Words in the names of models and providers."""


def image_tokens(
    width: int | None = None,
    height: int | None = None,
    detail: str = "auto",
    provider: str = "openai",
    model: str = "",
) -> int:
    """Tokens of one image of `width` x `height` pixels; where they are not known, of 1024 x 1024.

    OpenAI: a constant, plus a price for each tile of 512 pixels after scaling into 2048 x 2048 and to
    a short side of 768; small models of a family: a price for each patch of 32 pixels, of at most
    1,536. Anthropic: width x height / 750, or its patches of 28 pixels where they are more, at most
    1,600. Gemini: 258 for each tile, whose side is two thirds of the short side, between 256 and 768
    pixels, after scaling into 3072 x 3072; one tile up to 384 x 384.

    Args:
        width: in pixels.
        height: in pixels.
        detail: `"low"`, `"high"` or `"auto"`, as OpenAI has it.
        provider: `"openai"`, `"anthropic"` or `"gemini"`; for others and without one OpenAI's formula.
        model: its name says more, and goes before `provider`.
    """
    name, is_known = bare_name(model), bool(width and height and width > 0 and height > 0)
    size = (width, height) if is_known else (UNKNOWN_SIDE, UNKNOWN_SIDE)
    w, h = (float(min(side or 0, MOST_PIXELS)) for side in size)
    seller = provider_of(name, provider)
    if seller == "anthropic":
        return _claude(w, h, name)
    if seller == "gemini":
        return GEMINI_3_TOKENS if begins(name, "gemini-3") else _gemini(w, h)
    return _openai(w, h, name, is_low=detail == "low")


def attachment_tokens(
    attachment: Attachment, model: str | None = None, provider: str | None = None
) -> tuple[int, bool]:
    """Tokens of a picture or a file, and whether they are more than a guess.

    A guess stands where the size is not known: of a picture behind a URL, of a document that does
    not tell its pages, of a file that the provider has.
    """
    if attachment.tokens is not None:
        return attachment.tokens, True
    name = bare_name(model or "")
    seller = provider_of(name, provider or "")
    if attachment.kind == "image":
        tokens = image_tokens(attachment.width, attachment.height, attachment.detail, seller, name)
        is_flat = begins(name, "gemini-3") or (seller == "openai" and attachment.detail == "low")
        return tokens, is_flat or bool(attachment.width and attachment.height)
    if attachment.pages:
        return attachment.pages * PAGE_TOKENS[seller], True
    if attachment.seconds is not None:
        return math.ceil(attachment.seconds * _per_second(attachment.kind, seller)), True
    if attachment.size is None:
        return FILE_TOKENS, False
    return min(
        _by_size(attachment, attachment.size, seller), _share(attachment.size, BYTES_PER_TOKEN)
    ), False


def provider_of(model: str, provider: str = "") -> str:
    """Whose formula counts: the model's by its bare name, else that of `provider`, else OpenAI's."""
    for name in (model, provider.lower()):
        for word, seller in _SELLERS.items():
            if word in name:
                return seller
    return "openai"


def _by_size(attachment: Attachment, size: int, seller: str) -> int:
    if attachment.format == "pdf":
        return _share(size, BYTES_PER_PAGE) * PAGE_TOKENS[seller]
    if attachment.kind == "audio":
        return _share(size * _per_second(attachment.kind, seller), AUDIO_BYTES_PER_SECOND)
    if attachment.kind == "video":
        return _share(size * _per_second(attachment.kind, seller), VIDEO_BYTES_PER_SECOND)
    return _share(size, BYTES_PER_TOKEN)


def _per_second(kind: str, seller: str) -> int:
    return VIDEO_PER_SECOND if kind == "video" else AUDIO_PER_SECOND[seller]


def _share(size: int, per: int) -> int:
    return -(-size // per)


def _openai(width: float, height: float, name: str, *, is_low: bool) -> int:
    per_patch = _longest(PATCHES, name)
    if per_patch is not None:
        if is_low:
            width, height = _into(width, height, LOW_DETAIL_SIDE)
        return math.ceil(_patches(width, height) * per_patch - 1e-9)
    base, per_tile = _longest(TILES, name) or TILES[""]
    if is_low:
        return base
    width, height = _into(width, height, 2048)
    scale = min(1.0, 768 / min(width, height))
    return base + per_tile * _tiles(width * scale, height * scale, 512)


def _patches(width: float, height: float) -> int:
    count = _tiles(width, height, PATCH)
    if count <= MOST_PATCHES:
        return count
    scale = math.sqrt(PATCH * PATCH * MOST_PATCHES / (width * height))
    across, down = width * scale / PATCH, height * scale / PATCH
    scale *= min(max(1, math.floor(side)) / side for side in (across, down))
    return min(MOST_PATCHES, _tiles(width * scale, height * scale, PATCH))


def _claude(width: float, height: float, name: str) -> int:
    side, most = _longest(CLAUDE, name) or CLAUDE[""]
    width, height = _into(width, height, side)
    tokens = max(math.ceil(width * height / CLAUDE_PIXELS), _tiles(width, height, CLAUDE_PATCH))
    return min(most, tokens)


def _gemini(width: float, height: float) -> int:
    width, height = _into(width, height, GEMINI_MOST)
    if max(width, height) <= 384:
        return GEMINI_TILE_TOKENS
    side = min(768.0, max(256.0, min(width, height) // 1.5))
    return GEMINI_TILE_TOKENS * _tiles(width, height, side)


def _into(width: float, height: float, side: int) -> tuple[float, float]:
    """The size after scaling down into a square; no side is less than a pixel."""
    scale = min(1.0, side / max(width, height))
    return max(1.0, width * scale), max(1.0, height * scale)


def _tiles(width: float, height: float, side: float) -> int:
    # A side that was scaled to be a multiple exactly may be a hair more.
    return max(1, math.ceil(width / side - 1e-9)) * max(1, math.ceil(height / side - 1e-9))


def _longest(table: Mapping[str, Value], name: str) -> Value | None:
    fitting = [start for start in table if begins(name, start) or not start]
    return table[max(fitting, key=len)] if fitting else None
