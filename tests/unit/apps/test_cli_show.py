"""`ce show`: the whole document as JSON, and the way from an answer to its evidence and its call."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest
from rich.cells import cell_len

from ce_engine import (
    EvidenceType,
    Message,
    Role,
    RuntimeConfig,
    Scope,
    SessionDocument,
    StoreConfig,
    check_invariants,
    create_context_engine,
    open_store,
    parse_document,
)
from ce_engine.testing.faults import locked
from ce_engine.testing.host import HostApp, user
from tests.hosts.cli_host import TALK, ce, fill, process, talk, url_of


def test_json_steers_no_terminal(tmp_path: Path) -> None:
    """JSON itself escapes only what is below a space."""
    steering = "\x9b31m \u202e \u2028 \u2066 \x7f \x1b[2J 王"
    url = url_of(tmp_path / "ce.db")
    engine = create_context_engine(url)
    HostApp(engine, Scope(session_id="s")).ask(steering, "ok")
    engine.sync.close()
    for command in (["show", "s", "--json"], ["export", "--user", ""]):
        shown = ce(*command, "--store", url).stdout
        assert not set("\x9b\u202e\u2028\u2066\x7f\x1b") & set(shown)
        assert "王" in shown
        assert json.dumps(steering) in json.dumps(json.loads(shown))


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    found = url_of(tmp_path_factory.mktemp("store") / "ce.db")
    fill(found)
    return found


@pytest.fixture
def at(url: str) -> tuple[str, ...]:
    return ("--store", url, "--account", "acme")


def stored(url: str, scope: Scope = TALK) -> SessionDocument:
    async def read() -> SessionDocument | None:
        store = open_store(url)
        try:
            return await store.get_session(scope)
        finally:
            await store.close()

    found = asyncio.run(read())
    assert found is not None
    return found


def short(identifier: str | None) -> str:
    return (identifier or "")[:8]


def under(text: str, content: str) -> list[str]:
    """The lines that stand under the message with this content, up to the next empty one."""
    lines = text.splitlines()
    place = next(n for n, line in enumerate(lines) if line.strip() == content)
    rest = lines[place + 1 :]
    return rest[: rest.index("")]


@pytest.mark.req("A-01", "A-02")
def test_the_json_is_the_session_document(url: str, at: tuple[str, ...]) -> None:
    document = parse_document(ce("show", TALK.session_id, "--json", *at).stdout)
    assert document == stored(url)
    assert check_invariants(document) == []
    assert [m.content for m in document.session.messages if m.role is Role.ASSISTANT] == [
        "",
        "现在 4 度。",
        "Water that falls from clouds.",
    ]


@pytest.mark.req("D-09")
def test_a_gap_in_the_recording_stands_under_the_title(tmp_path: Path) -> None:
    path = tmp_path / "ce.db"
    config = RuntimeConfig(store=StoreConfig(deadline_s=0.05, breaker_s=0.2, buffer_bytes=20_000))
    engine = create_context_engine(url_of(path), config=config)
    engine.sync.check()
    app = HostApp(engine, Scope(session_id="s"))
    app.ask("one?", "1")
    engine.sync.flush()
    with locked(path):
        for n in range(10):
            app.ask(f"{n}? {'x' * 2000}", str(n))
    assert not engine.sync.flush(20)  # some was dropped
    assert engine.sync.flush(20)
    engine.sync.close()
    there = len(stored(url_of(path), Scope(session_id="s")).session.messages)
    _, _, lost, *_ = ce("show", "s", "--store", url_of(path)).stdout.splitlines()
    assert lost.startswith(f"lost: {22 - there} messages in ")


@pytest.mark.req("A-01")
def test_the_json_of_a_process_is_the_document_whatever_the_encoding(url: str) -> None:
    at = ("--store", url, "--account", "acme", "--user", "张伟")
    done = process("show", TALK.session_id, "--json", *at, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert parse_document(done.stdout) == stored(url)


@pytest.mark.req("A-03")
def test_an_answer_leads_to_its_evidence_and_its_tool_call(url: str, at: tuple[str, ...]) -> None:
    document = stored(url)
    call = next(c for c in document.session.tool_state.tool_calls if c.tool == "weather")
    evidence_id = short(call.result_evidence_ids[0])
    asking = document.session.messages[1]
    text = ce("show", TALK.session_id, *at).stdout

    way = f"{evidence_id} tool_result <- call {short(asking.message_id)}:0 weather"
    assert any(line.strip() == f"rests on {way}" for line in under(text, "现在 4 度。"))
    assert any(line.strip() == f"stored as {way}" for line in under(text, "4 度"))
    assert f"asks for {short(asking.message_id)}:0 weather(city='奥斯陆')" in text
    [row] = [
        line for line in text.splitlines() if line.startswith(f"{short(asking.message_id)}:0 ")
    ]
    assert re.search(rf"weather +city='奥斯陆' +success +7 +{evidence_id}$", row)


@pytest.mark.req("A-03")
def test_an_answer_leads_to_its_retrieved_document(url: str, at: tuple[str, ...]) -> None:
    [document] = [e for e in stored(url).evidences.values() if e.type is EvidenceType.RAG_DOC]
    text = ce("show", TALK.session_id, *at).stdout
    below = under(text, "Water that falls from clouds.")
    assert f"      rests on {short(document.evidence_id)} rag_doc <- call run-2 library" in below
    [row] = [line for line in text.splitlines() if line.startswith(short(document.evidence_id))]
    assert re.search(r"rag_doc +doc://rain +call run-2 +#6 +Rain is water", row)


@pytest.mark.req("A-03")
def test_an_answer_leads_to_the_usage_of_its_model_call(url: str, at: tuple[str, ...]) -> None:
    document = stored(url)
    first, second, _ = document.session.model_usage
    text = ce("show", TALK.session_id, *at).stdout
    assert any(
        line.endswith(f"llm_output <- usage {short(second.model_usage_id)} model-1, 20 + 5 tokens")
        for line in under(text, "现在 4 度。")
    )
    assert f"used usage {short(first.model_usage_id)} model-1, 9 + 3 tokens" in text
    [row] = [line for line in text.splitlines() if line.startswith(short(second.model_usage_id))]
    assert row.split() == [
        short(second.model_usage_id),
        "answer",
        "model-1",
        "20",
        "5",
        "80",
        "success",
        "2",
    ]


def test_every_piece_of_evidence_has_a_call_that_is_shown(url: str, at: tuple[str, ...]) -> None:
    text = ce("show", TALK.session_id, *at).stdout
    calls, usages = (text[text.index(head) :] for head in ("Tool calls (2)", "Model usage (3)"))
    for evidence in stored(url).evidences.values():
        [row] = [line for line in text.splitlines() if line.startswith(short(evidence.evidence_id))]
        found = re.search(r" (call|usage) (\S+)", row)
        assert found is not None
        assert f"\n{found.group(2)} " in (calls if found.group(1) == "call" else usages)


def test_columns_line_up_under_wide_characters(at: tuple[str, ...]) -> None:
    lines = ce("show", TALK.session_id, *at).stdout.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("Tool calls"))
    place = lines[start + 1].index("status")
    for row in lines[start + 2 : start + 4]:
        assert cell_len(row[: row.index("success")]) == place


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_no_text_is_wider_than_the_terminal(at: tuple[str, ...], columns: int) -> None:
    text = ce("show", TALK.session_id, *at, columns=columns).stdout
    messages = text[: text.index("Tool calls")]
    assert max(map(cell_len, messages.splitlines())) <= columns
    assert "现在 4 度。" in text


def test_a_long_message_is_shortened_unless_asked_for_in_full(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    url = url_of(tmp_path_factory.mktemp("long") / "ce.db")
    scope = Scope(session_id="long")
    engine = create_context_engine(url)
    engine.sync.check()
    long = "\n".join(f"第{number}行" for number in range(500))
    app = talk(engine, scope)
    app.ask(long, "好的。")
    engine.sync.close()
    short, full = (ce("show", "long", "--store", url, *more).stdout for more in ((), ("--full",)))
    assert "第0行" in short
    assert "第499行" not in short
    assert all(f"      第{number}行" in full.splitlines() for number in range(500))


def test_a_text_cannot_steer_the_terminal(tmp_path_factory: pytest.TempPathFactory) -> None:
    url = url_of(tmp_path_factory.mktemp("hostile") / "ce.db")
    scope = Scope(session_id="hostile")
    engine = create_context_engine(url)
    engine.sync.check()
    app = talk(engine, scope)
    evil = "\x1b]0;owned\x07\x1b[2J[bold]bold[/bold] :smile: \u202etxt.exe\r\x9b31m"
    app.ask(evil, "No.")
    engine.sync.close()
    for more in ((), ("--full",)):
        text = ce("show", "hostile", "--store", url, *more).stdout
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)
        assert "[bold]bold[/bold] :smile:" in text
        assert r"\x1b[2J" in text
    document = parse_document(ce("show", "hostile", "--json", "--store", url).stdout)
    assert document.session.messages[-2].content == evil


def test_half_a_character_survives_as_json(tmp_path_factory: pytest.TempPathFactory) -> None:
    url = url_of(tmp_path_factory.mktemp("half") / "ce.db")
    scope = Scope(session_id="half")

    async def write() -> None:
        store = open_store(url)
        await store.append_messages(scope, [Message(role=Role.USER, content="cut \ud83d")])
        await store.close()

    asyncio.run(write())
    done = process("show", "half", "--json", "--store", url)
    assert done.returncode == 0, done.stderr
    assert parse_document(done.stdout) == stored(url, scope)
    assert process("show", "half", "--store", url).returncode == 0


def test_a_session_whose_answer_is_still_missing_is_shown(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    url = url_of(tmp_path_factory.mktemp("open") / "ce.db")
    engine = create_context_engine(url)
    engine.sync.check()
    talk(engine, Scope(session_id="open")).prepare(user("Are you there?"))
    engine.sync.close()
    assert "Are you there?" in ce("show", "open", "--store", url).stdout
    assert json.loads(ce("report", "open", "--store", url, "--json").stdout)[-1]["status"] == "open"
