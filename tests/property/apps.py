"""A small app for examples: it sends lists written as text, and shows the log as text."""

from __future__ import annotations

from ce_engine.prepare.reconcile.reconcile import ReconcileFlags
from ce_engine.schema.message_forest import MessageForest
from tests.property.recorder import Obj, Recorder, Turn, key


def user(text: str, **more: object) -> Obj:
    return make("user", text, "task", more)


def answer(text: str, **more: object) -> Obj:
    return make("assistant", text, "answer", more)


def calls(*ids: str, arguments: str = "x", **more: object) -> Obj:
    more["calls"] = tuple((call, arguments) for call in ids)
    return make("assistant", "", "tool_call", more)


def result(call: str | None, text: str) -> Obj:
    return Obj("tool", text, call_id=call, origin="tool_result")


def system(text: str) -> Obj:
    return Obj("system", text, origin="system")


def make(role: str, text: str, origin: str, more: dict[str, object]) -> Obj:
    return Obj(role, text, **{"origin": origin, **more})  # type: ignore[arg-type]  # field by field


class App:
    """One process on a log. A list that is sent is kept in `last` as positions of the log."""

    def __init__(
        self, log: MessageForest | None = None, *, agent: str = "", lane_key: str = ""
    ) -> None:
        self.recorder = Recorder(MessageForest() if log is None else log)
        self.agent = agent
        self.lane_key = lane_key
        self.names: dict[bytes, str] = {}

    @property
    def log(self) -> MessageForest:
        return self.recorder.log

    def send(self, *objs: Obj, flags: ReconcileFlags | None = None) -> Turn:
        for obj in objs:
            self.names[key(obj)] = name(obj)
        return self.recorder.prepare(objs, agent=self.agent, lane_key=self.lane_key, flags=flags)

    def ask(self, *objs: Obj, gets: Obj, flags: ReconcileFlags | None = None) -> Turn:
        """Send a list and record its answer."""
        turn = self.send(*objs, flags=flags)
        self.commit(turn, gets)
        return turn

    def commit(self, turn: Turn, obj: Obj) -> int:
        self.names[key(obj)] = name(obj)
        return self.recorder.commit(turn, obj)

    def fail(self, *objs: Obj) -> Turn:
        turn = self.send(*objs)
        self.recorder.fail(turn)
        return turn

    def talk(self, *objs: Obj) -> list[Obj]:
        """Hold a whole conversation: every answer in it is recorded when its turn comes."""
        for i, obj in enumerate(objs):
            if obj.role == "assistant":
                self.ask(*objs[:i], gets=obj)
        return list(objs)

    def rows(self) -> list[str]:
        return [self.name(n) for n in range(len(self.log))]

    def name(self, n: int | None) -> str:
        return "" if n is None else self.names[self.log[n].key]

    def path(self, n: int | None) -> list[str]:
        return [] if n is None else [self.name(m) for m in self.log.path(n)]

    def new(self, turn: Turn) -> list[str]:
        return [self.name(n) for n in turn.new]

    def brought(self, turn: Turn) -> list[str]:
        """What is brought in, oldest first."""
        return [self.name(n) for lane in reversed(turn.brought) for n in lane]


def name(obj: Obj) -> str:
    return obj.text or "call"
