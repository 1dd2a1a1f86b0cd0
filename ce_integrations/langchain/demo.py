"""`ce demo` for LangChain: a long session about what is installed here, within a small budget."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ce_engine import (
    AdapterError,
    BudgetConfig,
    ContextEngine,
    RuntimeConfig,
    Scope,
    StoreUnavailableError,
    create_context_engine,
)
from ce_engine.cli.demo import DemoOptions, DemoQuestion, DemoResult, Progress
from ce_integrations.base import check_requirements


if TYPE_CHECKING:
    from ce_integrations.langchain.demo_app import App, Chat
    from ce_integrations.langchain.demo_turns import Turn

REQUIRES = ("langchain>=1.4,<2", "langchain-core>=1.7,<2", "langchain-openai>=1.7,<2")
FLUSH_S = 30.0


class LangChainDemo:
    """Runs an ordinary agent and an ordinary retrieval chain in one session, with one line for each."""

    def run(self, options: DemoOptions, progress: Progress) -> DemoResult:
        """Run the session, ask the fixed questions at its end, and leave everything in the store.

        Raises:
            MissingDependencyError: the packages of the extra `demo` are not installed.
            ConfigError: fewer turns than the facts need, or too few distributions to talk about.
            AdapterError: the model's endpoint does not answer.
            StoreUrlError: the store's URL is not understood.
            StoreUnavailableError: the store cannot be written, or not fast enough.
        """
        check_requirements(REQUIRES, "demo")
        # Only who runs the demo pays for LangChain's imports.
        from ce_integrations.langchain import install_ce  # noqa: PLC0415
        from ce_integrations.langchain.demo_app import make_app, make_chat  # noqa: PLC0415
        from ce_integrations.langchain.demo_documents import installed_packages  # noqa: PLC0415
        from ce_integrations.langchain.demo_turns import script  # noqa: PLC0415

        started = time.perf_counter()
        packages = installed_packages()
        turns = script(list(packages.values()), options.turns)
        config = RuntimeConfig(budget=BudgetConfig(max_input_tokens=options.budget))
        session_id = _new_session_id()
        with ExitStack() as ending:
            engine = create_context_engine(options.store_url, config=config)
            ending.callback(engine.sync.close)
            engine.sync.check()
            chat = make_chat(packages, engine.estimator.estimate_text)
            app = make_app(packages, chat.model, session_id)
            for target in (app.agent, app.chain):
                ending.enter_context(install_ce(target, engine=engine, session_id=session_id))
            questions = _talk(app, chat, turns, progress)
            if not engine.sync.flush(FLUSH_S):
                raise StoreUnavailableError(
                    f"{engine.store.url} did not take all that was recorded within {FLUSH_S:.0f} s. "
                    "See that its disk has room and that nobody locks it, then run the demo again."
                )
            seconds = time.perf_counter() - started
            return _result(engine, session_id, chat.name, len(turns), questions, seconds)


DEMO = LangChainDemo()


def _new_session_id() -> str:
    """A session of its own for every run, in the order of the runs."""
    return f"langchain-demo-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def _talk(app: App, chat: Chat, turns: Sequence[Turn], progress: Progress) -> list[DemoQuestion]:
    """Say all turns; return the questions of the end with their answers."""
    asked: list[DemoQuestion] = []
    for done, turn in enumerate(turns):
        progress(done, len(turns), turn.text)
        try:
            answer = app.ask(turn)
        except chat.failures as error:
            raise AdapterError(
                f"the model {chat.name} failed at turn {turn.number} with {type(error).__name__}. "
                "Check OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL, or unset them all: then "
                "the demo brings a model of its own, which needs no network."
            ) from error
        if turn.expected:
            asked.append(DemoQuestion(turn.text, turn.expected, answer, turn.expected in answer))
    progress(len(turns), len(turns), "")
    return asked


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
    sessions = wait(engine.store.list_sessions())
    info = next(found for found in sessions if found.session_id == session_id)
    return DemoResult(
        session_id=session_id,
        store_url=engine.store.url,
        model=model,
        turns=turns,
        asked=len(questions),
        found=sum(question.ok for question in questions),
        tokens_with=sum(call.report.get("token_used", 0) for call in calls),
        tokens_without=sum(call.report.get("tokens_before", 0) for call in calls),
        messages=info.messages,
        evidences=info.evidences,
        tool_calls=info.tool_calls,
        seconds=seconds,
        questions=questions,
    )
