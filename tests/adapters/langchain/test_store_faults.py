"""The store is locked, full, read-only, deleted or hung: the app answers as before (decision 10)."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_openai import ChatOpenAI

from ce_engine import Store, create_context_engine, open_store
from ce_engine.testing.faults import FAULTS, Fault, SwitchStore, read_only
from ce_integrations.langchain import install_ce
from ce_integrations.testing.wire import Wire


def talk(model: ChatOpenAI, said: list[BaseMessage], questions: Sequence[str]) -> list[str]:
    """Some turns of a chat that resends its history."""
    for question in questions:
        said.append(HumanMessage(question))
        answer = model.invoke(said)
        assert isinstance(answer, AIMessage)
        said.append(AIMessage(answer.content))
    return [str(message.content) for message in said]


def run(
    store: Store | str | None,
    trouble: Callable[[], AbstractContextManager[None]] | None,
    *,
    from_the_start: bool = False,
) -> Any:
    """One turn, then three in trouble; the answers, the bodies, and the last report."""
    with Wire() as wire:
        model = ChatOpenAI(model="gpt-4", base_url=wire.base_url, api_key="none", max_retries=0)  # type: ignore[arg-type]  # a plain key is taken
        with ExitStack() as stack:
            installed = None
            if store is not None:
                installed = stack.enter_context(install_ce(model, store=store, session_id="s"))
            if trouble is not None and from_the_start:
                stack.enter_context(trouble())
            said: list[BaseMessage] = []
            talk(model, said, ["one?"])
            if installed is not None:
                installed.flush()
            if trouble is not None and not from_the_start:
                stack.enter_context(trouble())
            texts = talk(model, said, ["two?", "three?", "four?"])
            report = installed.last_report("s") if installed is not None else None
        assert wire.refusals == []
        return texts, [sent.raw for sent in wire.requests], report


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user can come to."""
    # The engine may still be writing when the test is over.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o777)
        yield Path(name)


@pytest.fixture(scope="module")
def plain() -> Any:
    return run(None, None)


@pytest.mark.scenario(13)
@pytest.mark.req("A-25", "D-09")
@pytest.mark.production_guard
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_the_app_answers_as_before(fault: Fault, folder: Path, plain: Any) -> None:
    path = folder / "ce.db"
    texts, bodies, report = run(open_store(f"sqlite:///{path}"), lambda: fault(path))
    assert texts == plain[0]
    assert bodies == plain[1]
    assert report is not None


@pytest.mark.req("A-25", "D-09")
@pytest.mark.production_guard
def test_the_app_answers_as_before_where_the_store_was_read_only_from_the_start(
    folder: Path, plain: Any
) -> None:
    path = folder / "ce.db"
    made = create_context_engine(f"sqlite:///{path}")
    made.sync.check()
    made.sync.close()
    run("memory://", None)  # whoever may not read the store may not import either
    texts, bodies, report = run(
        open_store(f"sqlite:///{path}"), lambda: read_only(path), from_the_start=True
    )
    assert texts == plain[0]
    assert bodies == plain[1]
    assert report.degradations == ["CONTEXT_STORE_UNAVAILABLE"]


@pytest.mark.req("A-25", "D-09")
@pytest.mark.production_guard
def test_the_app_answers_as_before_where_its_session_id_is_too_long(plain: Any) -> None:
    """A framework's own id, such as LangGraph's thread, is not seen before the call."""
    with Wire() as wire:
        model = ChatOpenAI(model="gpt-4", base_url=wire.base_url, api_key="none", max_retries=0)  # type: ignore[arg-type]  # a plain key is taken
        long: Any = {"configurable": {"thread_id": "i" * 600}}
        with install_ce(model, store="memory://") as installed:
            said = [HumanMessage("one?")]
            answer = model.invoke(said, long)
            assert [installed.last_report("i" * n) for n in (512, 88)] == [None, None]
        assert [str(each.content) for each in (*said, answer)] == plain[0][:2]
        assert [sent.raw for sent in wire.requests] == plain[1][:1]


@pytest.mark.req("A-25", "D-09")
@pytest.mark.production_guard
def test_a_store_that_hangs_holds_nobody_up(plain: Any) -> None:
    texts, bodies, report = run(SwitchStore(hangs=True), None)
    assert texts == plain[0]
    assert bodies == plain[1]
    assert report.degradations == ["CONTEXT_STORE_UNAVAILABLE"]
