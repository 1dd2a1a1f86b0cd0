"""Random hosts: apps that keep, cut, edit and lose their message lists, and know which message is which."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from random import Random

from tests.property.oracle import Open, Sent, Witness
from tests.property.recorder import Obj


Steps = Iterator[None]
"""A host at work; between two steps another one may work on the same log."""


@dataclass(frozen=True, slots=True)
class Mix:
    """What a random host does.

    Attributes:
        kind: `chat` sends its history, `stateless` never does, `team` is several agents with one.
        repeat: texts, tool calls and results repeat; else every content is different.
        window: what of its history a chat host sends: all, the last `3` or `2`, the first two and
            the last four (`cut`), or a `summary` of the older part and the rest.
        tools: `""`, `own` ids for each call, or the `same` ids in every turn.
        early: some tool results are recorded before the host sends them.
        turned: results are sent in the reverse order of their calls.
        ops: what else happens: edit, branch, regenerate, remove, retry, drop, keep, crash, restart.
        traits: constant, clones, ids, systems, preload, rewrite, strip.
    """

    kind: str = "chat"
    repeat: bool = False
    window: str = ""
    tools: str = ""
    early: bool = False
    turned: bool = False
    ops: tuple[str, ...] = ()
    traits: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        tools = [f"tools-{self.tools}"] if self.tools else []
        window = [f"window-{self.window}"] if self.window else []
        flags = [name for name in ("repeat", "early", "turned") if getattr(self, name)]
        return "+".join([self.kind, *flags, *window, *tools, *self.ops, *self.traits])


class Host:
    """What all hosts share: where contents come from, tool calls, and one call with its mishaps."""

    def __init__(
        self, name: str, rng: Random, mix: Mix, witness: Witness, lane_key: str = ""
    ) -> None:
        self.name = name
        self.rng = rng
        self.mix = mix
        self.witness = witness
        self.lane_key = lane_key
        self.count = 0
        self.constants: dict[str, Obj] = {}

    def run(self, turns: int) -> Steps:
        """Work for some turns, with a `yield` wherever another host may do something."""
        raise NotImplementedError

    def truth(self) -> str:
        self.count += 1
        return f"{self.name}{self.count}"

    def text(self, repeated: tuple[str, ...], *, unique: bool = False) -> str:
        if self.mix.repeat and not unique:
            return self.rng.choice(repeated)
        return f"{self.name} says {self.count + 1}"

    def host_id(self) -> bytes | None:
        return f"{self.name}{self.count + 1}".encode() if "ids" in self.mix.traits else None

    def question(self, *, unique: bool = False, author: str | None = None) -> Sent:
        text = self.text(("yes", "go on"), unique=unique)
        obj = Obj("user", text, author=author, origin="task", host_id=self.host_id())
        if "constant" in self.mix.traits:
            obj = self.constants.setdefault(text, obj)
        return Sent(obj, self.truth())

    def answer(self, *, unique: bool = False, author: str | None = None) -> Sent:
        text = self.text(("ok", "done"), unique=unique)
        if "rewrite" in self.mix.traits:
            text = f"<think>hm</think> {text} "
        obj = Obj("assistant", text, author=author, origin="answer", host_id=self.host_id())
        return Sent(obj, self.truth())

    def calls(self) -> Sent:
        """An answer that asks for one or two tools."""
        n = self.rng.choice((1, 1, 2))
        ids = [
            f"call_{i}" if self.mix.tools == "same" else f"{self.name}{self.count}_{i}"
            for i in range(n)
        ]
        calls = tuple((call, self.text(("x",)) + str(i)) for i, call in enumerate(ids))
        return Sent(
            Obj("assistant", "", calls, origin="tool_call", host_id=self.host_id()), self.truth()
        )

    def results(self, calls: Sent) -> list[Sent]:
        """The results of the calls; some may be recorded early, in any order."""
        results = []
        for call, _ in calls.obj.calls:
            obj = Obj("tool", self.text(("42", "7")), call_id=call, origin="tool_result")
            results.append(Sent(obj, self.truth(), caller=calls.truth))
        if self.mix.early and calls.truth in self.witness.ledger.said:
            for result in self.rng.sample(results, self.rng.randint(0, len(results))):
                self.witness.record_result(result, self.lane_key)
        return results[::-1] if self.mix.turned else results

    def fails(self) -> bool:
        return bool({"retry", "drop", "keep"} & set(self.mix.ops)) and self.rng.random() < 0.2

    def chance(self, op: str, p: float) -> bool:
        return op in self.mix.ops and self.rng.random() < p

    def copies(self, sent: list[Sent]) -> list[Sent]:
        return [s._replace(obj=replace(s.obj)) for s in sent]


class ChatHost(Host):
    """An app that sends its history, or what it keeps of it, with every call."""

    def __init__(
        self, name: str, rng: Random, mix: Mix, witness: Witness, lane_key: str = ""
    ) -> None:
        super().__init__(name, rng, mix, witness, lane_key)
        self.history: list[Sent] = []
        self.fresh = True  # the next question must be one of its own
        if "preload" in mix.traits:
            self.history += [self.question(unique=True), self.answer(unique=True)]

    def run(self, turns: int) -> Steps:
        for _ in range(turns):
            if self.chance("restart", 0.2):
                self.restart()
            yield from self.turn()

    def restart(self) -> None:
        self.witness.restart()
        self.history = self.copies(self.history)

    def turn(self) -> Steps:
        if self.chance("regenerate", 0.3) and self.forget_answer():
            yield from self.work()
            return
        self.change_history()
        if self.chance("branch", 0.25):
            self.branch()
        if self.mix.window == "summary" and len(self.history) > 6:
            self.summarize()
        self.history.append(self.question(unique=self.fresh))
        self.fresh = False
        yield from self.work()

    def change_history(self) -> None:
        line = [i for i, s in enumerate(self.history) if s.obj.role != "tool" and not s.obj.calls]
        answers = [i for i in line if self.history[i].obj.role == "assistant"]
        line = [i for i in line if answers and i < answers[-1]]
        if line and self.chance("edit", 0.3):
            i = self.rng.choice(line)
            self.history[i] = self.edited(self.history[i])
        elif line and self.chance("remove", 0.3):
            del self.history[self.rng.choice(line)]

    def edited(self, old: Sent) -> Sent:
        text = self.text((), unique=True)
        was_seen = old.truth in self.witness.ledger.said
        return Sent(
            replace(old.obj, text=text), self.truth(), edits=old.truth if was_seen else old.edits
        )

    def last(self, role: str) -> int:
        return max((i for i, s in enumerate(self.history) if s.obj.role == role), default=0)

    def branch(self) -> None:
        finals = [
            i for i, s in enumerate(self.history) if s.obj.role == "assistant" and not s.obj.calls
        ]
        if len(finals) > 1:
            del self.history[self.rng.choice(finals[:-1]) + 1 :]
            self.fresh = True

    def forget_answer(self) -> bool:
        """Cut the list back to its last question, if an answer that the engine knows stands before it."""
        i = self.last("user")
        kept = self.history[: i + 1]
        before = [s for s in self.view(kept)[:-1] if s.obj.role == "assistant"]
        if not before or before[-1].truth not in self.witness.ledger.said:
            return False
        self.history = kept
        return True

    def summarize(self) -> None:
        k = self.rng.randint(2, len(self.history) - 1)
        origin = self.rng.choice(("host_summary", "task"))
        obj = Obj("user", self.text((), unique=True), origin=origin, host_id=self.host_id())
        seen = {s.truth for s in self.view(self.history) if s.obj.role != "tool"}
        covered = [s.truth for s in self.history[:k] if s.truth in seen]
        edits = covered[-1] if covered and origin == "task" else None
        self.history = [Sent(obj, self.truth(), edits=edits), *self.history[k:]]

    def view(self, history: list[Sent]) -> list[Sent]:
        """What of a history goes out."""
        if "strip" in self.mix.traits:
            i = max((i for i, s in enumerate(history) if s.obj.role == "user"), default=0)
            history = [
                s for s in history[:i] if s.obj.role != "tool" and not s.obj.calls
            ] + history[i:]
        if self.mix.window in ("2", "3"):
            history = history[-int(self.mix.window) :]
        elif self.mix.window == "cut" and len(history) > 6:
            history = history[:2] + history[-4:]
        if "systems" in self.mix.traits:
            date = Obj("system", f"It is day {self.rng.random()}", origin="system")
            middle = self.rng.randint(0, len(history))
            note = [Sent(date, "")] if self.rng.random() < 0.3 else []
            history = [Sent(date, ""), *history[:middle], *note, *history[middle:]]
        return self.copies(history) if "clones" in self.mix.traits else history

    def work(self) -> Steps:
        """Call the model until it answers without a tool call, or the app gives up."""
        question = len(self.history) - 1
        tools = self.rng.choice((0, 1, 2)) if self.mix.tools else 0
        while (yield from self.call(wants_tool=tools > 0)):
            last = self.history[-1]
            if not last.obj.calls:
                return
            self.history += self.results(last)
            tools -= 1
        if "keep" not in self.mix.ops or self.chance("drop", 0.5):
            del self.history[question:]
            self.fresh = True

    def call(self, *, wants_tool: bool) -> Generator[None, None, bool]:
        """One model call with its mishaps; whether its answer is in the history."""
        while True:
            opened = self.witness.prepare(self.view(self.history), lane_key=self.lane_key)
            yield
            answer = self.calls() if wants_tool else self.answer()
            if self.chance("crash", 0.15):
                self.restart()
                if not self.mix.repeat and not wants_tool and self.rng.random() < 0.3:
                    self.history.append(self.kept(answer))  # the app has what the engine never saw
                    return True
            elif self.fails():
                self.witness.fail(opened)
            else:
                self.witness.commit(opened, answer)
                self.history.append(self.kept(answer))
                return True
            yield
            if not self.chance("retry", 0.6):
                return False
            if self.rng.random() < 0.5:
                self.history = self.copies(self.history)

    def kept(self, answer: Sent) -> Sent:
        """What the app keeps of an answer."""
        if "rewrite" not in self.mix.traits:
            return answer
        text = answer.obj.text.replace("<think>hm</think>", "").strip()
        return answer._replace(obj=replace(answer.obj, text=text))


class StatelessHost(Host):
    """An app that sends each question alone, several at the same time."""

    def __init__(
        self, name: str, rng: Random, mix: Mix, witness: Witness, lane_key: str = ""
    ) -> None:
        super().__init__(name, rng, mix, witness, lane_key)
        self.running: list[tuple[Open, list[Sent], int]] = []
        self.unanswered: list[str] = []

    def run(self, turns: int) -> Steps:
        asked = 0
        while asked < turns or self.running:
            if asked < turns and len(self.running) < 3 and self.rng.random() < 0.6:
                asked += 1
                self.ask([self.new_question()], tools=self.rng.choice((0, 1, 2)))
            elif self.running:
                self.go_on(self.running.pop(self.rng.randrange(len(self.running))))
            yield

    def new_question(self) -> Sent:
        """A question whose text does not wait for an answer: that would be a retry by the rule."""
        question = self.question()
        while question.obj.text in self.unanswered:
            question = self.question(unique=True)
        self.unanswered.append(question.obj.text)
        return question

    def ask(self, sent: list[Sent], tools: int) -> None:
        tools = tools if self.mix.tools else 0
        self.running.append((self.witness.prepare(sent, lane_key=self.lane_key), sent, tools))

    def go_on(self, work: tuple[Open, list[Sent], int]) -> None:
        opened, sent, tools = work
        if self.chance("crash", 0.1):
            self.crash(work)
        elif self.fails():
            self.witness.fail(opened)
            if self.chance("retry", 0.7):
                from_start = self.rng.random() < 0.3
                self.ask(self.copies(sent[:1] if from_start else sent), tools)
        elif tools:
            answer = self.calls()
            self.witness.commit(opened, answer)
            self.ask([*sent, answer, *self.results(answer)], tools - 1)
        else:
            self.witness.commit(opened, self.answer())
            self.unanswered.remove(sent[0].obj.text)

    def crash(self, work: tuple[Open, list[Sent], int]) -> None:
        """Lose all calls in flight; only the newest question can be repeated (else it is said again)."""
        self.witness.restart()
        self.running.append(work)
        newest = max(self.running, key=lambda w: w[0].turn.positions[0] or 0)
        self.running = []
        root = self.witness.log.newest_root(self.lane_key)
        if self.chance("retry", 0.7) and newest[0].turn.positions[0] == root:
            self.ask(self.copies(newest[1][:1]), newest[2])


class TeamHost(Host):
    """Several agents that read one conversation: each sees the others' answers as user messages."""

    def run(self, turns: int) -> Steps:
        said: list[Sent] = []
        for _ in range(turns):
            said.append(self.question(author="user", unique=not said))
            for _ in range(self.rng.randint(1, 4)):
                yield from self.round(said)

    def round(self, said: list[Sent]) -> Steps:
        """One agent answers, or two answer the same conversation at the same time."""
        together = 1 if self.mix.repeat else self.rng.choice((1, 1, 1, 2))
        agents = self.rng.sample(("ann", "bob", "cai"), together)
        turns = {agent: self.prepare(agent, said) for agent in agents}
        yield
        for agent in agents:
            if self.fails():
                self.witness.fail(turns[agent])
                yield
                turns[agent] = self.prepare(agent, said)
            answer = self.answer(author=agent)
            self.witness.commit(turns[agent], answer)
            said.append(answer)
            yield

    def prepare(self, agent: str, said: list[Sent]) -> Open:
        sent = [self.seen_by(agent, s) for s in said]
        return self.witness.prepare(sent, agent=agent, lane_key=self.lane_key)

    def seen_by(self, agent: str, s: Sent) -> Sent:
        if s.obj.author != agent:
            role, origin = "user", "task" if s.obj.author == "user" else "colleague"
            return s._replace(obj=replace(s.obj, role=role, origin=origin))
        return s._replace(obj=replace(s.obj, author=None))


HOSTS: dict[str, type[Host]] = {"chat": ChatHost, "stateless": StatelessHost, "team": TeamHost}
