"""What every deriver, renderer, assembler, ingestor and source must do, as tests (A-09, A-10, A-12, A-27, D-09).

Subclass a suite and give it a fixture of the part's name.
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

import pytest

from ce_engine.errors import EvidenceNotFoundError
from ce_engine.ports.blocks import BlockDeriver, DeriveOptions
from ce_engine.ports.context import ContextPiece, ContextSource
from ce_engine.ports.evidence import EvidenceDraft, EvidenceIngestor
from ce_engine.ports.rendering import Assembler, EvidenceResolver, Renderer, RenderHints
from ce_engine.prepare.blocks.material import LAYERS
from ce_engine.schema.document import (
    ContextBlock,
    EvidenceSource,
    Message,
    Ref,
    Session,
    SessionDocument,
    Task,
    TaskState,
    TodoList,
)
from ce_engine.schema.enums import BlockType, EvidenceType, Priority, Role, SourceKind
from ce_engine.schema.report import RenderedBlock
from ce_engine.schema.scope import Scope
from ce_engine.testing import samples


def block(name: str, content: str = "", **more: Any) -> ContextBlock:
    """A block of a session's."""
    values = {"block_type": BlockType.MEMORY, "priority": Priority.HIGH, "content": content}
    return ContextBlock.model_validate({"block_id": name, **values, **more})


class BlockDeriverContract:
    """Everything that `ports_derive.BlockDeriver` promises. A subclass gives a fixture `deriver`."""

    pytestmark = pytest.mark.anyio

    def document(self) -> SessionDocument:
        """A session with messages, a task and a block."""
        messages = [
            Message(role=Role.USER, content="订单在哪里?", message_id="m1"),
            Message(role=Role.ASSISTANT, content="It ships tomorrow.", message_id="m2"),
        ]
        tasks = TaskState(todo_list=TodoList(tasks=[Task(task_id="t1", name="查订单")]))
        session = Session(session_id="s", messages=messages, task_state=tasks)
        return SessionDocument(
            session=session, context_blocks=[block("own", "Likes short answers.")]
        )

    async def test_ids_are_unique_and_its_own_blocks_come_along(
        self, deriver: BlockDeriver
    ) -> None:
        evidence = [samples.evidence_row(f"e{n}").evidence for n in range(3)]
        blocks = await deriver.derive(self.document(), evidence)
        ids = [item.block_id for item in blocks]
        assert len(ids) == len(set(ids))
        assert "own" in ids

    async def test_nothing_that_is_handed_in_changes(self, deriver: BlockDeriver) -> None:
        document, evidence = self.document(), [samples.evidence_row("e").evidence]
        before = document.model_dump_json(), evidence[0].model_dump_json()
        await deriver.derive(document, evidence)
        assert (document.model_dump_json(), evidence[0].model_dump_json()) == before

    async def test_what_is_not_asked_for_is_not_derived(self, deriver: BlockDeriver) -> None:
        options = DeriveOptions(
            include_conversation=False, include_state=False, include_evidences=False
        )
        evidence = [samples.evidence_row("e").evidence]
        blocks = await deriver.derive(self.document(), evidence, options)
        kinds = {item.block_type for item in blocks if item.block_id != "own"}
        assert not kinds & {
            BlockType.CONVERSATION,
            BlockType.STATE,
            BlockType.PLAN,
            BlockType.EVIDENCE,
        }


class Resolver:
    """Finds the texts that it is given; another id leads nowhere."""

    def __init__(self, **texts: str) -> None:
        self._texts = texts

    async def resolve(self, evidence_id: str, selector: str | None = None) -> str:  # noqa: ARG002 - the port's
        """See `ports.EvidenceResolver`."""
        if evidence_id not in self._texts:
            raise EvidenceNotFoundError(f"there is no evidence {evidence_id!r}")
        return self._texts[evidence_id]


class RendererContract:
    """Everything that `ports.Renderer` promises. A subclass gives a fixture `renderer`."""

    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def resolver(self) -> EvidenceResolver:
        return Resolver(e1="The order is paid. 订单已付款。", e2="x" * 5000)

    async def test_refs_become_text(self, renderer: Renderer, resolver: EvidenceResolver) -> None:
        done = await renderer.render_block(
            block("b", "else this", refs=[Ref(evidence_id="e1")]), resolver
        )
        assert "订单已付款" in done.rendered_content
        assert (done.block_id, done.block_type, done.priority) == (
            "b",
            BlockType.MEMORY,
            Priority.HIGH,
        )
        assert done.token_estimate > 0
        assert done.degradations == []

    async def test_a_ref_that_leads_nowhere_is_told_and_the_blocks_own_text_stands_in(
        self, renderer: Renderer, resolver: EvidenceResolver
    ) -> None:
        done = await renderer.render_block(
            block("b", "else this", refs=[Ref(evidence_id="gone")]), resolver
        )
        assert done.rendered_content == "else this"
        assert done.degradations == [EvidenceNotFoundError.code]

    @pytest.mark.parametrize("form", ["text", "markdown", "json"])
    async def test_hints_bound_it(
        self, renderer: Renderer, resolver: EvidenceResolver, form: str
    ) -> None:
        hints = RenderHints(max_chars=400, format=form)
        done = await renderer.render_block(
            block("b", refs=[Ref(evidence_id="e2")]), resolver, hints
        )
        assert 0 < len(done.rendered_content) <= 400


class AssemblerContract:
    """Everything that `ports.Assembler` promises. A subclass gives a fixture `assembler`."""

    def rendered(self, name: str, kind: BlockType, text: str) -> RenderedBlock:
        """A block as a renderer gives it."""
        return RenderedBlock(
            block_id=name,
            block_type=kind,
            priority=Priority.HIGH,
            rendered_content=text,
            token_estimate=3,
        )

    def test_everything_goes_out_blocks_before_messages_and_those_in_order(
        self, assembler: Assembler
    ) -> None:
        messages = [
            Message(role=Role.SYSTEM, content="You help."),
            Message(role=Role.USER, content="first question"),
            Message(role=Role.ASSISTANT, content="first answer"),
            Message(role=Role.USER, content="第二个问题"),
        ]
        blocks = [
            self.rendered("b1", BlockType.EVIDENCE, "a known fact"),
            self.rendered("b2", BlockType.INSTRUCTION, "a rule"),
        ]
        before = [m.model_copy(deep=True) for m in messages]
        assembled_input = assembler.assemble(messages, blocks)
        text = "\n".join(part.content for part in assembled_input.parts)
        order = ["first question", "first answer", "第二个问题"]
        places = [text.index(phrase) for phrase in order]
        assert places == sorted(places)
        assert max(text.index("a known fact"), text.index("a rule")) < places[0]
        assert "You help." in text
        assert assembled_input.parts[-1].role is Role.USER
        assert assembled_input.total_tokens > 0
        assert messages == before

    def test_it_is_pure(self, assembler: Assembler) -> None:
        messages = [Message(role=Role.USER, content="a question")]
        assert assembler.assemble(messages, []) == assembler.assemble(messages, [])


class EvidenceIngestorContract:
    """Everything that `ports_ingest.EvidenceIngestor` promises. A subclass gives a fixture `ingestor`."""

    DRAFT = EvidenceDraft(
        "订单已付款。",
        EvidenceSource(kind=SourceKind.TOOL, name="getOrder"),
        EvidenceType.TOOL_RESULT,
        {"tags": ["shop"]},
    )

    @pytest.mark.parametrize("kind", list(SourceKind))
    def test_it_gives_a_draft_whose_confidence_is_one(
        self, ingestor: EvidenceIngestor, kind: SourceKind
    ) -> None:
        draft = replace(self.DRAFT, source=EvidenceSource(kind=kind, name="n"))
        result = ingestor.ingest(draft)
        assert isinstance(result, EvidenceDraft)
        assert result.confidence is None or 0 <= result.confidence <= 1

    def test_it_is_pure_and_changes_nothing_that_it_is_given(
        self, ingestor: EvidenceIngestor
    ) -> None:
        metadata = {"tags": ["shop"]}
        draft = replace(self.DRAFT, metadata=metadata)
        assert ingestor.ingest(draft) == ingestor.ingest(draft)
        assert metadata == {"tags": ["shop"]}
        assert draft == self.DRAFT

    def test_a_confidence_that_somebody_said_stands(self, ingestor: EvidenceIngestor) -> None:
        assert ingestor.ingest(replace(self.DRAFT, confidence=0.25)).confidence == 0.25


class ContextSourceContract:
    """Everything that `ports_context.ContextSource` promises. A subclass gives a fixture `source`.

    Attributes:
        query: what it knows something about.
        scope: whose.
    """

    pytestmark = pytest.mark.anyio
    query = "What do you know?"
    scope = Scope(session_id="s", user_id="u", account_id="a")

    async def pieces(self, source: ContextSource, limit: int) -> list[ContextPiece]:
        """What it finds."""
        answer: Any = source.fetch(self.scope, self.query, limit)
        return list(await answer if inspect.isawaitable(answer) else answer)

    async def test_it_has_a_name_and_a_section(self, source: ContextSource) -> None:
        assert source.name.isidentifier()
        assert source.section in LAYERS

    async def test_it_gives_pieces_and_no_more_than_asked_for(self, source: ContextSource) -> None:
        for limit in (1, 3, 50):
            pieces = await self.pieces(source, limit)
            assert len(pieces) <= limit
            for piece in pieces:
                assert isinstance(piece, ContextPiece)
                assert piece.score is None or 0 <= piece.score <= 1
                assert piece.tokens is None or piece.tokens >= 0

    async def test_it_offers_nothing_of_anybody_else(self, source: ContextSource) -> None:
        for piece in await self.pieces(source, 50):
            assert piece.account_id in (None, self.scope.account_id)
            assert piece.user_id in (None, self.scope.user_id)
            assert piece.project_id in (None, self.scope.project_id)
