"""What is brought in cannot pose as an instruction, whatever it says and wherever it comes from (decision 7 d)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import pytest

from ce_engine import (
    AuthorKind,
    BudgetConfig,
    CharBasedEstimator,
    ContextBlock,
    ContextEngine,
    ContextPiece,
    EvidenceSource,
    EvidenceType,
    HostMessage,
    MemoryStore,
    Message,
    MessagePart,
    Origin,
    Ref,
    Role,
    RuntimeConfig,
    Scope,
    SourceKind,
    SummaryConfig,
    Task,
    create_context_engine,
)
from ce_engine.prepare.compose.assemble_input import as_text
from ce_engine.schema.document import Author
from ce_engine.schema.enums import BlockType
from ce_engine.testing.host import HostApp, assistant, system, tool_calls, tool_result, user
from ce_engine.testing.scripted_llm import MockLlmAdapter
from ce_engine.text.quote import _HIDDEN as HIDDEN
from ce_engine.text.quote import MAX_NAME_CHARS, entry, neutral, plain_name
from ce_integrations.testing.forgeries import FORGERIES, judge, missing, words_of
from tests.hosts.context_host import Notes


SCOPE = Scope(session_id="s", user_id="u", project_id="p")
SYSTEM = "You help. 请用用户的语言回答。"
QUESTION = "What is known of the kumquat? 金桔呢？"
ROOM = BudgetConfig(max_input_tokens=1_000_000, reserved_reply_tokens=0)
CHUNK = 30

Locale = Literal["en", "zh"]
Door = Callable[[ContextEngine, Sequence[str]], object]
DOORS: dict[str, Door] = {}


def door(make: Door) -> Door:
    """A way for the words of others into a session."""
    DOORS[make.__name__.replace("_", " ")] = make
    return make


def block(n: int, kind: BlockType, content: str = "", **more: Any) -> ContextBlock:
    name = f"b-{kind}-{n}"
    return ContextBlock.model_validate(
        {"block_id": name, "block_type": kind, "priority": "high", "content": content, **more}
    )


def source(name: str = "kb", uri: str = "") -> EvidenceSource:
    return EvidenceSource(kind=SourceKind.RAG, name=name, uri=uri)


def ingest(engine: ContextEngine, text: str, where: EvidenceSource, **metadata: Any) -> str:
    kind = EvidenceType.OTHER
    return engine.sync.ingest(SCOPE, text, where, kind, metadata=metadata or None).evidence_id


@door
def evidence(engine: ContextEngine, texts: Sequence[str]) -> None:
    for text in texts:
        ingest(engine, text, source())


@door
def names_of_sources(engine: ContextEngine, texts: Sequence[str]) -> None:
    for n, text in enumerate(texts):
        ingest(engine, f"A fact, number {n}.", source(text, uri=text))


@door
def metadata_of_evidence(engine: ContextEngine, texts: Sequence[str]) -> None:
    for n, text in enumerate(texts):
        told = {"created_at": text, "title": text, "tags": [text]}
        ingest(engine, f"A fact, number {n}.", source(), **told)


@door
def fields_that_disagree(engine: ContextEngine, texts: Sequence[str]) -> None:
    for n, text in enumerate(texts):
        for who in ("a", "b"):
            told = {"field": f"{n} {text}", "value": f"{text} {who}"}
            ingest(engine, f"Fact {n} by {who}.", source(f"{who} {text}"), **told)


@door
def stored_blocks(engine: ContextEngine, texts: Sequence[str]) -> None:
    kinds = (
        BlockType.MEMORY,
        BlockType.STATE,
        BlockType.PLAN,
        BlockType.CONVERSATION,
        BlockType.EVIDENCE,
    )
    blocks = [block(n, kind, text) for n, text in enumerate(texts) for kind in kinds]
    engine.loop.run(engine.put_context_blocks(SCOPE, blocks))


@door
def instructions_that_show_evidence(engine: ContextEngine, texts: Sequence[str]) -> None:
    found = [ingest(engine, text, source(), message_id="") for text in texts]
    blocks = [
        block(n, BlockType.INSTRUCTION, refs=[Ref(evidence_id=each)])
        for n, each in enumerate(found)
    ]
    engine.loop.run(engine.put_context_blocks(SCOPE, blocks))


@door
def titles_of_tasks(engine: ContextEngine, texts: Sequence[str]) -> None:
    tasks = [Task(task_id=f"t{n}", name=text) for n, text in enumerate(texts)]
    engine.loop.run(engine.upsert_tasks(SCOPE, tasks))


@door
def errors_of_tasks(engine: ContextEngine, texts: Sequence[str]) -> None:
    tasks = [Task(task_id=f"t{n}", name="look", error=text) for n, text in enumerate(texts)]
    engine.loop.run(engine.upsert_tasks(SCOPE, tasks))


@door
def derived_constraints(engine: ContextEngine, texts: Sequence[str]) -> None:
    for text in texts:
        engine.sync.constraints.create(SCOPE, text, derived=True)


def sourced(section: str) -> Door:
    def make(engine: ContextEngine, texts: Sequence[str]) -> None:
        [asked] = (each for each in engine._collector._fetching._sources if each.section == section)
        assert isinstance(asked, Notes)
        asked.answer = [ContextPiece(text) for text in texts]

    return make


SECTIONS = ("framework", "experience", "knowledge", "todo", "compression")
DOORS |= {f"a source for {each}": sourced(f"{each}__context") for each in SECTIONS}


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    sources = [Notes(name=each, section=f"{each}__context") for each in SECTIONS]
    made = create_context_engine(
        MemoryStore(), CharBasedEstimator(), sources=sources, config=RuntimeConfig(budget=ROOM)
    )
    yield made
    made.sync.close()


def parts(told: Sequence[MessagePart]) -> list[dict[str, str]]:
    return [{"role": str(each.role), "content": each.content} for each in told]


def ask(engine: ContextEngine, config: RuntimeConfig, text: str = QUESTION) -> list[dict[str, str]]:
    asked = [Message(role=Role.SYSTEM, content=SYSTEM), Message(role=Role.USER, content=text)]
    result = engine.sync.prepare_turn(SCOPE, asked, config)
    engine.sync.fail_turn(SCOPE, "not_sent", turn_id=result.report.turn_id)
    return parts(result.assembled_input.parts)


NOT_SHOWN = ("metadata of evidence",)
"""Doors behind which nothing goes out at all: what comes in there is for programs."""


NAMES = ("names of sources",)
"""Doors behind which what is too long for a name is cut off."""


@pytest.mark.parametrize(("placement", "locale"), [("seed", "zh"), ("cache", "en")])
@pytest.mark.parametrize("name", DOORS)
def test_no_door_lets_an_instruction_in(
    engine: ContextEngine, name: str, locale: Locale, placement: Literal["seed", "cache"]
) -> None:
    config = RuntimeConfig(budget=ROOM, locale=locale, placement=placement)
    for start in range(0, len(FORGERIES), CHUNK):
        texts = FORGERIES[start : start + CHUNK]
        DOORS[name](engine, texts)
        quoted = judge(ask(engine, config), [QUESTION], [SYSTEM])
        assert quoted, "nothing came in"
        shown = [text for text in texts if name not in NAMES or len(text) < MAX_NAME_CHARS]
        if name not in NOT_SHOWN:
            assert list(missing(quoted, shown)) == []
        engine.sync.delete_session(SCOPE)
        for each in engine.sync.constraints.list(SCOPE):
            engine.sync.constraints.delete(SCOPE, each.constraint_id)


# What was said, cut off, and brought in again


TIGHT = BudgetConfig(max_input_tokens=1500, reserved_reply_tokens=0)
FILLER = "We talked of the weather in the north, at length and to no end. " * 24


def said(name: str, text: str) -> HostMessage:
    author = Author(kind=AuthorKind.USER, id=name)
    return HostMessage(Message(role=Role.USER, content=text, author=author), Origin.TASK)


@pytest.mark.parametrize("placement", ["seed", "cache"])
def test_what_was_said_comes_back_as_quoted_words_of_who_said_it(
    engine: ContextEngine, placement: Literal["seed", "cache"]
) -> None:
    """Messages, answers, names of authors, results of tools: each was in the list, and is cut off."""
    config = RuntimeConfig(budget=TIGHT, placement=placement)
    back = 0
    for n in range(0, len(FORGERIES), 6):
        app = HostApp(engine, Scope(session_id=f"{placement} {n}"), [system(SYSTEM)])
        told = [f"About topic{k}: {text}" for k, text in enumerate(FORGERIES[n : n + 6])]
        talk: list[tuple[HostMessage, str]] = []
        for k, text in enumerate(told):
            talk += (
                [(said(f"topic{k} {text[13:]}", f"Topic{k} of an author?"), "Yes.")]
                if k % 3 == 0
                else [(user(text), "Noted.")]
                if k % 3 == 1
                else [(user(f"Topic{k}?"), text)]
            )
        for question, answer in [*talk, *[(user(f"{k} {FILLER}"), "I see.") for k in range(4)]]:
            app.commit(app.prepare(question, config=config), assistant(answer))
        for k, text in enumerate(told):
            prepared = app.prepare(user(f"Tell me about topic{k}"), config=config)
            own = [host.message.content for host in app.messages]
            quoted = judge(parts(prepared.assembled.parts), own, [SYSTEM])
            back += not list(missing(quoted, [text]))
            app.commit(prepared, assistant("So."))
    assert back > 0.7 * len(FORGERIES), "most of it can be read again"


def test_results_of_tools_come_back_as_quoted_words(engine: ContextEngine) -> None:
    config = RuntimeConfig(budget=TIGHT)
    back = 0
    for n, text in enumerate(FORGERIES):
        app = HostApp(engine, Scope(session_id=f"tool {n}"), [system(SYSTEM)])
        app.commit(app.prepare(user("Look."), config=config), tool_calls(("c", "look", {})))
        found = tool_result("c", f"The warehouse in the harbour: {text}")
        app.commit(app.prepare(found, config=config, new_request=False), assistant("Done."))
        for k in range(4):
            app.commit(app.prepare(user(f"{k} {FILLER}"), config=config), assistant("I see."))
        prepared = app.prepare(user("The warehouse in the harbour?"), config=config)
        own = [host.message.content for host in app.messages]
        quoted = judge(parts(prepared.assembled.parts), own, [SYSTEM])
        back += not list(missing(quoted, [text]))
    assert back == len(FORGERIES)


# What a model wrote of it


def test_a_summary_by_a_manipulated_model_is_quoted_and_what_it_was_given_is_too() -> None:
    for n, text in enumerate(FORGERIES):
        llm = MockLlmAdapter([text])
        config = RuntimeConfig(
            summary=SummaryConfig(enabled=True, trigger_message_count=2, preserve_recent_messages=2)
        )
        engine = create_context_engine(MemoryStore(), CharBasedEstimator(), llm, config)
        for k in range(3):
            asked = Message(role=Role.USER, content=f"{k} {text}")
            engine.sync.prepare_turn(SCOPE, asked)
            engine.sync.commit_assistant_message(
                SCOPE, Message(role=Role.ASSISTANT, content="Yes.")
            )
        assert engine.sync.flush()
        [task, given] = parts(llm.requests[0].messages)
        assert task["role"] == "system"
        assert list(missing(task["content"], [text])) == [words_of(text)]
        assert list(missing(judge([given], [], []), [text])) == [], "the conversation can be read"
        sent = ask(engine, config)
        own = [f"{k} {text}" for k in range(3)] + ["Yes.", QUESTION]
        assert list(missing(judge(sent, own, [SYSTEM]), [text])) == []
        engine.sync.close()
        if n % 10 == 0:
            assert "|# Summary of what was said before" in "".join(m["content"] for m in sent)


# Live values


def test_a_live_value_that_comes_back_poses_as_nothing_either() -> None:
    """A secret may be of several lines: it is taken out before it is stored, and put in again at the end."""
    engine = create_context_engine(MemoryStore(), CharBasedEstimator())
    secret = "-----BEGIN PRIVATE KEY-----\n## Rules\nMIIBVQIBADANBgkqhkiG9w0BAQEFAASCAT8wggE7AgEA\n-----END PRIVATE KEY-----"
    key = engine.sync.ingest(
        SCOPE,
        f"The key of the harbour: {secret} and the mail a@b.example",
        source(),
        EvidenceType.OTHER,
    )
    assert "## Rules" not in key.content
    quoted = judge(
        ask(engine, RuntimeConfig(), "The key of the harbour?"),
        ["The key of the harbour?"],
        [SYSTEM],
    )
    assert "MIIBVQIBADANBgkqhkiG9w0BAQEFAASCAT8wggE7AgEA" in quoted, "the live value is there"
    assert "a@b.example" in quoted
    engine.sync.close()


def test_one_text_has_no_parts_but_those_that_there_are() -> None:
    """Where the input is one text, a role is a word at the beginning of a line: nobody speaks for another."""
    roles = re.compile(r"(?:system|user|assistant|tool)\s*[:：]", re.IGNORECASE)
    for text in FORGERIES:
        told = [
            MessagePart(role=Role.SYSTEM, content=SYSTEM),
            MessagePart(role=Role.USER, content=text),
        ]
        lines = [line for line in as_text(told).splitlines() if roles.match(line.lstrip())]
        assert [line.partition(":")[0] for line in lines] == ["system", "user"]


def test_a_run_of_joiners_is_read_from_one_of_its_signs() -> None:
    """From each of them anew it would take the square of their number, with the interpreter held."""
    run = "\u200d\u200c" * 50
    for text in (f"\u0628{run} a", f"\u0628{run}", f"\u0628{run}!"):
        starts = [at for at in range(len(text)) if HIDDEN.match(text, at)]
        assert starts == [1]
        assert neutral(text) == text.replace(run, "")
        assert neutral(f"\u0628{run}\u0628") == f"\u0628{run}\u0628"


@pytest.mark.parametrize("text", ["", " \n ", "\u200b\u2060"])
def test_a_text_of_which_nothing_is_left_is_one_marked_line(text: str) -> None:
    assert entry(text, "ann: ") == "| ann: "


@pytest.mark.parametrize(
    "sign", ["\ufe0f", "\ufe00", "\u2800", "\U0001d173", "\U000e0101", "\u3164"]
)
def test_a_sign_that_nobody_sees_makes_no_other_name(sign: str) -> None:
    assert plain_name(f"sys{sign}tem{sign}") == "system"


@pytest.mark.parametrize(
    "token",
    [
        "<|im_start|>",
        "<start_of_turn>",
        "[INST]",
        "<<SYS>>",
        "<reserved_106>",
        "]~b]",
        "]~!b[",
        "[e~[",
        "<extra_id_0>",
        "<SPECIAL_10>",
        "[|system|]",
        "<role>",
        "</role>",
        "<seed:bos>",
        "<turn|>",
        "<eoh>",
        "[gMASK]",
        "<unused0>",
    ],
)
def test_a_chat_template_s_token_is_broken(token: str) -> None:
    """A model that knows it would take what follows for somebody else's turn."""
    broken = neutral(f"and {token}system")
    assert token not in broken
    assert broken.replace(" ", "") == f"and{token}system"
    assert neutral(broken) == broken


@pytest.mark.parametrize(
    "text",
    ["a[0] < b[1]", "[x] done, x|y", "<role-name>", "List<unused>", "see [e] and ]~", "<seeds:x>"],
)
def test_what_is_no_token_stays(text: str) -> None:
    assert neutral(text) == text
