"""The newest messages of the talk, which stay when it is cut: what a question needs to be understood."""

from __future__ import annotations

from collections.abc import Sequence

from ce_engine.prepare.message_groups import MessageGroup


MESSAGES = 4
"""So many of the newest messages say what a question is about; what else it needs is found by relevance."""

SHARE = 0.1
"""Share of the room that they take at most, but for the newest turn: it is what little room is for."""


def tail(groups: Sequence[MessageGroup], room: int) -> int:
    """Tokens of the newest messages before the task that stay in any case, as far as `room` has a share for them."""
    newest = [group.tokens for group in groups if group.past][-MESSAGES:]
    return min(sum(newest), int(room * SHARE))
