"""What a deletion takes away and what it leaves, as tests of stores (A-30)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ce_engine.errors import SessionNotFoundError, VersionConflictError
from ce_engine.ports.store import Store
from ce_engine.schema.document import (
    AttachmentRecord,
    EvidenceLinks,
    ModelUsage,
    Task,
    ToolRequest,
)
from ce_engine.schema.enums import TurnStatus
from ce_engine.schema.event_chain import payload_mac, verify_log
from ce_engine.schema.events import Event, EventType
from ce_engine.schema.ids import chain_keys
from ce_engine.schema.rows import (
    AppendEvents,
    AppendMessages,
    AppendModelUsage,
    AppendToolCalls,
    CreateSession,
    CutMark,
    DeleteEvidence,
    DeleteSession,
    ForSession,
    LinkEvidence,
    Placeholder,
    PutBlocks,
    PutCut,
    PutEvidence,
    PutPlaceholders,
    PutSummary,
    PutTurn,
    ToolCallRow,
    UpsertTasks,
    Write,
)
from ce_engine.schema.scope import Scope
from ce_engine.schema.settings import Versions
from ce_engine.testing import samples
from ce_engine.testing.samples import SCOPE, message
from ce_engine.testing.store_reading import read_names, read_state


CANARY = "canary"
OTHER = Scope(session_id=SCOPE.session_id, user_id="other", account_id=SCOPE.account_id)


def everything(word: str) -> list[Write]:
    """A group that has `word` in every place of every row that may hold content."""
    text, raw = f"a {word} 字", word.encode()
    row = samples.message_row("m1", text, speaker=text, lane_key=text, key=raw, host_id=raw)
    assert row.message.author is not None
    row.message.author.id = text
    row.message.tool_calls = [ToolRequest(name=text, id="call_0", args={text: text})]
    source = samples.evidence("x").source.model_copy(update={"name": text, "uri": text})
    whole = samples.evidence_row("e1", text, dedup_key=raw, lane_key=text)
    whole.evidence = whole.evidence.model_copy(update={"metadata": {text: text}, "source": source})
    return [
        CreateSession(raw, "key"),
        AppendMessages([row, samples.bare_row("m2", text)]),
        PutEvidence(whole),
        PutEvidence(samples.evidence_row("e2", message_id="m2")),
        PutBlocks([samples.block("b1", content=text)]),
        AppendToolCalls([ToolCallRow(samples.tool_call("c1", args_digest={"q": text}, tool=text))]),
        AppendModelUsage([ModelUsage(model_usage_id="u1", provider=text, model=text)]),
        UpsertTasks([Task(task_id="k1", name=text)]),
        PutTurn(samples.turn("t1", report={text: text}, attempts=[{"error": text}], lane=text)),
        PutCut(CutMark(text, "drop", "m1", 9, samples.AT)),
        PutSummary(samples.summary("m1", text, lane_key=text, tips=[text]), 0),
        PutPlaceholders([Placeholder("EMAIL", raw, 1)]),
        AppendEvents(
            [
                samples.event(
                    "v1", payload={"x": text}, tags={"t": text}, meta={"m": text}, nonce=text
                )
            ]
        ),
    ]


CALM = "Nothing is said of birds in this one."


def quoting(text: str) -> list[Write]:
    """Rows of every kind that quote a text, which is that of evidence `e1`."""
    so = f"So: {text}"
    asking = samples.bare_row("m2", "Look it up.")
    asking.message.tool_calls = [ToolRequest(name="find", id="call_0", args={"q": so, "n": 3})]
    twin = samples.evidence_row("e2", f" {text.upper()}\n", dedup_key=b"2")
    beside = samples.evidence_row("e3", "More.", dedup_key=b"3")
    beside.evidence = beside.evidence.model_copy(update={"metadata": {"abstract": so}})
    turn = samples.turn("t1", report={"context": so}, attempts=[{"error": so}])
    turn.status = TurnStatus.ABANDONED
    quotation = f"It says: {text[4:]} Really?"
    return [
        AppendMessages([samples.bare_row("m1", quotation), asking, samples.bare_row("m3", CALM)]),
        PutEvidence(samples.evidence_row("e1", text)),
        PutEvidence(twin),
        PutEvidence(beside),
        PutBlocks([samples.block("b1", content=so, refs=[])]),
        AppendToolCalls([ToolCallRow(samples.tool_call("c1", args_digest={"q": so}, tool="find"))]),
        AppendModelUsage([ModelUsage(model_usage_id="u1", provider="p", model="m", error=so)]),
        UpsertTasks([Task(task_id="k1", name=so)]),
        PutTurn(turn),
        AppendEvents([samples.event("v1", payload={"plan": so}, tags={"t": so})]),
    ]


def deletion(store: Store, name: str = "d1", **payload: str) -> Event:
    """The event of a deletion, as the engine makes it."""
    values = {"payload": payload or {"what": "session"}, "event_type": EventType.DELETED}
    event = samples.event(name).model_copy(update=values)
    event.payload_mac = payload_mac(event, chain_keys(store.secret, SCOPE.key).own)
    return event


async def check_log(store: Store, status: str) -> None:
    """The log is whole, and this is what it says."""
    chain = await store.chain(SCOPE)
    assert chain is not None
    key = chain_keys(store.secret, SCOPE.key)
    assert verify_log(chain.events, chain.head.chain_head, key, b"key").status == status


class DeletionContract:
    """Sessions and evidence that are deleted, and what comes after."""

    pytestmark = pytest.mark.anyio

    def bytes_of(self, store: Store) -> bytes:
        """All bytes that the store keeps, wherever it keeps them; a subclass says how to read them."""
        raise NotImplementedError

    @pytest.mark.req("A-30", "B-01")
    async def test_of_a_deleted_session_the_envelopes_stay(self, store: Store) -> None:
        await store.apply(SCOPE, everything(CANARY))
        before = await store.version(SCOPE)
        result = await store.apply(SCOPE, [DeleteSession(event := deletion(store))])
        assert result.removed == {"messages": 2, "evidences": 2, "tool_calls": 1, "turns": 1}
        assert (before, result.version) == ((1, 0, 0), 2)
        assert await store.version(SCOPE) == Versions()
        assert await store.state(SCOPE) is None
        assert await store.get_session(SCOPE) is None
        assert await store.list_sessions(account_id="a", user_id=None, ephemeral=True) == []
        assert await store.list_evidences(SCOPE) == []
        assert await store.get_evidence(SCOPE, "e1") is None
        assert await store.list_context_blocks(SCOPE) == []
        assert await store.list_tasks(SCOPE) == []
        assert await store.list_turns(SCOPE) == []
        chain = await store.chain(SCOPE)
        assert chain is not None
        assert (chain.head.is_deleted, chain.head.key_id, chain.head.epoch) == (True, "", 1)
        first, last = await store.list_events(SCOPE)
        assert (first.payload, first.tags, first.meta, first.nonce) == ({}, {}, {}, "")
        envelope = (first.event_id, first.seq, first.kind, first.ts)
        assert envelope == ("v1", 1, "user_input", event.ts)
        assert (last.event_type, last.payload) == ("deleted", {"what": "session"})
        await check_log(store, "deleted")

    @pytest.mark.req("A-30")
    async def test_nothing_of_it_is_in_any_byte(self, store: Store) -> None:
        await store.apply(OTHER, everything("keep"))
        await store.apply(SCOPE, everything(CANARY))
        await store.patch_session(SCOPE, {"summary": samples.document().session.summary})
        long = [samples.bare_row(f"l{n}", f"{n} {CANARY} " * 2000) for n in range(20)]
        await store.apply(SCOPE, [AppendMessages(long)])
        assert CANARY.encode() in self.bytes_of(store)
        await store.apply(SCOPE, [DeleteSession(deletion(store))])
        await store.purge()
        left = self.bytes_of(store)
        assert CANARY.encode() not in left
        assert b"keep" in left
        await store.purge()
        await store.apply(OTHER, message("m9"))
        assert await read_names(store, OTHER) == ["m1", "m2", "m9"]

    @pytest.mark.req("A-30", "B-03")
    async def test_another_users_session_of_this_id_is_not_touched(self, store: Store) -> None:
        for scope in (SCOPE, OTHER):
            await store.apply(scope, everything("x"))
        before = await read_state(store, OTHER), await store.get_session(OTHER)
        await store.apply(SCOPE, [DeleteSession(deletion(store))])
        assert (await read_state(store, OTHER), await store.get_session(OTHER)) == before
        assert [e.payload for e in await store.list_events(OTHER)] == [{"x": "a x 字"}]

    async def test_what_is_not_there_cannot_be_deleted(self, store: Store) -> None:
        for name in ("d1", "d2"):
            for write in (
                DeleteSession(deletion(store, name)),
                DeleteEvidence("e1", deletion(store, name)),
            ):
                with pytest.raises(SessionNotFoundError):
                    await store.apply(SCOPE, [write])
            if name == "d1":
                assert await store.chain(SCOPE) is None
                await store.apply(SCOPE, message("m1"))
                await store.apply(SCOPE, [DeleteSession(deletion(store))])
        assert [event.event_id for event in await store.list_events(SCOPE)] == ["d1"]
        await store.purge()

    @pytest.mark.req("A-30", "B-01")
    async def test_a_deleted_session_begins_anew(self, store: Store) -> None:
        await store.apply(SCOPE, everything(CANARY))
        await store.apply(SCOPE, [DeleteSession(deletion(store))])
        with pytest.raises(VersionConflictError, match="version 0"):
            await store.apply(SCOPE, message("m9"), expected_version=2)
        create = CreateSession(b"new", "other", ephemeral=True, at="2031")
        events = AppendEvents([samples.event("v2")])
        await store.apply(SCOPE, [create, *message("m1"), events], expected_version=0)
        state = await read_state(store)
        assert [row.message.content for row in state.rows] == ["hello"]
        assert not any((state.evidence, state.cuts, state.open_turns, state.placeholders))
        assert state.summaries == []
        head = state.head
        assert (head.salt, head.key_id, head.ephemeral) == (b"new", "other", True)
        assert (head.epoch, head.last_event_seq, head.created_at) == (1, 3, "2031")
        document = await store.get_session(SCOPE)
        assert document is not None
        assert (document.session.summary, document.session.model_usage) == (None, [])
        [info] = await store.list_sessions(account_id="a", user_id="u", ephemeral=True)
        assert (info.messages, info.turns, info.frameworks) == (1, 0, [])
        await check_log(store, "deleted")

    async def test_a_deleted_session_is_begun_by_any_write(self, store: Store) -> None:
        await store.apply(SCOPE, everything(CANARY))
        await store.apply(SCOPE, [DeleteSession(deletion(store))])
        with pytest.raises(SessionNotFoundError):
            await store.patch_session(SCOPE, {"summary": None})
        await store.put_session(SCOPE, samples.document(), 0)
        head = (await read_state(store)).head
        assert head.salt not in (b"", CANARY.encode())
        assert await read_names(store) == ["m1", "m2"]

    @pytest.mark.req("A-30")
    async def test_what_was_made_for_a_deleted_session_is_refused(self, store: Store) -> None:
        made_for = ForSession("key", 0)
        await store.apply(SCOPE, [CreateSession(b"salt", "key"), *message("m1")])
        await store.apply(SCOPE, [made_for, *message("m2")])
        assert await read_names(store) == ["m1", "m2"]
        with pytest.raises(VersionConflictError, match="has key"):
            await store.apply(SCOPE, [ForSession("another", 0), *message("m3")])
        await store.apply(SCOPE, [DeleteSession(deletion(store))])
        with pytest.raises(SessionNotFoundError, match="deleted meanwhile"):
            await store.apply(SCOPE, [made_for, *message("m3")])
        assert await store.state(SCOPE) is None
        await store.apply(SCOPE, [CreateSession(b"new", "other"), *message("m4")])
        with pytest.raises(SessionNotFoundError, match="deleted meanwhile"):
            await store.apply(SCOPE, [made_for, *message("m5")])
        assert await read_names(store) == ["m4"]

    @pytest.mark.req("A-30")
    async def test_of_deleted_evidence_the_links_stay(self, store: Store) -> None:
        await store.apply(SCOPE, everything(CANARY))
        link = EvidenceLinks(model_usage_id="u2")
        await store.apply(
            SCOPE, [LinkEvidence("e1", link), PutBlocks([samples.block("b2", refs=[])])]
        )
        event = deletion(store, what="evidence", evidence_id="e1")
        result = await store.apply(SCOPE, [DeleteEvidence("e1", event)])
        assert result.removed == {"evidences": 1}
        [row] = await store.evidence_rows(SCOPE, ["e1"])
        evidence = row.evidence
        at = evidence.metadata.pop("deleted_at")
        assert isinstance(at, str)
        assert (evidence.content, evidence.metadata) == ("", {"links": [{"model_usage_id": "u2"}]})
        assert (evidence.links.tool_call_id, row.dedup_key) == ("c1", CANARY.encode())
        assert [block.block_id for block in await store.list_context_blocks(SCOPE)] == ["b2"]
        state = await read_state(store)
        assert (state.head.epoch, len(state.rows), len(state.evidence)) == (1, 2, 2)
        assert state.head.key_id == "key"
        assert [e.event_type for e in await store.list_events(SCOPE)] == [
            "MessageAppended",
            "deleted",
        ]
        await check_log(store, "deleted")

    async def test_evidence_is_deleted_once(self, store: Store) -> None:
        await store.apply(SCOPE, everything(CANARY))
        deletions = [DeleteEvidence("e1", deletion(store, name)) for name in ("d1", "d2")]
        await store.apply(SCOPE, deletions[:1])
        once = await store.get_session(SCOPE), await store.list_events(SCOPE)
        unknown = DeleteEvidence("no", deletion(store, "d3"))
        assert (await store.apply(SCOPE, [deletions[1], unknown])).removed == {}
        assert await store.list_events(SCOPE) == once[1]
        again = samples.evidence_row("e1", "once more")
        await store.apply(SCOPE, [PutEvidence(again)])
        document = await store.get_session(SCOPE)
        assert document is not None
        assert once[0] is not None
        assert document.evidences == once[0].evidences

    @pytest.mark.req("A-30")
    async def test_the_message_that_holds_the_evidence_loses_it(self, store: Store) -> None:
        row = samples.bare_row("m1", f"the {CANARY}")
        row.message.attachments = [AttachmentRecord(kind="file", name=CANARY)]
        other_row = samples.bare_row("m2", "the rest")
        evidence = samples.evidence_row("e1", message_id="m1", dedup_key=b"")
        await store.apply(SCOPE, [AppendMessages([row, other_row]), PutEvidence(evidence)])
        await store.apply(SCOPE, [DeleteEvidence("e1", deletion(store))])
        first, second = (await read_state(store)).rows
        expected = replace(row, withheld=True)
        expected.message.content, expected.message.seq = "", 1
        expected.message.attachments = None
        assert (first, second.message.content) == (expected, "the rest")
        stored_evidence = await store.get_evidence(SCOPE, "e1")
        assert stored_evidence is not None
        assert stored_evidence.content == ""
        await store.purge()
        assert CANARY.encode() not in self.bytes_of(store)

    @pytest.mark.req("A-30")
    async def test_its_text_goes_from_all_rows_that_quote_it(self, store: Store) -> None:
        text = f"The {CANARY} sings at dawn in the seventh cage of the upper hall."
        await store.apply(SCOPE, [CreateSession(b"salt", "key"), *quoting(text)])
        event = deletion(store, what="evidence", evidence_id="e1")
        event = event.model_copy(update={"payload": {**event.payload, "events": [1]}})
        event.payload_mac = payload_mac(event, chain_keys(store.secret, SCOPE.key).own)
        result = await store.apply(SCOPE, [DeleteEvidence("e1", event, [1])])
        assert result.removed == {"evidences": 1}
        assert set(result.cleared) == {"m1", "m2", "e2", "e3", "b1", "c1", "k1"}
        rows = {row.message.message_id: row for row in (await read_state(store)).rows}
        assert rows["m1"].message.content == "It says: [deleted] Really?"
        assert str(rows["m2"].message.tool_calls).count("[deleted]") == 1
        assert (rows["m3"].message.content, rows["m3"].withheld) == (CALM, False)
        document = await store.get_session(SCOPE)
        assert document is not None
        copy, beside = document.evidences["e2"], document.evidences["e3"]
        assert (copy.content, "deleted_at" in copy.metadata) == ("", True)
        assert (beside.content, beside.metadata) == ("More.", {"abstract": "So: [deleted]"})
        [turn] = await store.list_turns(SCOPE)
        assert (turn.status, turn.report) == (TurnStatus.ABANDONED, {"context": "So: [deleted]"})
        assert len(document.session.model_usage) == 1
        await check_log(store, "deleted")
        await store.purge()
        assert b"sings at dawn" not in self.bytes_of(store).lower()

    @pytest.mark.req("A-30")
    async def test_a_short_text_goes_as_a_word_of_its_own(self, store: Store) -> None:
        texts = ["The code is 7391.", "Order 17391 of 7391b", "7391"]
        rows = [samples.bare_row(f"m{n}", text) for n, text in enumerate(texts)]
        await store.apply(
            SCOPE, [AppendMessages(rows), PutEvidence(samples.evidence_row("e1", "7391"))]
        )
        result = await store.apply(SCOPE, [DeleteEvidence("e1", deletion(store))])
        assert result.cleared == ["m0", "m2"]
        left = [row.message.content for row in (await read_state(store)).rows]
        assert left == ["The code is [deleted].", texts[1], ""]

    @pytest.mark.req("A-30")
    async def test_what_it_was_before_redaction_goes_as_well(self, store: Store) -> None:
        texts = ["Call 555-0199 at the north gate", "At the north gate, call 555-0199 twice"]
        rows = [samples.bare_row(f"m{n}", text) for n, text in enumerate(texts)]
        await store.apply(
            SCOPE, [AppendMessages(rows), PutEvidence(samples.evidence_row("e1", "[WITHHELD]"))]
        )
        write = DeleteEvidence("e1", deletion(store), texts=["555-0199", "555-0199", texts[0]])
        result = await store.apply(SCOPE, [write])
        assert (result.removed, result.cleared) == ({"evidences": 1}, ["m0", "m1"])
        left = [row.message.content for row in (await read_state(store)).rows]
        assert left == [
            "Call [deleted] at the north gate",
            "At the north gate, call [deleted] twice",
        ]

    @pytest.mark.req("A-30")
    async def test_not_everywhere_what_others_have_of_it_stays(self, store: Store) -> None:
        text = f"The {CANARY} sings at dawn in the seventh cage of the upper hall."
        await store.apply(SCOPE, [CreateSession(b"salt", "key"), *quoting(text)])
        before = await read_state(store)
        write = DeleteEvidence("e1", deletion(store), texts=[text], everywhere=False)
        result = await store.apply(SCOPE, [write])
        assert (result.removed, result.cleared) == ({"evidences": 1}, [])
        left = await read_state(store)
        assert [row.message.content for row in left.rows] == [
            row.message.content for row in before.rows
        ]
        evidence = await store.get_evidence(SCOPE, "e1")
        assert evidence is not None
        assert evidence.content == ""
