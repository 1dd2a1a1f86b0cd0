"""What every demo does: a long session about what is installed here, within a small budget."""

from __future__ import annotations

import os
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar, NamedTuple

from ce_engine import (
    AdapterError,
    BudgetConfig,
    ContextEngine,
    RuntimeConfig,
    Scope,
    StoreUnavailableError,
    create_context_engine,
)
from ce_engine.apps.cli.demo import DemoOptions, DemoQuestion, DemoResult, Progress
from ce_engine.audit.compare.costs import priced_by
from ce_engine.audit.compare.figures import figures
from ce_engine.audit.compare.reading import calls_of
from ce_engine.text.tokens.prices import prices_here
from ce_integrations.demo.documents import Package, installed_packages
from ce_integrations.demo.quoting import QuotingModel
from ce_integrations.demo.turns import Turn, script
from ce_integrations.install.version_check import check_requirements


FLUSH_S = 30.0

REPLY_TOKENS = 400
"""What an endpoint may answer with, at most."""

OFFLINE = "offline model (quotes its input)"
"""The name of the offline model, for the reader."""

AGENT_PROMPT = (
    "You help a team with the Python distributions that are installed on their machine. Look up what "
    "you do not know, and answer in one or two sentences."
)
RETRIEVAL_PROMPT = (
    "You answer from the documents of installed Python distributions, in one or two sentences. "
    "The documents:\n\n{context}"
)


class Endpoint(NamedTuple):
    """A model that speaks OpenAI's chat completions; without a URL, at the client's default."""

    model: str
    api_key: str
    base_url: str | None


def endpoint() -> Endpoint | None:
    """What `OPENAI_BASE_URL`, `OPENAI_API_KEY` and `OPENAI_MODEL` name; nothing: the offline model."""
    key, url = os.environ.get("OPENAI_API_KEY"), os.environ.get("OPENAI_BASE_URL")
    if not (key or url):
        return None
    # Servers of one's own take any key, but the client wants one.
    return Endpoint(os.environ.get("OPENAI_MODEL", "gpt-4o-mini"), key or "none", url or None)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoApp:
    """An ordinary app of a framework, written without us: an agent with a tool, and a retrieval chain.

    Attributes:
        targets: what to install on, object by object.
        install: the framework's `install_ce`, the one line for each target.
        ask: asks where the turn belongs (`Turn.surface`), and gives the answer's text. The agent
            keeps its history; the retrieval chain keeps none.
        model: the model's name, for the reader.
        failures: what is raised where the model cannot answer.
    """

    targets: Sequence[Any]
    install: Callable[..., AbstractContextManager[object]]
    ask: Callable[[Turn], str]
    model: str
    failures: tuple[type[Exception], ...] = ()


class FrameworkDemo(ABC):
    """The demo of one framework; what it shows is the same for all.

    Its module imports no framework, so that what is missing is told before it is missed.

    Attributes:
        name: the framework's, as after `ce demo --framework`.
        requires: what must be installed, as in PEP 508: what the extra installs.
        extra: of `pip install "ce-integrations[...]"`.
    """

    name: ClassVar[str]
    requires: ClassVar[tuple[str, ...]]
    extra: ClassVar[str]

    @abstractmethod
    def make_app(
        self, packages: Mapping[str, Package], model: QuotingModel, session_id: str
    ) -> AbstractContextManager[DemoApp]:
        """Give the app about these packages, for as long as the session takes.

        `model` answers where there is no `endpoint()`; the framework's own class only translates for it.
        A framework that is async only has an `asyncio.Runner` around its app, and `ask` runs in that.
        """

    def run(self, options: DemoOptions, progress: Progress) -> DemoResult:
        """Run the session, ask the fixed questions at its end, and leave everything in the store.

        Raises:
            MissingDependencyError: the packages of the extra are not installed.
            ConfigError: fewer turns than the facts need, or too few distributions to talk about.
            AdapterError: the model's endpoint does not answer.
            StoreUrlError: the store's URL is not understood.
            StoreUnavailableError: the store cannot be written, or not fast enough.
        """
        check_requirements(self.requires, self.extra)
        started = time.perf_counter()
        packages = installed_packages()
        turns = script(list(packages.values()), options.turns)
        budget = BudgetConfig(max_input_tokens=options.budget)
        config = RuntimeConfig(budget=budget, history="session")  # for the chain, which keeps none
        session_id = _new_session_id(self.name)
        with ExitStack() as ending:
            engine = create_context_engine(options.store_url, config=config)
            ending.callback(engine.sync.close)
            engine.sync.check()
            model = QuotingModel(frozenset(packages), engine.estimator.estimate_text)
            app = ending.enter_context(self.make_app(packages, model, session_id))
            for target in app.targets:
                ending.enter_context(app.install(target, engine=engine, session_id=session_id))
            questions = _talk(app, turns, progress)
            if not engine.sync.flush(FLUSH_S):
                raise StoreUnavailableError(
                    f"{engine.store.url} did not take all that was recorded within {FLUSH_S:.0f} s. "
                    "See that its disk has room and that nobody locks it, then run the demo again."
                )
            seconds = time.perf_counter() - started
            return _result(engine, session_id, app.model, len(turns), questions, seconds)


def _new_session_id(framework: str) -> str:
    """A session of its own for every run, in the order of the runs."""
    return f"{framework}-demo-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def _talk(app: DemoApp, turns: Sequence[Turn], progress: Progress) -> list[DemoQuestion]:
    """Say all turns; return the questions of the end with their answers."""
    results: list[DemoQuestion] = []
    for done, turn in enumerate(turns):
        progress(done, len(turns), turn.text)
        try:
            answer = app.ask(turn)
        except app.failures as error:
            raise AdapterError(
                f"the model {app.model} failed at turn {turn.number} with {type(error).__name__}. "
                "Check OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL, or unset them all: then "
                "the demo brings a model of its own, which needs no network."
            ) from error
        if turn.expected:
            results.append(DemoQuestion(turn.text, turn.expected, answer, turn.expected in answer))
    progress(len(turns), len(turns), "")
    return results


def _result(
    engine: ContextEngine,
    session_id: str,
    model: str,
    turns: int,
    questions: list[DemoQuestion],
    seconds: float,
) -> DemoResult:
    """The figures as the store has them: what `ce sessions` and `ce report` will say."""
    wait = engine.loop.run
    calls = wait(engine.store.list_turns(Scope(session_id=session_id)))
    document = wait(engine.store.get_session(Scope(session_id=session_id)))
    call_records = calls_of(document, calls) if document else []
    sums = figures(call_records, table := priced_by(call_records, prices_here()))
    sessions = wait(engine.store.list_sessions())
    info = next(session for session in sessions if session.session_id == session_id)
    return DemoResult(
        session_id=session_id,
        store_url=engine.store.url,
        model=model,
        turns=turns,
        asked=len(questions),
        found=sum(question.ok for question in questions),
        tokens_with=sums.tokens_sent,
        tokens_without=sums.tokens_without,
        messages=info.messages,
        evidences=info.evidences,
        tool_calls=info.tool_calls,
        seconds=seconds,
        questions=questions,
        cost_with=sums.beside.sent,
        cost_without=sums.beside.untouched,
        cost_apart=sums.beside.apart_sent,
        cost_unit=table.currency,
    )
