"""Results of tools by the call that they are of: a later one of the same call tells what is so by then."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from hashlib import blake2b

from ce_engine.schema.document import ToolRequest
from ce_engine.schema.enums import Role
from ce_engine.schema.json_text import canonical_json
from ce_engine.schema.rows import MessageRow


class RepeatedResults:
    """The entries of a session's tool results, by tool and arguments; it grows with the session's rows."""

    def __init__(self) -> None:
        self._read = 0
        self._requests: dict[tuple[str, str], bytes] = {}  # by lane and the call's id, the newest
        self._results: dict[bytes, list[int]] = {}
        self._calls: dict[int, bytes] = {}

    def later(self, n: int, rows: Sequence[MessageRow]) -> Sequence[int]:
        """The entries of the later results of an entry's call, oldest first.

        Args:
            n: the entry.
            rows: all of the session, more of them with each call.
        """
        while self._read < len(rows):
            self._add(self._read, rows[self._read])
            self._read += 1
        results = self._results.get(self._calls.get(n, b""), [])
        return results[bisect_right(results, n) :]

    def _add(self, n: int, row: MessageRow) -> None:
        if row.withheld:  # nobody knows what it asked for
            return
        for call in row.message.tool_calls or ():
            self._requests[row.lane_key, call.id or ""] = _key(call)
        if row.message.role is Role.TOOL and row.message.tool_call_id:
            call_key = self._requests.get((row.lane_key, row.message.tool_call_id))
            if call_key is not None:
                self._calls[n] = call_key
                self._results.setdefault(call_key, []).append(n)


def _key(call: ToolRequest) -> bytes:
    text = f"{call.name}\n{canonical_json(call.args)}"
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


__all__ = ["RepeatedResults"]
