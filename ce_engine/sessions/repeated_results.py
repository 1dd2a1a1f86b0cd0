"""Results of tools by the call that they are of: a later one of the same call tells what is so by then."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from hashlib import blake2b

from ce_engine.schema.document import ToolRequest
from ce_engine.schema.enums import Role
from ce_engine.schema.json_text import canonical_json
from ce_engine.schema.rows import MessageRow
from ce_engine.schema.tool_runs import are_whole


class RepeatedResults:
    """The entries of a session's tool results, by tool and arguments; it grows with the session's rows.

    A call without arguments is no other one's again (`next_page()`), nor is one whose arguments are not stored whole.
    """

    def __init__(self) -> None:
        self._read = 0
        self._requests: dict[tuple[str, str], bytes] = {}  # by lane and the call's id, the newest
        self._results: dict[bytes, list[int]] = {}
        self._calls: dict[int, bytes] = {}

    def newest_first(self, n: int, rows: Sequence[MessageRow]) -> Iterator[int]:
        """The entries of the later results of an entry's call.

        Args:
            n: the entry.
            rows: all of the session, more of them with each call.
        """
        while self._read < len(rows):
            self._add(self._read, rows[self._read])
            self._read += 1
        results = self._results.get(self._calls.get(n, b""), [])
        for place in range(len(results) - 1, bisect_right(results, n) - 1, -1):
            yield results[place]

    def _add(self, n: int, row: MessageRow) -> None:
        if row.withheld:  # nobody knows what it asked for
            return
        own: dict[str, bytes] = {}
        for call in row.message.tool_calls or ():
            key, name = _key(call), call.id or ""
            own[name] = (
                key if own.get(name, key) == key else b""
            )  # some hosts give two calls one id
        self._requests |= {(row.lane_key, name): key for name, key in own.items()}
        if row.message.role is Role.TOOL and row.message.tool_call_id:
            call_key = self._requests.get((row.lane_key, row.message.tool_call_id))
            if call_key:
                self._calls[n] = call_key
                self._results.setdefault(call_key, []).append(n)


def _key(call: ToolRequest) -> bytes:
    """What tells a call from others; nothing where that cannot be told."""
    if not call.args or not are_whole(call.args):
        return b""
    text = f"{call.name}\n{canonical_json(call.args)}"
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


__all__ = ["RepeatedResults"]
