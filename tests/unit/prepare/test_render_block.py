"""Blocks become text, and messages with blocks one input (A-12)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ce_engine import (
    BlockRenderer,
    BlockType,
    CharBasedEstimator,
    ContextBlock,
    EvidenceNotFoundError,
    InputAssembler,
    Message,
    Priority,
    Ref,
    RefSelector,
    RenderedBlock,
    RenderHints,
    Role,
    SchemaValidationError,
)
from ce_engine.text.beginning import cut


class Texts:
    """Evidence by its id."""

    def __init__(self, **texts: str) -> None:
        self.texts: Mapping[str, str] = texts

    async def resolve(self, evidence_id: str, selector: str | None = None) -> str:
        if evidence_id not in self.texts:
            raise EvidenceNotFoundError(evidence_id)
        text = self.texts[evidence_id]
        return RefSelector().extract(text, selector) if selector else text


ORDERS = Texts(order="id: 7\nstatus: paid\ntotal: 12", note="已发货。明天到。", gone="")


def block(content: str = "", *refs: Ref) -> ContextBlock:
    return ContextBlock(
        block_id="b",
        block_type=BlockType.EVIDENCE,
        priority=Priority.MEDIUM,
        content=content,
        refs=list(refs),
    )


async def rendered(what: ContextBlock, locale: str = "en", **hints: Any) -> RenderedBlock:
    renderer = BlockRenderer(CharBasedEstimator(), locale=locale)
    return await renderer.render_block(what, ORDERS, RenderHints(**hints) if hints else None)


ORDER = Ref(evidence_id="order", selector="lines:2-2")
NOTE = Ref(evidence_id="note")


@pytest.mark.req("A-12")
async def test_refs_are_resolved_and_content_is_what_stands_in_for_them() -> None:
    found = await rendered(block("in short", ORDER, NOTE))
    assert found.rendered_content == "status: paid\n\n已发货。明天到。"
    assert found.token_estimate == CharBasedEstimator().estimate_text(found.rendered_content)
    assert (await rendered(block("content alone"))).rendered_content == "content alone"
    assert (await rendered(block())).rendered_content == ""


@pytest.mark.req("A-12", "A-25")
@pytest.mark.parametrize(
    ("ref", "code"),
    [
        (Ref(evidence_id="nobody"), "CONTEXT_EVIDENCE_NOT_FOUND"),
        (Ref(evidence_id="gone"), "CONTEXT_EVIDENCE_NOT_FOUND"),
        (Ref(evidence_id="order", selector="lines:9-9"), "CONTEXT_SELECTOR_UNRESOLVED"),
        (Ref(evidence_id="order", selector="nonsense"), "CONTEXT_SELECTOR_UNRESOLVED"),
    ],
)
async def test_what_cannot_be_resolved_is_told_and_the_rest_stands(ref: Ref, code: str) -> None:
    alone = await rendered(block("in short", ref))
    assert (alone.rendered_content, alone.degradations) == ("in short", [code])
    assert (await rendered(block("", ref))).rendered_content == ""
    both = await rendered(block("in short", ref, ORDER, ref))
    assert (both.rendered_content, both.degradations) == ("status: paid", [code])


@pytest.mark.req("A-12")
async def test_markdown_quotes_evidence_and_names_it() -> None:
    found = await rendered(block("", ORDER, NOTE), "zh", format="markdown")
    assert found.rendered_content == (
        "> status: paid\n> — 证据 order, lines:2-2\n\n> 已发货。明天到。\n> — 证据 note"
    )
    assert (await rendered(block("text"), format="markdown")).rendered_content == "text"


@pytest.mark.req("A-12")
@pytest.mark.parametrize("most", [None, 200, 130, 5])
async def test_json_can_be_parsed_however_short_it_must_be(most: int | None) -> None:
    text = (await rendered(block("", ORDER, NOTE), format="json", max_chars=most)).rendered_content
    value = json.loads(text)
    assert (value["block_id"], value["block_type"]) == ("b", "evidence")
    assert [part["evidence_id"] for part in value["parts"]] == ["order", "note"]
    if most is None:
        assert value["parts"][1]["text"] == "已发货。明天到。"
    elif most == 200:
        assert len(text) <= most
    elif most == 5:
        assert {part["text"] for part in value["parts"]} == {""}


async def test_a_format_that_is_not_known_is_named() -> None:
    with pytest.raises(SchemaValidationError, match="text, markdown, json"):
        await rendered(block("x"), format="html")


@pytest.mark.req("A-12")
def test_a_cut_stands_at_the_end_of_a_sentence_and_says_how_much_is_missing() -> None:
    english = "Pi is 3.14159 or so. The second sentence is here. " + "And on it goes" * 9
    assert cut(english, 85, "en") == (
        "Pi is 3.14159 or so. The second sentence is here.\n[… 127 characters left out]"
    )
    chinese = "第一句话在这里，比较长。第二句。" + "很长" * 60
    assert cut(chinese, 32, "zh") == "第一句话在这里，比较长。第二句。\n[… 略去 120 个字符]"
    assert cut("short", 5, "en") == "short"


@given(st.text(alphabet="ab. 。\n!?", max_size=120), st.integers(0, 120))
def test_a_cut_text_is_never_longer_than_it_may_be(text: str, most: int) -> None:
    short = cut(text, most, "en")
    assert len(short) <= most or short == text
    assert text.startswith(short.split("\n[…")[0])


def part(kind: BlockType, text: str) -> RenderedBlock:
    return RenderedBlock(
        block_id=text,
        block_type=kind,
        priority=Priority.HIGH,
        rendered_content=text,
        token_estimate=1,
    )


@pytest.mark.req("A-12", "E-03")
def test_an_input_has_blocks_in_their_order_and_then_the_messages() -> None:
    messages = [
        Message(role=Role.SYSTEM, content="You help."),
        Message(role=Role.USER, content="你好"),
        Message(role=Role.ASSISTANT, content="Hi."),
        Message(role=Role.USER, content="Well?"),
    ]
    blocks = [
        part(BlockType.CONVERSATION, "summary"),
        part(BlockType.PLAN, "tasks"),
        part(BlockType.EVIDENCE, "facts"),
        part(BlockType.INSTRUCTION, "rules"),
        part(BlockType.MEMORY, "likes"),
        part(BlockType.EVIDENCE, ""),
    ]
    estimator = CharBasedEstimator()
    found = InputAssembler(estimator, as_text=True).assemble(messages, blocks)
    assert [(p.role, p.content) for p in found.parts] == [
        (Role.SYSTEM, "You help.\n\nrules\n\nlikes\n\nfacts\n\ntasks\n\nsummary"),
        (Role.USER, "你好"),
        (Role.ASSISTANT, "Hi."),
        (Role.USER, "Well?"),
    ]
    sent = [Message(role=p.role, content=p.content) for p in found.parts]
    assert found.total_tokens == estimator.estimate_messages(sent)
    assert found.text is not None
    assert found.text.endswith("user: 你好\n\nassistant: Hi.\n\nuser: Well?")
    bare = InputAssembler(estimator).assemble(messages[1:], [])
    assert (bare.parts[0].role, bare.text) == (Role.USER, None)
