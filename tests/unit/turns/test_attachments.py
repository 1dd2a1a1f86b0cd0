"""Pictures and files of the host's messages: what the report says of them, what is kept, what people see."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ce_engine import (
    Answer,
    Attachment,
    AttachmentRecord,
    ContextEngine,
    HostMessage,
    MemoryStore,
    Prepared,
    Restore,
    RuntimeConfig,
    Scope,
    SessionDocument,
    create_context_engine,
)
from ce_engine.testing.host import HostApp, assistant, user
from ce_engine.text.tokens.call_tokens import GUESSED
from tests.hosts.cli_host import ce, url_of


SCOPE = Scope(session_id="s", user_id="ann")
PICTURE = Attachment("image", "png", width=640, height=480, size=12_345, digest="p")
REMOTE = Attachment("image", digest="r")
REPORT = Attachment("file", "pdf", "报告 of li@example.com 2.pdf", size=9, pages=3, digest="f")


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore())
    yield made
    made.sync.close()


def shown(text: str, *attachments: Attachment) -> HostMessage:
    digests = tuple(each.digest for each in attachments)
    return replace(user(text), attachments=attachments, media=digests)


def stored(engine: ContextEngine, scope: Scope = SCOPE) -> SessionDocument:
    engine.sync.flush()
    document = engine.loop.run(engine.store.get_session(scope))
    assert document is not None
    return document


def prepared(
    engine: ContextEngine,
    *messages: HostMessage,
    model: str | None = None,
    provider: str | None = None,
) -> Prepared:
    app = HostApp(engine, SCOPE)
    config = RuntimeConfig(model_hint=model, provider_hint=provider)
    made = app.prepare(*messages, config=config)
    app.commit(made, assistant("I see."))
    return made


def test_a_picture_costs_what_the_model_s_provider_takes(engine: ContextEngine) -> None:
    def cost(model: str, provider: str | None = None) -> int:
        used = [
            prepared(engine, message, model=model, provider=provider).report.token_used
            for message in (shown("what?", PICTURE), user("what?"))
        ]
        return used[0] - used[1]

    assert cost("gpt-4o") == 425
    assert cost("claude-sonnet-4-5") == 414
    assert cost("gemini-2.5-pro") == 4 * 258
    assert cost("gpt-4.1-mini") == 486
    assert cost("my-deployment", "anthropic") == 414


def test_a_size_that_is_not_known_is_told_once_a_call(engine: ContextEngine) -> None:
    app = HostApp(engine, SCOPE)
    first = app.prepare(shown("one", PICTURE))
    app.commit(first, assistant("I see."))
    assert GUESSED not in first.report.warnings
    for _ in range(2):
        later = app.prepare(shown("two", REMOTE, REMOTE))
        app.commit(later, assistant("I see."))
        assert later.report.warnings.count(GUESSED) == 1


def test_what_is_kept_is_what_they_are_and_not_what_they_show(engine: ContextEngine) -> None:
    prepared(engine, shown("", PICTURE), assistant("ok"), shown("what?", PICTURE, REPORT))
    alone, _, both, *_ = stored(engine).session.messages
    assert alone.content == ""
    assert alone.attachments is not None
    assert both.attachments is not None
    (picture,), (again, report) = alone.attachments, both.attachments
    assert picture == again
    assert picture == AttachmentRecord(
        kind="image", format="png", width=640, height=480, size=12_345, digest=picture.digest
    )
    assert report.name == "报告 of [EMAIL_1] 2.pdf"
    assert (report.format, report.size, report.pages) == ("pdf", 9, 3)
    assert picture.digest not in (None, "p", report.digest)


def test_what_a_model_made_is_kept_with_its_answer(engine: ContextEngine) -> None:
    app = HostApp(engine, SCOPE)
    made = app.prepare(user("draw a cat"))
    engine.sync.commit(made.turn, Answer(assistant("Here.").message, attachments=[PICTURE]))
    answer = stored(engine).session.messages[-1]
    assert [each.label() for each in answer.attachments or ()] == ["[image 640x480, png]"]


def drawn(app: HostApp, question: str) -> None:
    """A question that a picture alone answers; the app keeps both."""
    made = app.prepare(user(question))
    picture = replace(assistant(""), attachments=(PICTURE,))
    app.engine.sync.commit(made.turn, Answer(picture.message, attachments=[PICTURE]))
    app.messages.append(picture)


def test_an_answer_that_is_a_picture_alone_is_a_message(engine: ContextEngine) -> None:
    app = HostApp(engine, SCOPE)
    drawn(app, "画一只猫")
    drawn(app, "now a dog")
    app.ask("Which is older?", "The cat.")
    kept = stored(engine).session.messages
    roles = ["user", "assistant"] * 3
    assert [message.role for message in kept] == roles, "each once, though the app sends all again"
    labels = [[each.label() for each in message.attachments or ()] for message in kept]
    assert labels == [[], ["[image 640x480, png]"]] * 2 + [[], []]
    assert [m.parent_id for m in kept] == [None, *(m.message_id for m in kept[:-1])]
    turns = engine.loop.run(engine.store.list_turns(SCOPE))
    assert [turn.answer_message_id for turn in turns] == [m.message_id for m in kept[1::2]]


def test_what_a_picture_alone_answered_is_not_brought_back(engine: ContextEngine) -> None:
    """No model sees a question that nobody seems to have answered, or an answer without a word."""
    app = HostApp(engine, SCOPE)
    app.ask("Hello.", "Good day.")
    app.messages.clear()
    drawn(app, "draw a cat")
    app.messages.clear()
    later = app.prepare(user("And now?"), by_hand=True)
    back = [step.message.content for step in later.plan if isinstance(step, Restore)]
    assert back == ["Hello.", "Good day."]


def test_a_digest_says_nothing_outside_its_session(engine: ContextEngine) -> None:
    digests = set()
    for session in ("s1", "s2"):
        app = HostApp(engine, Scope(session_id=session))
        app.commit(app.prepare(shown("what?", PICTURE)), assistant("I see."))
        asked = stored(engine, app.scope).session.messages[0]
        digests |= {each.digest for each in asked.attachments or ()}
    assert len(digests) == 2


def test_a_message_without_any_says_nothing_of_them(engine: ContextEngine) -> None:
    prepared(engine, user("hello"))
    assert "attachments" not in stored(engine).model_dump_json()


def test_what_comes_back_is_text_and_costs_no_picture(engine: ContextEngine) -> None:
    app = HostApp(engine, SCOPE)
    app.commit(app.prepare(shown("The word is 海豚, dolphin.", PICTURE)), assistant("Noted."))
    app.messages.clear()
    later = app.prepare(user("Which word was it?"), by_hand=True)
    messages = [step.message for step in later.plan if isinstance(step, Restore)]
    (back,) = (message for message in messages if message.attachments)
    assert back.content == "The word is 海豚, dolphin."
    assert later.report.token_used < 100


def test_show_names_pictures_and_files(tmp_path: Path) -> None:
    url = url_of(tmp_path / "ce.db")
    engine = create_context_engine(url)
    try:
        unnamed = Attachment("audio", "wav", size=64_000, seconds=2.0)
        odd = Attachment("file", "txt", "two\nlines \x1b[31m.txt", size=1)
        prepared(engine, shown("", PICTURE), assistant("ok"), shown("read", REPORT, unnamed, odd))
    finally:
        engine.sync.close()
    lines = [line.strip() for line in ce("show", "s", "--store", url).stdout.splitlines()]
    for label in (
        "[image 640x480, png]",
        "[file 报告 of [EMAIL_1] 2.pdf, pdf, 3 pages]",
        "[audio, wav, 64,000 bytes]",
        "[file two lines \\x1b[31m.txt, txt, 1 byte]",
    ):
        assert label in lines
    told = json.loads(ce("show", "s", "--store", url, "--json").stdout)
    (picture,) = told["session"]["messages"][0]["attachments"]
    assert picture.keys() == {"kind", "format", "width", "height", "size", "digest"}
