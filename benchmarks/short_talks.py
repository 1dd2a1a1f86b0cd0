"""What short talks cost beside without us, and what their questions find: beginnings of LoCoMo's conversations.

Every third turn asks for something that was said before, which is the dearest that a talk can do: what it needs is
brought back, and the cut moves for it. Cached tokens cost a tenth.

    python benchmarks/short_talks.py --data FOLDER
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import NamedTuple

from quality_data import Session, found, locomo
from quality_recall import config, cost

from ce_engine import Scope, StoreConfig, create_context_engine
from ce_engine.testing.host import HostApp, assistant, user


PATIENT = StoreConfig(deadline_s=30)
"""A machine that has other work is no store that is away."""

CACHED = 0.1
"""Price of a token that the provider has seen before."""

EVERY = 3
"""So many turns have one that asks for something said earlier."""


@dataclass
class Bill:
    """What inputs cost, in tokens at full price: what an input begins with as the one before is cached."""

    sum: float = 0.0
    before: list[str] = field(default_factory=list)

    def add(self, texts: list[str]) -> None:
        same = takewhile(lambda pair: pair[0] == pair[1], zip(self.before, texts, strict=False))
        self.sum += cost(texts) - (1 - CACHED) * cost([text for text, _ in same])
        self.before = texts


class Ended(NamedTuple):
    """A talk: what its inputs cost, with us and without, and of what each question needs the share that went out."""

    sent: float
    untouched: float
    recalls: list[float]


def steps(session: Session, turns: int) -> Iterator[tuple[str, str, list[str]]]:
    """Questions and answers of a talk; with the texts that a question needs, where it asks for some."""
    said = session.messages
    there: dict[str, str] = {}
    asked = list(session.questions)
    pairs = zip(said[::2], said[1::2], strict=False)
    for n in range(turns):
        if n % EVERY == EVERY - 1:
            fits = (q for q in asked if all(name in there for name in q.gold))
            if (question := next(fits, None)) is not None:
                asked.remove(question)
                yield question.text, "I see.", [there[name] for name in question.gold]
                continue
        mine, theirs = next(pairs)
        there |= {mine.id: mine.content, theirs.id: theirs.content}
        yield mine.content, theirs.content, []


def play(session: Session, turns: int, budget: int, url: str, *, apart: bool) -> Ended:
    """Have a talk; `apart`, each call is made by an engine of its own, as in another process."""
    scope, recalls = Scope(session_id="s", user_id="u"), list[float]()
    ours, own = Bill(), Bill()
    engine = create_context_engine(url, config=config(budget, store=PATIENT))
    app = HostApp(engine, scope, [])
    for question, answer, gold in steps(session, turns):
        prepared = app.prepare(user(question), restore=False)
        parts = [part.content for part in prepared.assembled.parts]
        ours.add(parts)
        own.add([each.message.content for each in app.messages])
        if gold:
            out = "\n".join(parts)
            recalls.append(mean(said_in(text, out) for text in gold))
        app.commit(prepared, assistant(answer))
        if apart:
            engine.sync.close()
            app.engine = engine = create_context_engine(url, config=config(budget, store=PATIENT))
    engine.sync.close()
    return Ended(ours.sum, own.sum, recalls)


def said_in(text: str, out: str) -> bool:
    """Whether a message went out, or came back without its day and name."""
    return text.split(": ", 1)[-1] in out


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--apart", action="store_true", help="each call in a process of its own")
    options = parser.parse_args()
    path = found(options.data, "locomo")
    assert path is not None, "no locomo*.json there"
    sessions = locomo(path)
    print("turns budget    cost dearest  recall  early   late")
    for turns in (60, 120):
        for budget in (700, 2000):
            with TemporaryDirectory() as folder:
                urls = [f"sqlite:///{folder}/{n}.db" for n in range(len(sessions))]
                ended = [
                    play(session, turns, budget, url, apart=options.apart)
                    for session, url in zip(sessions, urls, strict=True)
                ]
            more = sum(each.sent for each in ended) / sum(each.untouched for each in ended) - 1
            dearest = max(each.sent / each.untouched for each in ended) - 1
            halves = [len(each.recalls) // 2 for each in ended]
            early = [r for e, h in zip(ended, halves, strict=True) for r in e.recalls[:h]]
            late = [r for e, h in zip(ended, halves, strict=True) for r in e.recalls[h:]]
            print(
                f"{turns:5} {budget:6} {more:+7.1%} {dearest:+7.1%} {mean(early + late):7.1%}"
                f" {mean(early):6.1%} {mean(late):6.1%}"
            )
