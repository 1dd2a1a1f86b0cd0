"""What images cost, by the providers' public formulas."""

from __future__ import annotations

import math


IMAGE_TOKENS = 1_600
"""An image whose size or provider is not known: more than the formulas give for a full screen."""

LOW_DETAIL_TOKENS = 85

OPENAI_TILE_TOKENS = 170

GEMINI_TILE_TOKENS = 258


def image_tokens(
    width: int | None = None,
    height: int | None = None,
    detail: str = "auto",
    provider: str = "openai",
) -> int:
    """Tokens of one image of `width` x `height` pixels.

    OpenAI (of GPT-4o and 4.1; the small models of a family charge more): 85, plus 170 for each tile
    of 512 pixels after scaling into 2048 x 2048 and to a short side of 768. Anthropic: width x height
    / 750, at most 1,600. Gemini: 258 for each tile, whose side is two thirds of the short side, between
    256 and 768 pixels; one tile up to 384 x 384.
    """
    if provider == "openai" and detail == "low":
        return LOW_DETAIL_TOKENS
    if not width or not height or width < 0 or height < 0:
        return IMAGE_TOKENS
    if provider == "openai":
        return _openai(width, height)
    if provider == "anthropic":
        return min(IMAGE_TOKENS, math.ceil(width * height / 750))
    if provider in {"gemini", "google"}:
        return _gemini(width, height)
    return IMAGE_TOKENS


def _openai(width: int, height: int) -> int:
    scale = min(1.0, 2048 / max(width, height))
    scale = min(scale, 768 / min(width, height))
    return LOW_DETAIL_TOKENS + OPENAI_TILE_TOKENS * _tiles(width * scale, height * scale, 512)


def _gemini(width: int, height: int) -> int:
    if max(width, height) <= 384:
        return GEMINI_TILE_TOKENS
    side = min(768, max(256, min(width, height) // 1.5))
    return GEMINI_TILE_TOKENS * _tiles(width, height, side)


def _tiles(width: float, height: float, side: float) -> int:
    return math.ceil(width / side) * math.ceil(height / side)
