"""Versions, transactions, isolation, threads and loops of a store, as tests."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from ce_engine.errors import (
    ScopeViolationError,
    StoreUnavailableError,
    VersionConflictError,
)
from ce_engine.ports.store import Store
from ce_engine.schema.document import (
    ModelUsage,
    Task,
)
from ce_engine.schema.event_chain import verify_chain
from ce_engine.schema.ids import MIN_SECRET_BYTES, chain_keys
from ce_engine.schema.rows import (
    AppendEvents,
    AppendMessages,
    AppendToolCalls,
    CreateSession,
    DeleteSession,
    PutEvidence,
    PutTurn,
    ToolCallRow,
    Write,
)
from ce_engine.schema.scope import Scope
from ce_engine.schema.settings import Versions
from ce_engine.testing import samples
from ce_engine.testing.samples import SCOPE, message
from ce_engine.testing.store_deletion import deletion
from ce_engine.testing.store_reading import read_names, read_state


class BehaviourContract:
    """Versions, transactions, isolation, threads, loops."""

    pytestmark = pytest.mark.anyio

    @pytest.mark.req("A-07", "B-07")
    async def test_a_stale_version_changes_nothing(self, store: Store) -> None:
        await store.put_session(SCOPE, samples.document())
        await store.apply(SCOPE, message("m9"))
        before = await read_state(store), await store.get_session(SCOPE)
        usage = ModelUsage(model_usage_id="u9", provider="p", model="m")
        for stale in (0, 1, 3):
            for attempt in (
                store.put_session(SCOPE, samples.document(), stale),
                store.patch_session(SCOPE, {"summary": None}, stale),
                store.append_tool_calls(SCOPE, [samples.tool_call("c9")], stale),
                store.append_model_usage(SCOPE, [usage], stale),
                store.upsert_tasks(SCOPE, [Task(task_id="k9", name="n")], stale),
                store.apply(SCOPE, message("m10"), expected_version=stale),
                store.apply(SCOPE, [], expected_version=stale),
            ):
                with pytest.raises(VersionConflictError, match=f"version 2, expected {stale}"):
                    await attempt
        assert (await read_state(store), await store.get_session(SCOPE)) == before
        result = await store.patch_session(SCOPE, {"summary": None}, 2)
        assert result.version == 3

    async def test_version_0_means_not_there_yet(self, store: Store) -> None:
        with pytest.raises(VersionConflictError, match="version 0, expected 1"):
            await store.put_session(SCOPE, samples.document(), 1)
        assert await store.version(SCOPE) == Versions()
        assert (await store.put_session(SCOPE, samples.document(), 0)).version == 1

    async def test_no_writes_write_nothing(self, store: Store) -> None:
        assert (await store.apply(SCOPE, [])).version == 0
        assert await store.version(SCOPE) == Versions()
        await store.apply(SCOPE, message("m1"))
        assert (await store.apply(SCOPE, [])).version == 1
        assert await store.version(SCOPE) == (1, 0, 0)

    async def test_a_failing_write_changes_nothing(self, store: Store) -> None:
        await store.put_session(SCOPE, samples.document())
        before = await read_state(store), await store.get_session(SCOPE)
        unknown: Any = object()
        groups: list[Sequence[Write]] = [
            [*message("m9"), PutEvidence(samples.evidence_row("e9")), unknown],
            [AppendEvents([samples.event("v9")]), PutTurn(samples.turn("t9")), unknown],
        ]
        for group in groups:
            with pytest.raises(Exception, match="object"):
                await store.apply(SCOPE, group)
            with pytest.raises(Exception, match="object"):
                await store.apply(Scope(session_id="new"), group)
        assert (await read_state(store), await store.get_session(SCOPE)) == before
        assert await store.list_events(SCOPE) == []
        assert await store.version(Scope(session_id="new")) == Versions()

    async def test_a_transaction_lands_together(self, store: Store) -> None:
        async with store.transaction(SCOPE) as group:
            group.add(*message("m1"), PutTurn(samples.turn("t1")))
            group.add(AppendEvents([samples.event("v1")]))
            assert await store.version(SCOPE) == Versions()
        assert group.result is not None
        assert group.result.version == 1
        assert await store.version(SCOPE) == (1, 0, 0)

    async def test_a_transaction_left_by_an_error_writes_nothing(self, store: Store) -> None:
        async def fail() -> None:
            async with store.transaction(SCOPE) as group:
                group.add(*message("m1"))
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()
        assert await store.version(SCOPE) == Versions()

    @pytest.mark.req("B-03")
    async def test_users_and_accounts_never_see_each_other(self, store: Store) -> None:
        await store.put_session(SCOPE, samples.document())
        await store.apply(SCOPE, [PutTurn(samples.turn("t1")), AppendEvents([samples.event("v")])])
        for user, account in (("", "a"), ("u", ""), ("U", "a"), ("u%", "a"), ("other", "other")):
            other = Scope(session_id=SCOPE.session_id, user_id=user, account_id=account)
            assert await store.version(other) == Versions()
            assert await store.state(other) is None
            assert await store.get_session(other) is None
            assert await store.get_evidence(other, "e1") is None
            assert await store.list_evidences(other) == []
            assert await store.evidence_rows(other, ["e1"]) == []
            assert await store.list_context_blocks(other) == []
            assert await store.list_tasks(other) == []
            assert await store.list_turns(other) == []
            assert await store.list_events(other) == []
            assert await store.list_sessions(account_id=account, user_id=user) == []
            await store.apply(other, message("mine"))
            assert await read_names(store, other) == ["mine"]
        assert await read_names(store) == ["m1", "m2"]

    async def test_sessions_are_listed_newest_first(self, store: Store) -> None:
        for user, session in (("u", "s1"), ("u", "s2"), ("v", "s3"), ("u", "passing")):
            scope = Scope(session_id=session, user_id=user, account_id="a")
            create = CreateSession(b"salt", "key", ephemeral=session == "passing")
            await store.apply(scope, [create, *message("m1")])
            await asyncio.sleep(0.002)  # another millisecond
        scope = Scope(session_id="s1", user_id="u", account_id="a")
        rows = [samples.message_row("m2"), samples.message_row("m3", framework="two")]
        others: list[Write] = [PutTurn(samples.turn("t1", framework="three"))]
        others += [AppendToolCalls([ToolCallRow(samples.tool_call("c1"))])]
        await store.apply(
            scope, [AppendMessages(rows), PutEvidence(samples.evidence_row("e")), *others]
        )
        sessions = await store.list_sessions(account_id="a", user_id="u")
        assert [info.session_id for info in sessions] == ["s1", "s2"]
        first = sessions[0]
        assert first.frameworks == ["acme", "three", "two"]
        assert (first.messages, first.tool_calls, first.evidences, first.turns) == (3, 1, 1, 1)
        assert (first.user_id, first.account_id, first.ephemeral) == ("u", "a", False)
        assert first.updated_at > first.created_at
        assert sessions[1].frameworks == []
        everything = await store.list_sessions(account_id="a", user_id=None, ephemeral=True)
        assert [info.session_id for info in everything] == ["s1", "passing", "s3", "s2"]
        assert await store.list_sessions(user_id=None) == []
        newest = await store.list_sessions(account_id="a", user_id=None, ephemeral=True, limit=2)
        assert newest == everything[:2]
        since = everything[1].updated_at
        recent_sessions = await store.list_sessions(
            account_id="a", user_id=None, ephemeral=True, since=since
        )
        assert recent_sessions == everything[:2]
        assert await store.list_sessions(account_id="a", since="9999") == []

    async def test_objects_are_not_shared_with_the_caller(self, store: Store) -> None:
        row = samples.message_row("m1")
        turn = samples.turn("t1")
        await store.apply(SCOPE, [AppendMessages([row]), PutTurn(turn)])
        await store.put_evidence(SCOPE, item := samples.evidence("e1"))
        _spoil(row, turn, item)
        expected = (samples.message_row("m1"), samples.turn("t1"), samples.evidence("e1"))
        expected[0].message.seq = 1
        for _ in range(2):
            state = await read_state(store)
            copies = (state.rows[0], state.open_turns[0], state.evidence[0].evidence)
            assert copies == expected
            _spoil(*copies)

    async def test_tasks_append_at_once(self, store: Store) -> None:
        await asyncio.gather(*(_append(store, f"m{n}") for n in range(40)))
        await _check_complete(store, 40)

    async def test_threads_with_loops_of_their_own_append_at_once(self, store: Store) -> None:
        async def many(thread: int) -> None:
            await asyncio.gather(*(_append(store, f"m{thread}-{n}") for n in range(10)))

        threads = [threading.Thread(target=asyncio.run, args=(many(n),)) for n in range(4)]
        for thread in threads:
            thread.start()
        await asyncio.gather(_append(store, "m"), *(_join(thread) for thread in threads))
        await _check_complete(store, 41)

    async def test_a_loop_that_ends_takes_nothing_along(self, store: Store) -> None:
        for n in range(3):
            await asyncio.to_thread(asyncio.run, _append(store, f"m{n}"))
        await _append(store, "m3")
        await _check_complete(store, 4)

    async def test_a_cancelled_call_lands_whole_or_not_at_all(self, store: Store) -> None:
        for n in range(10):
            task = asyncio.create_task(_append(store, f"m{n}"))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        await _append(store, "last")
        state = await read_state(store)
        await _check_complete(store, len(state.rows))

    async def test_check_leaves_no_trace(self, store: Store) -> None:
        await store.check()
        await store.apply(SCOPE, message("m1"))
        await store.check()
        assert await store.version(SCOPE) == (1, 0, 0)
        assert len(await store.list_sessions(account_id="a", user_id=None, ephemeral=True)) == 1

    async def test_a_closed_store_says_so(self, store: Store) -> None:
        await store.apply(SCOPE, message("m1"))
        await store.close()
        await store.close()
        with pytest.raises(StoreUnavailableError, match="closed"):
            await store.version(SCOPE)
        with pytest.raises(StoreUnavailableError, match="closed"):
            await store.apply(SCOPE, message("m2"))

    async def test_the_secret_is_long_and_stays(self, store: Store) -> None:
        assert len(store.secret) >= MIN_SECRET_BYTES
        assert store.secret == store.secret
        assert isinstance(store, Store)
        assert "://" in store.url

    @pytest.mark.req("B-01")
    async def test_content_that_nobody_touched_is_not_called_wrong(self, store: Store) -> None:
        assert await store.check_content(SCOPE) is None
        assert await store.list_keys() == []
        await _append(store, "m1")
        await store.put_context_blocks(SCOPE, [samples.block("b1")])
        result = await store.check_content(SCOPE)
        assert result is not None
        assert result.wrong == ()
        assert await store.list_keys() == [SCOPE.key]

    @pytest.mark.req("D-10")
    async def test_another_project_reads_no_content(self, store: Store) -> None:
        own_scope = replace(SCOPE, project_id="mine")
        await store.apply(own_scope, [*message("m1"), PutEvidence(samples.evidence_row("e1"))])
        for other in (replace(SCOPE, project_id="other"), replace(SCOPE, project_id="")):
            for reading in reads(store, other):
                with pytest.raises(ScopeViolationError, match="belongs to project 'mine'"):
                    await reading
            head = await store.state(other)
            assert head is not None
            assert head.head.project_id == "mine"
            assert await store.chain(other) is not None
        for reading in reads(store, own_scope):
            await reading
        assert (await store.evidence_rows(own_scope, ["e1"]))[0].evidence.content

    @pytest.mark.req("D-10", "B-03")
    async def test_where_nothing_is_nothing_is_refused(self, store: Store) -> None:
        own_scope = replace(SCOPE, project_id="mine")
        await store.apply(own_scope, message("m1"))
        await store.apply(own_scope, [DeleteSession(deletion(store))])
        other = replace(SCOPE, project_id="other")
        for reading in reads(store, other):
            await reading


async def _append(store: Store, name: str) -> None:
    await store.apply(SCOPE, [*message(name), AppendEvents([samples.event(f"v-{name}")])])


async def _join(thread: threading.Thread) -> None:
    await asyncio.to_thread(thread.join)


async def _check_complete(store: Store, count: int) -> None:
    """Every append is there once, numbered without gaps, each with its event."""
    state = await read_state(store)
    events = await store.list_events(SCOPE)
    assert [row.message.seq for row in state.rows] == list(range(1, count + 1))
    assert (state.head.version, state.head.last_seq) == (count, count)
    assert [f"v-{row.message.message_id}" for row in state.rows] == [e.event_id for e in events]
    assert verify_chain(events, state.head.chain_head, chain_keys(store.secret, SCOPE.key)) is None


def _spoil(row: Any, turn: Any, item: Any) -> None:
    row.message.content = row.message.tool_calls[0].args["q"] = "spoilt"
    row.tokens = -1
    turn.report["layers"]["rules"]["tokens"] = turn.attempts[0]["status"] = "spoilt"
    item.metadata["tags"]["lang"] = "spoilt"


def reads(store: Store, scope: Scope) -> list[Awaitable[object]]:
    """Everything that reads content."""
    return [
        store.get_session(scope),
        store.get_evidence(scope, "e1"),
        store.list_evidences(scope),
        store.evidence_rows(scope, ["e1"]),
        store.list_context_blocks(scope),
        store.list_tasks(scope),
        store.list_turns(scope),
        store.list_events(scope),
    ]
