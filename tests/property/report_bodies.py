"""Whether the reports of an app's calls are of the bodies that its framework sent: as many messages, and their tokens."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from ce_engine.schema.rows import TurnRow
from ce_integrations.testing.contract_case import count


MARGIN, FRAME = 1.6, 24
"""Of an estimate over what a second counter finds: a share, and tokens a message."""


def judge_bodies(bodies: Iterable[bytes], turns: Sequence[TurnRow]) -> Counter[str]:
    """Compare the bodies of an app with the reports of its turns, whatever their order.

    Bodies of other than messages, and an app whose bodies are not one a turn (its model was asked
    again, or a cache answered), are counted and not judged.

    Returns:
        What was judged.

    Raises:
        AssertionError: a report is not of what was sent.
    """
    parsed: list[dict[str, Any]] = [json.loads(body) for body in bodies]
    told = [turn.report for turn in turns if turn.report]
    if len(parsed) != len(told) or not all("messages" in body for body in parsed):
        return Counter({"bodies and turns not one to one": 1})
    sent = sorted((count(body), len(body["messages"])) for body in parsed)
    reported = sorted((each["token_used"], each.get("messages_sent", 0)) for each in told)
    found = f"sent (tokens, messages) {sent}, reported {reported}"
    for (tokens, messages), (used, _) in zip(sent, reported, strict=True):
        assert tokens <= used <= tokens * MARGIN + FRAME * (messages + 2), found
    counts = sorted(messages for _, messages in sent)
    if counts[:1] != [1]:  # clients of some models write all messages into one
        assert counts == sorted(messages for _, messages in reported), found
    return Counter({"bodies as reported": len(sent)})
