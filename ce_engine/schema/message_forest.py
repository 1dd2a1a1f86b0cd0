"""What the engine remembers of a session's messages: a forest of entries with its indexes, in memory."""

from __future__ import annotations

from bisect import insort
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass


@dataclass(slots=True)
class Entry:
    """A stored message, reduced to what recognises it.

    References to other entries are positions in the same log (`n`), never ids.

    Attributes:
        message_id: its id in the store.
        key: keyed fingerprint of the live canonical content, tool names and arguments included (16
            bytes). It holds neither role nor author nor the host's tool-call ids.
        role: `"user"`, `"assistant"` or `"tool"`; system messages are not stored.
        parent: the message before it in the list where it was first seen, tool results skipped; for
            a tool result the message that asked for it; `None` for the root of a lane.
        speaker: the author, else the agent for an assistant message; `None` where nobody is named.
        calls: the host's ids of the tool calls that it asks for, in order.
        call_id: the host's id of the call that it answers.
        host_id: MAC of the framework's own message id.
        loose_key: fingerprint without white space, thinking and citations (calls included), of answers.
        replaces: the entry that the host edited into this one.
        variant_of: the answer in whose place this one stands or was generated.
        aside: first seen among older messages (a host summary, an edit, a preload): on no path.
        tokens: of the live content, with framing.
        seq: the store's number, once it is written.
        lane_key: the framework's own name of the line of conversation.
        n: position in the log, given by `MessageForest.add`.
    """

    message_id: str
    key: bytes
    role: str
    parent: int | None = None
    speaker: str | None = None
    calls: tuple[str, ...] = ()
    call_id: str | None = None
    host_id: bytes | None = None
    loose_key: bytes | None = None
    replaces: int | None = None
    variant_of: int | None = None
    aside: bool = False
    tokens: int = 0
    seq: int | None = None
    lane_key: str = ""
    n: int = -1


class MessageForest:
    """The entries of one session in the order in which this process learned them; append-only.

    Every method costs what it returns; `add` does not depend on the length of the log. Tool results
    are leaves under their call: `results` has them, the other walks and `by_key` leave them out.
    """

    __slots__ = (
        "_by_host_id",
        "_by_key",
        "_by_loose_key",
        "_by_message_id",
        "_caller",
        "_chain",
        "_depth",
        "_elder",
        "_jump",
        "_leaf",
        "_newest_root",
        "_replaced",
        "_results",
        "_results_by_key",
        "_root",
        "_roots",
        "_roots_by_key",
        "_touched",
        "_youngest",
        "answered",
        "entries",
        "parents",
    )

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.parents: list[int] = []
        """The `parent` of every entry, -1 for none: a column, because walks are hot."""
        self._root: list[int] = []
        self._depth: list[int] = []
        self._elder: list[int] = []  # the sibling before it, -1 for none
        self._youngest: dict[int, int] = {}
        self._results: dict[int, list[int]] = {}
        self._results_by_key: dict[bytes, list[int]] = {}
        self._roots: list[int] = []
        self._roots_by_key: dict[bytes, list[int]] = {}
        self._newest_root: dict[str, int] = {}
        self._leaf: dict[int, int] = {}
        self._replaced: dict[int, list[int]] = {}
        self._caller: dict[str, int] = {}
        self._by_key: dict[bytes, list[int]] = {}
        self._by_loose_key: dict[bytes, list[int]] = {}
        self._by_host_id: dict[bytes, int] = {}
        self._by_message_id: dict[str, int] = {}
        self._jump: list[int] = []  # an ancestor far above, so that a walk up costs their logarithm
        self._chain: list[int] = []  # where the stretch without branches begins that it goes on
        self._touched: dict[int, int] = {}
        self.answered: dict[int, tuple[int, list[int]]] = {}
        """What `Lanes` found of a lane, by its root, with how often the lane was touched before."""

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, n: int) -> Entry:
        return self.entries[n]

    def add(self, entry: Entry) -> int:
        """Append `entry` and return its position; its parent must be there already.

        Raises:
            ValueError: `parent`, `replaces` or `variant_of` is no position of this log.
        """
        n = len(self.entries)
        for reference in (entry.parent, entry.replaces, entry.variant_of):
            if reference is not None and not 0 <= reference < n:
                raise ValueError(f"entry {n} refers to {reference}; expected 0 to {n - 1}")
        entry.n = n
        parent = -1 if entry.parent is None else entry.parent
        self.entries.append(entry)
        self.parents.append(parent)
        self._root.append(n if parent < 0 else self._root[parent])
        self._depth.append(1 if parent < 0 else self._depth[parent] + 1)
        self._elder.append(-1)
        self._jump.append(self._far(n, parent))
        self._chain.append(self._chain_of(entry, n, parent))
        self._by_message_id[entry.message_id] = n
        if entry.host_id is not None:
            self._by_host_id[entry.host_id] = n
        if entry.replaces is not None:
            self._replaced.setdefault(entry.replaces, []).append(n)
        if entry.role == "tool":
            self._results.setdefault(parent, []).append(n)
            self._results_by_key.setdefault(entry.key, []).append(n)
        else:
            self._add_to_lane(entry, parent)
        self._touch(n)
        return n

    def _far(self, n: int, parent: int) -> int:
        if parent < 0:
            return n
        first_jump = self._jump[parent]
        second_jump, depth = self._jump[first_jump], self._depth
        return (
            second_jump
            if depth[parent] - depth[first_jump] == depth[first_jump] - depth[second_jump]
            else parent
        )

    def _chain_of(self, entry: Entry, n: int, parent: int) -> int:
        """The chain of its parent for the first that hangs there; others begin one, and tool results are one."""
        is_first = parent >= 0 and entry.role != "tool" and parent not in self._youngest
        return self._chain[parent] if is_first else n

    def _touch(self, n: int) -> None:
        """Note that the lane of an entry changes, and those whose messages the host edited into its start."""
        changed = [n]
        while changed:
            at = changed.pop()
            root = self._root[at]
            self._touched[root] = self._touched.get(root, 0) + 1
            edited = {self.entries[at].replaces, self.entries[root].replaces}
            changed += [position for position in edited if position is not None]

    def _add_to_lane(self, entry: Entry, parent: int) -> None:
        n = entry.n
        self._by_key.setdefault(entry.key, []).append(n)
        if entry.loose_key:
            self._by_loose_key.setdefault(entry.loose_key, []).append(n)
        for call in entry.calls:
            self._caller[call] = n
        if parent >= 0:
            self._elder[n] = self._youngest.get(parent, -1)
            self._youngest[parent] = n
        else:
            self._roots_by_key.setdefault(entry.key, []).append(n)
        if entry.aside:
            return
        root = self._root[n]
        if root not in self._leaf:  # an aside becomes a lane when somebody goes on from it
            insort(self._roots, root)
            lane_key = self.entries[root].lane_key
            self._newest_root[lane_key] = max(root, self._newest_root.get(lane_key, root))
        self._leaf[root] = n

    def by_key(self, key: bytes) -> Sequence[int]:
        """Entries with this fingerprint, oldest first."""
        return self._by_key.get(key, ())

    def roots_by_key(self, key: bytes) -> Sequence[int]:
        """Entries with this fingerprint that have no parent, asides included, oldest first."""
        return self._roots_by_key.get(key, ())

    def by_loose_key(self, loose_key: bytes | None) -> Sequence[int]:
        """Entries with this loose fingerprint, oldest first; none for an empty one."""
        return self._by_loose_key.get(loose_key, ()) if loose_key else ()

    def by_host_id(self, host_id: bytes | None) -> int | None:
        """The newest entry with the framework's id."""
        return None if host_id is None else self._by_host_id.get(host_id)

    def by_message_id(self, message_id: str) -> int | None:
        return self._by_message_id.get(message_id)

    def caller(self, call_id: str | None) -> int | None:
        """The newest message with a tool call of this host id."""
        return None if call_id is None else self._caller.get(call_id)

    def children(self, n: int) -> Iterator[int]:
        """What hangs directly on entry `n`, newest first."""
        child = self._youngest.get(n, -1)
        while child >= 0:
            yield child
            child = self._elder[child]

    def results(self, n: int) -> Sequence[int]:
        """Tool results under entry `n`, oldest first."""
        return self._results.get(n, ())

    @property
    def answered_calls(self) -> Container[int]:
        """The entries that tool results hang under."""
        return self._results

    def results_by_key(self, key: bytes) -> Sequence[int]:
        """Tool results with this fingerprint, oldest first."""
        return self._results_by_key.get(key, ())

    def replacements(self, n: int) -> Sequence[int]:
        """What the host edited entry `n` into, oldest first."""
        return self._replaced.get(n, ())

    def root(self, n: int) -> int:
        """The entry that the lane of `n` starts with."""
        return self._root[n]

    def depth(self, n: int) -> int:
        """Entries on the path from the root to `n`, both included."""
        return self._depth[n]

    def touched(self, root: int) -> int:
        """Grows whenever something is added to a lane, or takes the place of something in it."""
        return self._touched[root]

    def is_on_path(self, n: int, tip: int) -> bool:
        """Whether `n` is `tip` or before it."""
        if self._root[n] != self._root[tip]:
            return False
        depth, target_depth = self._depth, self._depth[n]
        chains, chain = self._chain, self._chain[n]
        while depth[tip] > target_depth and chains[tip] != chain:
            far = self._jump[tip]
            tip = far if depth[far] >= target_depth else self.parents[tip]
        return tip == n or (chains[tip] == chain and depth[tip] >= target_depth)

    @property
    def roots(self) -> Sequence[int]:
        """The first entry of every lane, oldest first; asides that nobody went on from are none."""
        return self._roots

    def newest_root(self, lane_key: str) -> int | None:
        """The newest lane with this `lane_key`."""
        return self._newest_root.get(lane_key)

    def leaf(self, root: int) -> int | None:
        """The newest entry of the lane that starts with `root`; its path is the active one."""
        return self._leaf.get(root)

    def path(self, n: int) -> list[int]:
        """The entries from the root to `n`, in order of the conversation."""
        entries: list[int] = []
        while n >= 0:
            entries.append(n)
            n = self.parents[n]
        entries.reverse()
        return entries
