"""The independent model: which logical messages exist, told by the hosts, and what must follow from it.

It never compares contents. A host says which logical message each object is (its *truth*); the
ledger derives rows, parents and lanes from that, and the witness holds the log against it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ce_engine.schema.message_forest import MessageForest
from tests.property.recorder import Obj, Recorder, Turn, key


class Sent(NamedTuple):
    """An object in a host's list and the logical message that it is."""

    obj: Obj
    truth: str
    caller: str | None = None
    """Of a tool result: the message that asked for it."""
    edits: str | None = None
    """Of an edited message: what it was before."""


@dataclass(slots=True)
class Said:
    """A logical message at the moment when it was first sent or answered."""

    truth: str
    obj: Obj
    parent: str | None
    aside: bool = False
    replaces: str | None = None
    lane_key: str = ""


def line_of(sent: Sequence[Sent]) -> list[Sent]:
    return [s for s in sent if s.obj.role not in ("system", "tool")]


class Ledger:
    """What was said in a session, in order of first appearance."""

    def __init__(self) -> None:
        self.said: dict[str, Said] = {}
        self._roots: dict[str, str] = {}

    def send(self, sent: Sequence[Sent], lane_key: str) -> list[Said]:
        """The messages of a list that were never seen; they are from now on."""
        line = line_of(sent)
        anchor = self._anchor(line)
        new, above, i = [], None, 0
        for s in sent:
            if s.obj.role == "system":
                continue
            tool = s.obj.role == "tool"
            if s.truth not in self.said:
                said = Said(s.truth, s.obj, s.caller if tool else above, lane_key=lane_key)
                if not tool:
                    said.aside, said.replaces = i < anchor, self._edit(line, i, i < anchor)
                self.add(said)
                new.append(said)
            if not tool:
                above, i = s.truth, i + 1
        return new

    def _anchor(self, line: list[Sent]) -> int:
        """The newest known answer; without one, the newest question that a lane ends with unanswered."""
        known = [i for i, s in enumerate(line) if s.truth in self.said]
        answers = [i for i in known if line[i].obj.role == "assistant"]
        questions = [i for i in known if self._is_last_question(line, i)]
        return max(answers, default=max(questions, default=-1))

    def _is_last_question(self, line: list[Sent], i: int) -> bool:
        """Whether message `i` ends its lane as a question, or has another answer now."""
        end: str | None = self.lanes().get(self.root(line[i].truth))
        other = i + 1 < len(line) and line[i + 1].obj.role == "assistant"
        if other and end and not self.said[end].obj.calls:
            while end and self.said[end].obj.role == "assistant":
                end = self.said[end].parent
        while end and end != line[i].truth:
            obj = self.said[end].obj
            end = self.said[end].parent if obj.role == "user" or obj.calls else None
        return end is not None and line[i].obj.role == "user"

    def _edit(self, line: list[Sent], i: int, aside: bool) -> str | None:
        """What message `i` replaced, if its neighbours in the list are those of the original."""
        old = line[i].edits
        if old is None or old not in self.said:
            return None
        host_id = line[i].obj.host_id
        if host_id is not None and host_id == self.said[old].obj.host_id:
            return old
        above = line[i - 1].truth if i else None
        below = self.said.get(line[i + 1].truth) if aside else None
        while old is not None and below is not None:
            over = (self.said[old].parent, self._over_calls(old))
            before = above and above in self.said and self.said[above].replaces
            if below.parent == old and (above in over or (before and before in over)):
                return old
            old = self.said[old].replaces  # edited again: the path has what it was before
        return None

    def _over_calls(self, truth: str) -> str | None:
        parent = self.said[truth].parent
        return self._over_calls(parent) if parent and self.said[parent].obj.calls else parent

    def add(self, said: Said) -> None:
        self.said[said.truth] = said
        self._roots[said.truth] = said.truth if said.parent is None else self._roots[said.parent]

    def tip(self, sent: Sequence[Sent]) -> str | None:
        last = next((s for s in reversed(sent) if s.obj.role != "system"), None)
        return None if last is None else last.caller or last.truth

    def root(self, truth: str) -> str:
        return self._roots[truth]

    def lanes(self) -> dict[str, str]:
        """The first and the newest message of every lane, oldest lane first."""
        leaves = {
            self.root(truth): truth
            for truth, said in self.said.items()
            if not said.aside and said.obj.role != "tool"
        }
        return {truth: leaves[truth] for truth in self.said if truth in leaves}

    def history(
        self, sent: Sequence[Sent], old: set[str], lane_key: str, in_flight: set[str]
    ) -> list[list[str]]:
        """What must be brought in: answered lanes, newest first, where the list has no history.

        Args:
            sent: the list.
            old: what had been said before it.
            lane_key: the lane key of the call.
            in_flight: the newest messages of the calls that this process waits for.
        """
        tasks = [i for i, s in enumerate(sent) if s.obj.origin == "task"]
        if not tasks or self._has_history(sent, tasks[-1], old):
            return []
        task = sent[tasks[-1]].truth
        own, running = self.root(task), {self.root(truth) for truth in in_flight}
        found = []
        for root, leaf in self.lanes().items():
            if task in old and root == own:
                break
            if root in old and root not in running and self.said[root].lane_key == lane_key:
                found.append(self._wire(leaf))
        return [lane for lane in reversed(found) if lane]

    def _has_history(self, sent: Sequence[Sent], task: int, old: set[str]) -> bool:
        truth = sent[task].truth
        if truth in old and self.said[truth].parent is not None:
            return True
        above = truth
        for s in line_of(sent[task + 1 :]):
            if not s.obj.calls or (s.truth in old and self.said[s.truth].parent != above):
                return True
            above = s.truth
        before = [s for s in sent[:task] if s.obj.role != "system"]
        return any(
            s.truth in old or s.obj.role == "assistant" or s.obj.origin == "host_summary"
            for s in before
        )

    def _wire(self, leaf: str) -> list[str]:
        path: list[str] = []
        truth: str | None = leaf
        while truth is not None:
            path.insert(0, truth)
            truth = self.said[truth].parent
        edits = {s.replaces: s.truth for s in self.said.values() if s.replaces and s.aside}
        forms = [[*self._forms(truth, edits)] for truth in path]
        others = {self.root(form) for chain in forms for form in chain} - {self.root(leaf)}
        if others & self.lanes().keys():
            return []  # the start was edited, and the conversation went on from there
        path = [chain[-1] for chain in forms]
        while path and (
            self.said[path[-1]].obj.role != "assistant" or self.said[path[-1]].obj.calls
        ):
            path.pop()
        return [member for truth in path for member in self._group(truth)]

    def _forms(self, truth: str, edits: dict[str, str]) -> Iterator[str]:
        yield truth
        if truth in edits:
            yield from self._forms(edits[truth], edits)

    def _group(self, truth: str) -> list[str]:
        calls = [call for call, _ in self.said[truth].obj.calls]
        results = {
            said.obj.call_id: said.truth
            for said in self.said.values()
            if said.parent == truth and said.obj.role == "tool"
        }
        if any(call not in results for call in calls):
            return []
        return [truth, *(results[call] for call in calls)]


@dataclass(slots=True)
class Open:
    """A call in flight, with the truth of its tip."""

    turn: Turn
    tip: str | None


class Witness:
    """One process: its recorder, and every property held against the ledger after every step.

    With `exact` all contents are different, and entries are compared one by one; else equal
    contents may stand for each other, and they are compared by content.
    """

    def __init__(
        self, log: MessageForest, ledger: Ledger, truths: list[str], *, exact: bool
    ) -> None:
        self.recorder = Recorder(log)
        self.log = log
        self.ledger = ledger
        self.truths = truths
        self.exact = exact
        self.open: list[Open] = []

    def restart(self) -> None:
        self.recorder.restart()
        self.open = []

    def prepare(self, sent: Sequence[Sent], *, agent: str = "", lane_key: str = "") -> Open:
        old = set(self.ledger.said)
        running = {o.tip for o in self.open if o.tip is not None}
        expected = self.ledger.send(sent, lane_key)
        history = self.ledger.history(sent, old, lane_key, running)
        turn = self.recorder.prepare([s.obj for s in sent], agent=agent, lane_key=lane_key)
        self._check_new(turn, expected)
        self._check_places(turn, sent)
        self._check_wire(turn, sent, history)
        self.check_rows()
        opened = Open(turn, self.ledger.tip(sent))
        self.open.append(opened)
        return opened

    def _check_new(self, turn: Turn, expected: list[Said]) -> None:
        found = [self.log[n] for n in turn.new]
        assert [e.key for e in found] == [key(s.obj) for s in expected], (
            f"1/7: stored {[self._name(n) for n in turn.new]}, new were {[s.truth for s in expected]}"
        )
        self.truths += [s.truth for s in expected]
        for entry, said in zip(found, expected, strict=True):
            self._check_place(entry.n, said)

    def _check_place(self, n: int, said: Said) -> None:
        entry = self.log[n]
        parent = None if entry.parent is None else self.truths[entry.parent]
        assert self._alike(parent, said.parent), (
            f"8/9/10: {said.truth} under {parent}, not {said.parent}"
        )
        assert entry.aside == said.aside, f"7: {said.truth} aside is {entry.aside}"
        if self.exact:
            replaces = None if entry.replaces is None else self.truths[entry.replaces]
            assert replaces == said.replaces, (
                f"8: {said.truth} replaces {replaces}, not {said.replaces}"
            )

    def _alike(self, mine: str | None, theirs: str | None) -> bool:
        if mine is None or theirs is None or self.exact:
            return mine == theirs
        said = self.ledger.said
        return key(said[mine].obj) == key(said[theirs].obj)

    def _check_places(self, turn: Turn, sent: Sequence[Sent]) -> None:
        places = [n for n in turn.positions if n is not None]
        assert len(places) == len(set(places)), f"4: an entry twice in one list: {places}"
        for n, s in zip(turn.positions, sent, strict=True):
            if s.obj.role == "system":
                assert n is None
            else:
                assert n is not None
                assert self._alike(self.truths[n], s.truth), (
                    f"1: {s.truth} sits at {self.truths[n]}"
                )

    def _check_wire(self, turn: Turn, sent: Sequence[Sent], history: list[list[str]]) -> None:
        brought = [n for lane in turn.brought for n in lane]
        wire = brought + [n for n in turn.positions if n is not None]
        assert len(wire) == len(set(wire)), "4: an entry twice in what is brought in and the list"
        tasks = [n for n, s in zip(turn.positions, sent, strict=True) if s.obj.origin == "task"]
        assert not tasks or wire.count(tasks[-1] or 0) == 1, (
            "5: the newest message is not there once"
        )
        lanes = [[self.truths[n] for n in lane] for lane in turn.brought]
        assert len(lanes) == len(history), f"2/9: brought in {lanes}, expected {history}"
        for mine, theirs in zip(lanes, history, strict=True):
            assert len(mine) == len(theirs), f"2/9: brought in {mine}, expected {theirs}"
            assert all(map(self._alike, mine, theirs)), f"2/9: brought in {mine}, expected {theirs}"

    def check_rows(self) -> None:
        """Properties 1, 3 and 10: rows are the distinct logical messages, by content and role."""
        rows = Counter((e.key, e.role) for e in self.log.entries)
        said = Counter((key(s.obj), s.obj.role) for s in self.ledger.said.values())
        assert rows == said, f"1/3: {len(self.log)} rows for {len(self.ledger.said)} messages"

    def commit(self, opened: Open, answer: Sent) -> None:
        self.open.remove(opened)
        n = self.recorder.commit(opened.turn, answer.obj)
        assert n == len(self.log) - 1, f"1: answer {answer.truth} taken for {self._name(n)}"
        self.truths.append(answer.truth)
        lane_key = opened.turn.lane_key
        self.ledger.add(Said(answer.truth, answer.obj, opened.tip, lane_key=lane_key))
        self._check_place(n, self.ledger.said[answer.truth])

    def fail(self, opened: Open) -> None:
        self.open.remove(opened)
        self.recorder.fail(opened.turn)

    def record_result(self, result: Sent, lane_key: str = "") -> None:
        """The tool tells its result before the host sends it."""
        caller = result.caller or ""
        call = len(self.truths) - 1 - self.truths[::-1].index(caller)
        self.truths.append(result.truth)
        self.recorder.record_result(call, result.obj, lane_key)
        self.ledger.add(Said(result.truth, result.obj, caller, lane_key=lane_key))

    def _name(self, n: int) -> str:
        return self.truths[n] if n < len(self.truths) else f"a new {self.log[n].role} at {n}"
