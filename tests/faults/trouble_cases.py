"""One kind of trouble each: what the app is answered in it, and what the store holds after it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from time import perf_counter

from ce_engine import Message, Role, RuntimeConfig, Scope, Store, create_context_engine, open_store
from ce_integrations.langchain import install_ce
from tests.faults.trouble_app import SESSIONS, App, Call, Teller, bare, script
from tests.faults.trouble_judge import Outcome, judge
from tests.faults.trouble_store import AWAY, HALF, LOSES, Troubled


CHANGE = 0.15
"""How likely the trouble changes at a moment where it may: before a call, and in it for each piece."""
BACK_S = 30.0
"""How long what waited may take to be written once the store is back."""


class Trial:
    """An app with us in front of a store in trouble, beside the same app without us."""

    def __init__(self, store: Store, config: RuntimeConfig, calls: Sequence[Call]) -> None:
        self.calls, self.outcome, self.store = calls, Outcome(), store
        self.plain = bare(calls)
        self.app = App(Teller())
        self.installation = install_ce(self.app.model, store=store, config=config)
        self.waits: list[float] = []
        """Milliseconds of each call."""

    def talk(self, calls: Sequence[Call]) -> None:
        with asyncio.Runner() as runner:
            for call in calls:
                start = perf_counter()
                self.app.ask(call, runner)
                self.waits.append((perf_counter() - start) * 1000)

    def end(self, **how: bool) -> Outcome:
        """The store is back: flush, compare, and take us away."""
        outcome, engine = self.outcome, self.installation.engine
        outcome.check(self.installation.flush(BACK_S), "what waited was not written")
        outcome.add(judge(engine, self.store, self.app.logs, **how), "store")
        return self.close()

    def close(self) -> Outcome:
        self.outcome.check(self.app.answers == self.plain.answers, "other answers than bare")
        self.outcome.check(self.app.model.sent == self.plain.model.sent, "the model was sent other")
        self.outcome.counts["calls"] += len(self.calls)
        self.installation.uninstall()
        self.installation.engine.sync.close()
        return self.outcome


@contextmanager
def changing(trial: Trial, troubled: Troubled, kinds: Sequence[str], seed: int) -> Iterator[None]:
    """Change the trouble at random moments: before calls, between prepare and commit, within streams."""
    random = Random(f"{seed} changes")

    def change() -> None:
        if random.random() < CHANGE:
            troubled.trouble = random.choice(("", "", "", *kinds))
            trial.outcome.counts["changes of the trouble"] += 1

    trial.app.model.meanwhile = change
    yield
    trial.app.model.meanwhile = lambda: None
    troubled.trouble = ""
    for kind, times in troubled.met.items():
        trial.outcome.counts[f"questions met: {kind}"] += times


def comes_and_goes(
    seed: int, calls: int, config: RuntimeConfig, store: Store
) -> tuple[Outcome, list[float]]:
    """The store goes away and comes back at random; all is recorded once, in order, late where it must be."""
    troubled = Troubled(store, seed)
    trial = Trial(troubled.as_store, config, script(Random(seed), calls))
    late: list[str] = []
    with changing(trial, troubled, AWAY + HALF, seed):
        for call in trial.calls:
            trial.app.model.meanwhile()
            changes, before = trial.outcome.counts["changes of the trouble"], troubled.trouble
            trial.talk([call])
            if before in AWAY and changes == trial.outcome.counts["changes of the trouble"]:
                late.append(call.question)
    outcome = trial.outcome
    outcome.check(trial.installation.flush(BACK_S), "what waited was not written")
    marked = _late(trial, trial.app.logs)
    outcome.check(marked.issuperset(late), f"not marked late: {set(late) - marked}")
    return trial.end(), trial.waits


def _late(trial: Trial, sessions: Collection[str]) -> set[str]:
    states = [
        trial.installation.engine.loop.run(trial.store.state(Scope(session_id=name)))
        for name in sessions
    ]
    rows = [row for state in states if state is not None for row in state.rows]
    return {row.message.content for row in rows if row.late}


def loses(
    seed: int, calls: int, config: RuntimeConfig, store: Store, kinds: Sequence[str] = LOSES
) -> Outcome:
    """What the buffer cannot hold, or the store makes nothing of, is lost: each message of it is named."""
    troubled = Troubled(store, seed)
    begun = [Call(n, f"s{n}", "invoke") for n in range(SESSIONS)]
    ended = [Call(n + calls, f"s{n}", "invoke") for n in range(SESSIONS)]
    asked = script(Random(seed), calls)
    trial = Trial(troubled.as_store, config, [*begun, *asked, *ended])
    trial.talk(begun)
    trial.installation.flush(BACK_S)
    with changing(trial, troubled, kinds, seed):
        troubled.trouble = kinds[0]
        trial.talk(asked)
    trial.installation.flush(BACK_S)
    trial.talk(ended)
    return trial.end(whole=False)


def told_in_reports(seed: int, calls: int, config: RuntimeConfig, store: Store) -> Outcome:
    """While the store is away the report of every call says so; after a gap the next one names it."""
    troubled = Troubled(store, seed)
    asked = [Call(n, "s0", "invoke") for n in range(calls + 2)]
    trial = Trial(troubled.as_store, config, asked)
    report = trial.installation.last_report
    trial.talk(asked[:1])
    trial.installation.flush(BACK_S)
    troubled.trouble = AWAY[seed % len(AWAY)]
    for call in asked[1:-1]:
        trial.talk([call])
        told = report("s0")
        trial.outcome.check(
            told is not None and "CONTEXT_STORE_UNAVAILABLE" in told.degradations,
            f"the report of {call} says nothing: {told}",
        )
    troubled.trouble = ""
    trial.installation.flush(BACK_S)
    trial.talk(asked[-1:])
    told = report("s0")
    trial.outcome.check(
        told is not None and "CONTEXT_RECORDING_GAP" in told.degradations,
        f"the gap is not in the report: {told}",
    )
    return trial.end(whole=False)


def by_hand(seed: int, turns: int, config: RuntimeConfig, store: Store) -> Outcome:
    """Without a framework: the engine keeps the conversation, and goes on with what it remembers."""
    troubled, random = Troubled(store, seed), Random(seed)
    outcome, log = Outcome(), list[str]()
    engine = create_context_engine(troubled.as_store, config=config)
    for n in range(turns):
        troubled.trouble = random.choice(("", *AWAY, *HALF))
        found = engine.sync.prepare_turn("s0", Message(role=Role.USER, content=f"question {n}?"))
        sent = [part.content for part in found.assembled_input.parts]
        outcome.check(sent == [*log, f"question {n}?"], f"sent {sent} after {log}")
        troubled.trouble = random.choice((troubled.trouble, "", *AWAY, *HALF))
        answer = Message(role=Role.ASSISTANT, content=f"answer {n}")
        engine.sync.commit_assistant_message("s0", answer, turn_id=found.report.turn_id)
        log += [f"question {n}?", f"answer {n}"]
    troubled.trouble = ""
    outcome.check(engine.sync.flush(BACK_S), "what waited was not written")
    outcome.add(judge(engine, store, {"s0": log}), "store")
    outcome.counts["turns by hand"] += turns
    engine.sync.close()
    return outcome


# The SQLite file


def fills_up(
    seed: int,
    calls: int,
    config: RuntimeConfig,
    path: Path,
    full: Callable[[], None],
    free: Callable[[], None],
) -> Outcome:
    """The disk fills up and is freed again, several times: all is recorded once."""
    trial = Trial(open_store(f"sqlite:///{path}"), config, script(Random(seed), calls))
    parts = 5
    for part in range(parts):
        (full if part % 2 else free)()
        trial.talk(trial.calls[part * calls // parts : (part + 1) * calls // parts])
    free()
    return trial.end()


DAMAGE = {
    "a role that there is not": "UPDATE ce_messages SET role = 'nobody'",
    "a document that is none": "UPDATE ce_messages SET extra = '{'",
    "bytes that are no text": "UPDATE ce_messages SET content = CAST(x'fffe' AS TEXT)",
    "a number that is none": "UPDATE ce_messages SET seq = 'x'",
    "a key that is none": "UPDATE ce_messages SET key = 7",
}


def damaged_record(seed: int, calls: int, config: RuntimeConfig, path: Path) -> Outcome:
    """One record of one session is damaged: the app notices nothing, and other sessions are whole."""
    asked = script(Random(seed), calls)
    half = calls // 2
    first = Trial(open_store(f"sqlite:///{path}"), config, asked[:half])
    first.talk(first.calls)
    logs, said = first.app.logs, first.app.said
    outcome = first.end()
    with closing(sqlite3.connect(path)) as file, file:
        _, update = sorted(DAMAGE.items())[seed % len(DAMAGE)]
        here = "(SELECT id FROM ce_sessions WHERE session_id = 's0')"
        one = (
            f"session = {here} AND seq = (SELECT min(seq) FROM ce_messages WHERE session = {here})"
        )
        outcome.check(file.execute(f"{update} WHERE {one}").rowcount == 1, "nothing was damaged")
    file.close()
    again = Trial(open_store(f"sqlite:///{path}"), config, asked)
    again.app.logs, again.app.said = logs, said
    again.app.answers += first.app.answers
    again.app.model.sent += first.app.model.sent
    again.talk(asked[half:])
    logs.pop("s0", None)
    for name in logs:
        told = again.installation.last_report(name)
        outcome.check(told is None or not told.degradations, f"the report of {name}: {told}")
    outcome.add(again.end(), "after the damage")
    return outcome


def overwritten(seed: int, calls: int, config: RuntimeConfig, path: Path) -> Outcome:
    """Bytes all over the file are overwritten under our hands; when it is moved away, recording begins anew."""
    random = Random(seed)
    trial = Trial(open_store(f"sqlite:///{path}"), config, script(random, calls))
    for place, call in enumerate(trial.calls):
        if place % 5 == 4 and path.exists():
            with path.open("r+b") as file:
                for _ in range(20):
                    file.seek(random.randrange(100, max(101, path.stat().st_size)))
                    file.write(random.randbytes(8))
            trial.outcome.counts["times that bytes were overwritten"] += 1
        trial.talk([call])
    for each in path.parent.glob(f"{path.name}*"):
        if each.suffix != ".key":
            each.unlink()
    trial.outcome.check(trial.installation.flush(BACK_S), "the file was moved away in vain")
    return trial.close()
