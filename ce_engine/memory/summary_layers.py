"""Summaries in layers, for very long sessions: one a stretch of the talk, and one of those that are old (B-15)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ce_engine.config import SummaryConfig
from ce_engine.memory.rolling_summarizer import RollingSummarizer
from ce_engine.schema.document import Message, Summary
from ce_engine.text.quote import entry


BETWEEN = "\n\n"
"""Between the layers of a summary; inside of one there are no empty lines."""

_EMPTY_LINES = re.compile(r"\n\s*\n")


class LayeredSummarizer(RollingSummarizer):
    """Sums each stretch up by itself, and sums the oldest of these up again where they are too long.

    What was summed up once is not written anew with every turn, as `RollingSummarizer` does: facts of
    long ago are retold only when a layer is made of them. A stretch may have a quarter of
    `max_summary_tokens`, and the layer above half of them.
    """

    async def summarize(
        self,
        messages: Sequence[Message],
        existing_summary: Summary | None = None,
        config: SummaryConfig | None = None,
    ) -> Summary:
        config = config or SummaryConfig()
        most, layers, before = config.max_summary_tokens, list[str](), existing_summary
        if before is not None:
            layers = [layer for layer in before.content.split(BETWEEN) if layer]
            before = before.model_copy(update={"content": ""})
        part = config.model_copy(update={"max_summary_tokens": max(1, most // 4)})
        summary = await super().summarize(messages, before, part)
        newest = _EMPTY_LINES.sub("\n", summary.content)
        if layers and self._count(BETWEEN.join([*layers, newest])) > most:
            top, *stretches = layers
            text = "\n".join(map(entry, stretches))
            merged = await self._ask(top, text, max(1, most // 2), config.model)
            layers = [_EMPTY_LINES.sub("\n", merged)]
        return summary.model_copy(update={"content": BETWEEN.join([*layers, newest])})
