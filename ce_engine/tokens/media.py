"""What images cost, by the providers' public formulas."""

from __future__ import annotations

import math


IMAGE_TOKENS = 1_600
"""An image whose size is not known: more than either formula gives for a full screen."""

LOW_DETAIL_TOKENS = 85


def image_tokens(
    width: int | None = None,
    height: int | None = None,
    detail: str = "auto",
    provider: str = "openai",
) -> int:
    """Tokens of one image of `width` x `height` pixels.

    OpenAI: 85, plus 170 for each tile of 512 pixels after scaling into 2048 x 2048 and to a short side
    of 768. Anthropic: width x height / 750, at most 1,600.
    """
    if provider == "openai" and detail == "low":
        return LOW_DETAIL_TOKENS
    if not width or not height or width < 0 or height < 0:
        return IMAGE_TOKENS
    if provider == "anthropic":
        return min(IMAGE_TOKENS, math.ceil(width * height / 750))
    scale = min(1.0, 2048 / max(width, height))
    scale = min(scale, 768 / min(width * scale, height * scale) * scale)
    tiles = math.ceil(width * scale / 512) * math.ceil(height * scale / 512)
    return LOW_DETAIL_TOKENS + 170 * tiles
