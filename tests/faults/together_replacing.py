"""Processes that replace the same things at once: with a version, with one retry, and while others append."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from ce_engine import (
    BudgetConfig,
    BudgetConflictError,
    ContextEngine,
    Message,
    Role,
    Scope,
    Session,
    SessionDocument,
    SessionNotFoundError,
    Task,
    VersionConflictError,
    create_context_engine,
)
from tests.faults.fault_stores import opened
from tests.faults.ledger import Found
from tests.faults.together_talks import PATIENT


SETTINGS = Scope(session_id="settings", user_id="owner")
REPLACED = Scope(session_id="replaced", user_id="owner")
BASE = 10_000


class Replacing:
    """What one process replaces, so many times each, beside what it says in `shared`."""

    def __init__(self, url: str, writer: str, times: int, shared: Scope) -> None:
        self.writer, self.times, self.shared = writer, times, shared
        self.store = opened(url, PATIENT.lock_timeout_s)
        self.refused = 0
        self._put = self.store.put_setting
        vars(self.store)["put_setting"] = self._put_counted
        self.engine: ContextEngine = create_context_engine(self.store, config=PATIENT.config)
        self.counts: Counter[str] = Counter()
        self.made: list[str] = []
        """Constraints of which we heard that they are stored."""

    async def _put_counted(self, *setting: Any) -> int:
        """Count the settings that the store refuses to replace."""
        try:
            return await self._put(*setting)
        except VersionConflictError:
            self.refused += 1
            raise

    async def run(self) -> None:
        for number in range(self.times):
            await self.constraint(f"{self.writer} rule {number}")
            await self._until_done("budget", self.raise_budget)
            name = f"{self.writer}-{number}"
            await self._until_done("patch", partial(self.patch, name))
            await self._until_done("tasks", self.count)
            await self._until_done("put", partial(self.put, name))
        await self.engine.close(60)

    async def _until_done(self, what: str, replace: Callable[[], Awaitable[object]]) -> None:
        """As an app does that was told of a conflict: read again, and repeat the change."""
        while True:
            try:
                await replace()
            except (VersionConflictError, BudgetConflictError):
                self.counts[f"{what}: conflicts told"] += 1
            except SessionNotFoundError:  # nobody has said anything yet
                await asyncio.sleep(0.01)
            else:
                self.counts[f"{what}: replaced"] += 1
                return

    async def constraint(self, text: str) -> None:
        """Here the engine itself reads and repeats, once."""
        before = self.refused
        try:
            await self.engine.constraints.create(SETTINGS, text)
        except VersionConflictError:
            assert self.refused - before == 2, "told before the one retry"
            self.counts["constraints: told after one retry"] += 1
        else:
            retried = self.refused - before
            assert retried in (0, 1), "more than one retry"
            self.counts["constraints: made by the one retry"] += retried
            self.counts["constraints: made"] += 1
            self.made.append(text)

    async def raise_budget(self) -> None:
        budget, version = await self.engine.budgets.get(SETTINGS)
        tokens = budget.max_input_tokens + 1 if version else BASE + 1
        await self.engine.budgets.update(
            SETTINGS, BudgetConfig(max_input_tokens=tokens), version, actor=SETTINGS.user_id
        )

    async def patch(self, name: str) -> None:
        """The session that all talk in: another epoch for all of them."""
        version, document = await self._read(self.shared)
        state = document.session.task_state.model_copy(deep=True)
        state.todo_list.tasks.append(Task(task_id=f"patched-{name}", name=name))
        await self.store.patch_session(
            self.shared, {"task_state": state.model_dump()}, expected_version=version
        )

    async def count(self) -> None:
        """One task that counts."""
        version, document = await self._read(self.shared)
        tasks = {task.task_id: task for task in document.session.task_state.todo_list.tasks}
        before = int(tasks["counter"].name) if "counter" in tasks else 0
        counter = Task(task_id="counter", name=str(before + 1))
        await self.store.upsert_tasks(self.shared, [counter], expected_version=version)

    async def put(self, name: str) -> None:
        """A whole document, with a message more."""
        version, document = await self._read(REPLACED)
        message = Message(role=Role.USER, content=name)
        messages = [*document.session.messages, message]
        session = document.session.model_copy(update={"messages": messages})
        put = document.model_copy(update={"session": session})
        await self.store.put_session(REPLACED, put, expected_version=version)

    async def _read(self, scope: Scope) -> tuple[int, SessionDocument]:
        """The version first: what was written between the two reads is a conflict."""
        version = (await self.store.version(scope)).version
        document = await self.store.get_session(scope)
        return version, document or SessionDocument(session=Session(session_id=scope.session_id))


def compare_replaced(
    engine: ContextEngine, shared: Scope, made: list[str], times: int, found: Found
) -> None:
    """Every replacement that succeeded is there, as often as it succeeded: `times` of each kind."""
    found.where = "replaced"
    rules = [rule.text for rule in engine.sync.constraints.list(SETTINGS)]
    found.expect(sorted(rules) == sorted(made), "constraints", len(rules), len(made))
    budget, version = engine.sync.budgets.get(SETTINGS)
    raised = budget.max_input_tokens - BASE
    found.expect((raised, version) == (times, times), "the budget", raised, version, times)
    document = engine.loop.run(engine.store.get_session(shared))
    assert document is not None
    tasks = {task.task_id: task.name for task in document.session.task_state.todo_list.tasks}
    counter = tasks.pop("counter", "0")
    found.expect(counter == str(times), "the counter", counter, times)
    found.expect(len(tasks) == times, "patched tasks", len(tasks), times)
    document = engine.loop.run(engine.store.get_session(REPLACED))
    assert document is not None
    texts = {message.content for message in document.session.messages}
    number = len(document.session.messages)
    found.expect(len(texts) == number == times, "messages of put documents", number, times)
