"""What the session itself brings to a call: its tasks, and the blocks that were kept with it (A-10)."""

from __future__ import annotations

from collections.abc import Sequence

from ce_engine.config import RuntimeConfig
from ce_engine.errors import ContextEngineError, StoreError
from ce_engine.ports import EvidenceResolver, Renderer, RenderHints, Store, TokenEstimator
from ce_engine.ports_derive import BlockDeriver, DeriveOptions
from ce_engine.prepare.derive_session import TASKS_ID, SessionDeriver
from ce_engine.prepare.material import SECTION_OF, Collected, Material
from ce_engine.prepare.render_block import BlockRenderer
from ce_engine.schema.degradation import DERIVE_FAILED, REASONS, RENDER_FAILED, Degradation
from ce_engine.schema.document import (
    ContextBlock,
    Evidence,
    Session,
    SessionDocument,
    TaskState,
    TodoList,
)
from ce_engine.schema.enums import BlockType
from ce_engine.schema.report import RenderedBlock
from ce_engine.schema.scope import Scope
from ce_engine.tracing import Tracing


async def block_materials(
    store: Store,
    scope: Scope,
    *,
    deriver: BlockDeriver,
    renderer: Renderer,
    resolver: EvidenceResolver,
    evidences: Sequence[Evidence] = (),
    hints: RenderHints | None = None,
) -> Collected:
    """Materials of a session's tasks, of its stored blocks, and of `evidences`, which the reader may read.

    What could be had only in part is in `degradations`; a store that cannot be read is a warning.
    """
    try:
        tasks = await store.list_tasks(scope)
        blocks = await store.list_context_blocks(scope)
    except StoreError as error:
        return Collected(warnings=[error.code])
    if not (tasks or blocks or evidences):
        return Collected()
    state = TaskState(todo_list=TodoList(tasks=tasks))
    session = Session(session_id=scope.session_id, task_state=state)
    document = SessionDocument(session=session, context_blocks=blocks)
    degraded: list[Degradation] = []
    derived = await _derived(deriver, document, evidences, degraded)
    confidence = {item.evidence_id: item.confidence for item in evidences}
    materials = []
    for block in derived:
        text = await _rendered(renderer, block, resolver, hints, degraded)
        if text:
            materials.append(_material(block, text, confidence))
    return Collected(materials, degradations=degraded)


async def _derived(
    deriver: BlockDeriver,
    document: SessionDocument,
    evidences: Sequence[Evidence],
    degraded: list[Degradation],
) -> Sequence[ContextBlock]:
    def failed(evidence_id: str, _: Exception) -> None:
        degraded.append(Degradation(DERIVE_FAILED, evidence_id))

    try:
        return await deriver.derive(document, evidences, DeriveOptions(on_error=failed))
    except Exception:  # noqa: BLE001 - a deriver of somebody else's: what was stored stands
        degraded.append(Degradation(DERIVE_FAILED))
        return document.context_blocks


async def _rendered(
    renderer: Renderer,
    block: ContextBlock,
    resolver: EvidenceResolver,
    hints: RenderHints | None,
    degraded: list[Degradation],
) -> str:
    try:
        rendered: RenderedBlock = await renderer.render_block(block, resolver, hints)
    except Exception as error:  # noqa: BLE001 - a renderer of somebody else's may raise anything
        ours = isinstance(error, ContextEngineError) and error.code in REASONS
        code = error.code if isinstance(error, ContextEngineError) and ours else RENDER_FAILED
        degraded.append(Degradation(code, block.block_id))
        return block.content
    degraded += [Degradation(code, block.block_id) for code in rendered.degradations]
    return rendered.rendered_content


def _material(block: ContextBlock, text: str, confidence: dict[str, float | None]) -> Material:
    evidence_id = block.refs[0].evidence_id if block.refs else ""
    source = "evidence" if block.block_type is BlockType.EVIDENCE else "blocks"
    return Material(
        id=block.block_id,
        section=SECTION_OF[block.block_type],
        text=text,
        source="tasks" if block.block_id == TASKS_ID else source,
        priority=block.priority,
        score=confidence.get(evidence_id),
        at=block.created_at or "",
        evidence_id=evidence_id,
    )


class BlockSource(Tracing):
    """The part of the engine that brings in what the session itself keeps."""

    config: RuntimeConfig
    estimator: TokenEstimator
    deriver: BlockDeriver
    renderer: Renderer

    def _use(self, deriver: BlockDeriver | None, renderer: Renderer | None) -> None:
        estimator, locale, hint = self.estimator, self.config.locale, self.config.model_hint
        self.deriver = deriver or SessionDeriver(estimator, locale=locale, model_hint=hint)
        self.renderer = renderer or BlockRenderer(estimator, locale=locale, model_hint=hint)

    async def _block_materials(self, scope: Scope, evidences: Sequence[Evidence] = ()) -> Collected:
        return await block_materials(
            self.store,
            scope,
            deriver=self.deriver,
            renderer=self.renderer,
            resolver=self.resolver(scope),
            evidences=evidences,
        )
