"""What a list of messages costs that is new to us: an app that installs us with a long history.

    pip install ".[langchain]" && python benchmarks/first_contact.py

A model that answers at once is asked with 500, 2,000 and 5,000 messages behind the question, English and
Chinese, with a SQLite file and in memory, each time in a session that has none of them. Milliseconds a
message, at the median of some rounds: *sent*, until the list is on its way to the model; *stored*, until
everything is in the store; *CPU*, of the process, all of it. Beside it the same list's next call, and
*bare*: the same texts counted one by one and put into a SQLite table as they are.
"""

from __future__ import annotations

import argparse
import gc
import random
import sqlite3
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from talk import Talk

from ce_engine import BudgetConfig, RuntimeConfig, Scope
from ce_engine.text.tokens import default_estimator
from ce_integrations import ce_session
from ce_integrations.langchain import install_ce


SENTENCES = [
    "我们昨天下午在杭州西湖边上散步,遇见了老同学王芳,她现在在一家医院当护士。",
    "会议改到星期三上午十点,请把预算表和上个月的销售报告一起带来。",
    "孩子们周末想去动物园看熊猫,可是天气预报说有雨,要不要换成博物馆?",
    "新房子的装修比预想的贵了三成,厨房的柜子和客厅的地板都要重新选。",
    "他在北京念书的时候学会了做红烧肉,每逢过年都要给全家人做一大锅。",
    "火车票已经订好了,从上海虹桥出发,早上七点四十五分,请不要迟到。",
]


class ChineseTalk:
    """Questions and answers of the length that the English ones have in tokens."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def _text(self, sentences: int) -> str:
        made = self._random.choices(SENTENCES, k=sentences)
        return "".join((*made, f"(第{self._random.randrange(100_000)}号)"))

    def question(self) -> str:
        return self._text(1)

    def answer(self) -> str:
        return self._text(3)


TALKS = {"en": Talk, "zh": ChineseTalk}


class Model(FakeListChatModel):
    """Notes when it is asked."""

    asked_at: float = 0.0

    def _call(self, *args: Any, **more: Any) -> str:
        self.asked_at = time.perf_counter()
        return super()._call(*args, **more)


def history(language: str, messages: int, seed: int) -> list[BaseMessage]:
    talk = TALKS[language](seed)
    kinds = (lambda: HumanMessage(talk.question()), lambda: AIMessage(talk.answer()))
    return [kinds[n % 2]() for n in range(messages)]


def ours(language: str, messages: int, url: str, rounds: int, budget: int) -> dict[str, float]:
    """Milliseconds a message of the first contact, and milliseconds of the list's next call."""
    model = Model(responses=["Yes."])
    config = RuntimeConfig(budget=BudgetConfig(max_input_tokens=budget))
    took: dict[str, list[float]] = {name: [] for name in ("sent", "stored", "CPU", "next")}
    with install_ce(model, store=url, config=config) as installed:
        for n in range(rounds + 1):
            given = [*history(language, messages, n), HumanMessage("What was it, again?")]
            gc.collect()
            with ce_session(f"s{n}"):
                start, cpu = time.perf_counter(), time.process_time()
                answer = model.invoke(given)
                sent = model.asked_at - start
                assert installed.flush(60)
                stored, cpu = time.perf_counter() - start, time.process_time() - cpu
                start = time.perf_counter()
                model.invoke([*given, answer, HumanMessage("And then?")])
                later = model.asked_at - start
                assert installed.flush(60)
            if n:  # the first one warms up
                for name, seconds in (("sent", sent), ("stored", stored), ("CPU", cpu)):
                    took[name].append(seconds * 1000 / messages)
                took["next"].append(later * 1000)
        assert not installed.faults, installed.faults
        sizes = recorded(installed)
        assert sizes == [messages + 4] * (rounds + 1), sizes
    return {name: statistics.median(values) for name, values in took.items()}


def recorded(installed: Any) -> list[int]:
    """Messages of each session in the store: everything is there once."""
    run, store = installed.engine.loop.run, installed.engine.store
    found = run(store.list_sessions(user_id=None))
    scopes = [Scope(session_id=info.session_id) for info in found]
    return [len(run(store.state(scope)).rows) for scope in scopes]


def bare(language: str, messages: int, rounds: int, folder: Path) -> float:
    """Milliseconds a message of counting its tokens and of storing it, with nothing else."""
    estimator, took = default_estimator(), []
    db = sqlite3.connect(folder / "bare.db")
    db.execute("create table messages (n integer primary key, role text, content text, tokens int)")
    for n in range(rounds + 1):
        given = [(m.type, str(m.content)) for m in history(language, messages, n)]
        start = time.perf_counter()
        rows = [(role, text, estimator.estimate_text(text, "gpt-4o")) for role, text in given]
        db.executemany("insert into messages (role, content, tokens) values (?, ?, ?)", rows)
        db.commit()
        took.append((time.perf_counter() - start) * 1000 / messages)
    db.close()
    return statistics.median(took[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description="What a list costs that is new to us.")
    parser.add_argument("--sizes", type=int, nargs="+", default=[500, 2000, 5000])
    parser.add_argument("--languages", nargs="+", choices=TALKS, default=list(TALKS))
    parser.add_argument(
        "--stores", nargs="+", choices=("sqlite", "memory"), default=["sqlite", "memory"]
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--budget", type=int, default=4_000, help="tokens of a call")
    options = parser.parse_args()
    print(f"{options.rounds} rounds, {options.budget} tokens; ms a message, the next call in ms")
    print(
        f"{'':22} {'bare':>7} {'sent':>7} {'stored':>7} {'CPU':>7} {'CPU : bare':>11} {'next':>7}"
    )
    with tempfile.TemporaryDirectory() as folder:
        for language in options.languages:
            for size in options.sizes:
                for store in options.stores:
                    with tempfile.TemporaryDirectory(dir=folder) as place:
                        least = bare(language, size, options.rounds, Path(place))
                        url = "memory://" if store == "memory" else f"sqlite:///{place}/ce.db"
                        row = ours(language, size, url, options.rounds, options.budget)
                    print(
                        f"{language} {size:6} {store:12} {least:7.3f} {row['sent']:7.3f} "
                        f"{row['stored']:7.3f} {row['CPU']:7.3f} {row['CPU'] / least:11.1f} "
                        f"{row['next']:7.1f}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
