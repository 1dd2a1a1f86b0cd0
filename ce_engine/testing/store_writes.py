"""What each write of a store does, as tests."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ce_engine.errors import (
    VersionConflictError,
)
from ce_engine.ports.store import Store
from ce_engine.schema.document import (
    EvidenceLinks,
    ModelUsage,
    Task,
)
from ce_engine.schema.enums import (
    TaskStatus,
    ToolCallStatus,
    TurnStatus,
)
from ce_engine.schema.event_chain import verify_chain
from ce_engine.schema.ids import chain_keys
from ce_engine.schema.rows import (
    AppendEvents,
    AppendMessages,
    AppendModelUsage,
    AppendToolCalls,
    CreateSession,
    CutMark,
    LinkEvidence,
    Placeholder,
    PutBlocks,
    PutCut,
    PutEvidence,
    PutPlaceholders,
    PutTurn,
    ToolCallRow,
    UpsertTasks,
    Write,
)
from ce_engine.schema.scope import Scope
from ce_engine.schema.settings import Versions
from ce_engine.testing import samples
from ce_engine.testing.samples import SCOPE, message
from ce_engine.testing.store_reading import read_document, read_names, read_state


HARD_TEXTS = (
    "",
    " ",
    "文\u3000字 👩‍👩‍👧 e\u0301",
    "half a pair: \ud83d",
    "\udc4b the other half",
    "nul \x00 inside",
    '\x02json:"no escape"',
    "'; drop table ce_messages; --",
    "x" * 200_000,
)


class WritesContract:
    """Each write, and what is read after it."""

    pytestmark = pytest.mark.anyio

    async def test_nothing_is_there_at_first(self, store: Store) -> None:
        assert await store.version(SCOPE) == Versions()
        assert await store.state(SCOPE) is None
        assert await store.get_session(SCOPE) is None
        assert await store.get_evidence(SCOPE, "e1") is None
        assert await store.list_sessions(account_id="a", user_id="u") == []
        assert await store.list_evidences(SCOPE) == []
        assert await store.evidence_rows(SCOPE, ["e1"]) == []
        assert await store.list_context_blocks(SCOPE) == []
        assert await store.list_turns(SCOPE) == []
        assert await store.list_events(SCOPE) == []

    async def test_messages_come_back_as_they_were_in_order(self, store: Store) -> None:
        rows = [samples.message_row("m1"), samples.bare_row("m2"), samples.message_row("m0")]
        result = await store.apply(SCOPE, [AppendMessages(rows[:2]), AppendMessages(rows[2:])])
        assert (result.success, result.version) == (True, 1)
        expected = [
            replace(row, message=row.message.model_copy(update={"seq": seq}))
            for seq, row in enumerate(rows, start=1)
        ]
        assert (await read_state(store)).rows == expected

    async def test_a_message_that_is_there_is_skipped(self, store: Store) -> None:
        await store.apply(SCOPE, [AppendMessages([samples.bare_row("m1", "first")])])
        again = [samples.bare_row(name, "again") for name in ("m1", "m2", "m2")]
        await store.apply(SCOPE, [AppendMessages(again), AppendMessages(again)])
        rows = (await read_state(store)).rows
        contents = [(row.message.message_id, row.message.seq, row.message.content) for row in rows]
        assert contents == [("m1", 1, "first"), ("m2", 2, "again")]

    async def test_only_what_is_newer_is_read(self, store: Store) -> None:
        rows = [samples.bare_row(f"m{n}") for n in range(4)]
        evidence = [PutEvidence(samples.evidence_row(f"e{n}")) for n in range(3)]
        await store.apply(SCOPE, [AppendMessages(rows), *evidence])
        state = await read_state(store, after_seq=3, after_evidence=2)
        assert [row.message.message_id for row in state.rows] == ["m3"]
        assert [(row.evidence.evidence_id, row.seq) for row in state.evidence] == [("e2", 3)]

    async def test_the_first_salt_stands(self, store: Store) -> None:
        first = CreateSession(b"salt", "key", ephemeral=True, at="2025-01-01T00:00:00.000Z")
        await store.apply(SCOPE, [first])
        await store.apply(SCOPE, [CreateSession(b"other", "key"), *message("m1")])
        head = (await read_state(store)).head
        assert (head.salt, head.key_id, head.ephemeral) == (b"salt", "key", True)
        assert (head.version, head.epoch, head.last_seq) == (2, 0, 1)
        assert head.created_at == "2025-01-01T00:00:00.000Z"

    async def test_a_group_made_for_another_key_is_refused(self, store: Store) -> None:
        await store.apply(SCOPE, [CreateSession(b"salt", "key"), *message("m1")])
        with pytest.raises(VersionConflictError, match="key"):
            await store.apply(SCOPE, [*message("m2"), CreateSession(b"other", "another")])
        assert await read_names(store) == ["m1"]

    async def test_the_first_evidence_stands(self, store: Store) -> None:
        row = samples.evidence_row("e1")
        await store.apply(SCOPE, [PutEvidence(row)])
        await store.apply(SCOPE, [PutEvidence(samples.evidence_row("e1", "other", tokens=9))])
        await store.apply(SCOPE, [PutEvidence(samples.evidence_row("e2"))])
        assert await store.evidence_rows(SCOPE, ["e2", "no", "e1"]) == [
            replace(row, seq=1),
            samples.evidence_row("e2", seq=2),
        ]
        assert await store.get_evidence(SCOPE, "e1") == row.evidence

    async def test_another_call_is_linked_once(self, store: Store) -> None:
        first, other = EvidenceLinks(tool_call_id="c1"), EvidenceLinks(model_usage_id="u2")
        links = [LinkEvidence("e1", link) for link in (first, other, other)]
        await store.apply(SCOPE, [PutEvidence(samples.evidence_row("e1")), *links])
        await store.apply(SCOPE, [LinkEvidence("e1", other), LinkEvidence("gone", other)])
        evidence = await store.get_evidence(SCOPE, "e1")
        assert evidence is not None
        assert (evidence.links, evidence.metadata["links"]) == (first, [{"model_usage_id": "u2"}])
        assert evidence.metadata["tags"] == {"lang": "zh"}

    async def test_the_first_link_of_evidence_without_any_is_its_own(self, store: Store) -> None:
        row = samples.evidence_row("e1")
        row.evidence.links = EvidenceLinks()
        first, other = EvidenceLinks(model_usage_id="u1"), EvidenceLinks(tool_call_id="c2")
        links = [LinkEvidence("e1", link) for link in (EvidenceLinks(), first, first, other)]
        await store.apply(SCOPE, [PutEvidence(row), *links])
        evidence = await store.get_evidence(SCOPE, "e1")
        assert evidence is not None
        assert (evidence.links, evidence.metadata["links"]) == (first, [{"tool_call_id": "c2"}])

    async def test_evidence_may_have_its_content_in_a_message(self, store: Store) -> None:
        row = samples.evidence_row("e1", "the answer", message_id="m1")
        messages = AppendMessages([samples.bare_row("m1", "the answer")])
        await store.apply(SCOPE, [PutEvidence(row), messages])
        assert await store.evidence_rows(SCOPE, ["e1"]) == [replace(row, seq=1)]
        assert (await read_state(store)).evidence == [replace(row, seq=1)]
        assert row.evidence.content == "the answer"

    async def test_a_message_may_take_the_content_over(self, store: Store) -> None:
        row = samples.evidence_row("e1", "the result")
        messages = AppendMessages([samples.bare_row("m1", "the result")])
        await store.apply(SCOPE, [PutEvidence(row)])
        await store.apply(SCOPE, [messages, LinkEvidence("e1", row.evidence.links, "m1")])
        moved = replace(row, seq=1, message_id="m1")
        assert await store.evidence_rows(SCOPE, ["e1"]) == [moved]
        assert (await read_state(store)).evidence == [moved]

    @pytest.mark.parametrize("order", [(0, 1), (1, 0)])
    async def test_the_end_of_a_tool_call_stands(
        self, store: Store, order: tuple[int, int]
    ) -> None:
        began = samples.tool_call("c1", called_at="", result_evidence_ids=["e1"])
        ended = samples.tool_call(
            "c1", status=ToolCallStatus.ERROR, duration_ms=9, result_evidence_ids=["e1", "e2"]
        )
        rows = [
            ToolCallRow(began, host_call_id="call_0", message_id="m1", ended=False),
            ToolCallRow(ended, turn_id="t1", redactor_version="1"),
        ]
        for position in order:
            await store.apply(SCOPE, [AppendToolCalls([rows[position]])])
        session = await read_document(store)
        assert session.session.tool_state.tool_calls == [ended]

    async def test_a_tool_calls_first_time_stands(self, store: Store) -> None:
        early, late = (samples.tool_call("c1", called_at=at) for at in ("2025", "2026"))
        await store.append_tool_calls(SCOPE, [early, samples.tool_call("c0")])
        await store.append_tool_calls(SCOPE, [late])
        calls = (await read_document(store)).session.tool_state.tool_calls
        assert [(call.tool_call_id, call.called_at) for call in calls] == [
            ("c1", "2025"),
            ("c0", samples.AT),
        ]

    async def test_usage_stands_and_tasks_and_blocks_are_replaced(self, store: Store) -> None:
        usage = [ModelUsage(model_usage_id="u1", provider=p, model="m") for p in ("first", "2nd")]
        tasks = [Task(task_id="k1", name="do", status=status) for status in TaskStatus]
        blocks = [samples.block("b1", content=text) for text in ("old", "new")]
        for n in (0, 1):
            usage_write = AppendModelUsage([usage[n]], turn_id="t1")
            writes: list[Write] = [usage_write, UpsertTasks([tasks[n]]), PutBlocks([blocks[n]])]
            await store.apply(SCOPE, writes)
        document = await read_document(store)
        assert document.session.model_usage == [usage[0]]
        assert document.session.task_state.todo_list.tasks == [tasks[1]]
        assert document.context_blocks == [blocks[1]]

    async def test_turns_are_listed_in_order_of_opening(self, store: Store) -> None:
        for name in ("t2", "t1"):
            await store.apply(SCOPE, [PutTurn(samples.turn(name))])
        closed = samples.turn("t2", status=TurnStatus.COMMITTED, report={}, attempts=[])
        abandoned = samples.turn("t2", status=TurnStatus.ABANDONED)  # too late: it was closed
        await store.apply(SCOPE, [PutTurn(closed), PutTurn(abandoned)])
        assert await store.list_turns(SCOPE) == [closed, samples.turn("t1")]
        state = await read_state(store)
        assert state.open_turns == [state.newest_turn] == [samples.turn("t1")]

    async def test_cuts_are_kept_by_lane_kind_and_anchor(self, store: Store) -> None:
        first, second = (
            CutMark("l", "drop", "m1", 100, samples.AT),
            CutMark("l", "shorten", "m1", 5),
        )
        moved = CutMark("l", "drop", "m5", 100)
        await store.apply(SCOPE, [PutCut(first), PutCut(second), PutCut(replace(first, budget=90))])
        assert (await read_state(store)).cuts == [replace(first, budget=90), second]
        await store.apply(SCOPE, [PutCut(moved, replaces="m1")])
        assert (await read_state(store)).cuts == [second, moved]

    async def test_a_values_first_placeholder_stands(self, store: Store) -> None:
        first, second = Placeholder("EMAIL", b"\x00a", 1), Placeholder("PHONE", b"\x00a", 1)
        await store.apply(SCOPE, [PutPlaceholders([first, second])])
        await store.apply(SCOPE, [PutPlaceholders([replace(first, number=7)])])
        assert (await read_state(store)).placeholders == [first, second]

    @pytest.mark.req("B-01")
    async def test_events_make_one_chain(self, store: Store) -> None:
        events = [samples.event(f"v{n}") for n in range(3)] + [samples.event("", turn_id=None)]
        await store.apply(SCOPE, [AppendEvents(events[:2]), AppendEvents([events[0]])])
        await store.apply(SCOPE, [AppendEvents([events[1], *events[2:], events[3]])])
        stored_events = await store.list_events(SCOPE)
        assert [event.seq for event in stored_events] == [1, 2, 3, 4, 5]
        bare = [event.model_copy(update={"seq": None, "hash": ""}) for event in stored_events]
        assert bare == [*events, events[3]]
        head = (await read_state(store)).head
        key = chain_keys(store.secret, SCOPE.key)
        assert (head.last_event_seq, head.chain_head) == (5, stored_events[-1].hash)
        assert verify_chain(stored_events, head.chain_head, key) is None
        stored_events[1].ts = "2027"
        assert verify_chain(stored_events, head.chain_head, key) == 2

    async def test_an_event_of_another_session_keeps_its_scope(self, store: Store) -> None:
        foreign = samples.event("v1", Scope(session_id="s", user_id="other"))
        await store.apply(SCOPE, [AppendEvents([foreign])])
        (stored_event,) = await store.list_events(SCOPE)
        assert (stored_event.account_id, stored_event.user_id, stored_event.session_id) == (
            "",
            "other",
            "s",
        )

    @pytest.mark.parametrize("text", HARD_TEXTS, ids=range(len(HARD_TEXTS)))
    async def test_any_text_survives(self, store: Store, text: str) -> None:
        scope = Scope.of_stored("", text[:50], f"s{text[:50]}")  # also an id of an older release
        row = samples.message_row(text[:50], text, speaker=text[:50])
        evidence = samples.evidence("e", text, metadata={text[:50]: text})
        event = samples.event("v", scope, payload={"x": text}, tags={"t": text[:50]})
        await store.apply(scope, [AppendMessages([row]), AppendEvents([event])])
        await store.put_evidence(scope, evidence)
        state = await read_state(store, scope)
        row.message.seq = 1
        assert state.rows == [row]
        assert await store.get_evidence(scope, "e") == evidence
        (stored_event,) = await store.list_events(scope)
        assert (stored_event.payload, stored_event.tags) == (event.payload, event.tags)
        assert (
            verify_chain([stored_event], state.head.chain_head, chain_keys(store.secret, scope.key))
            is None
        )

    async def test_data_that_is_no_json_is_kept_as_text(self, store: Store) -> None:
        call = samples.tool_call("c1", args_digest={"at": {1: complex(1, 2)}, "n": (1, 2)})
        await store.append_tool_calls(SCOPE, [call])
        (stored_call,) = (await read_document(store)).session.tool_state.tool_calls
        assert stored_call.args_digest == {"at": {"1": "(1+2j)"}, "n": [1, 2]}
