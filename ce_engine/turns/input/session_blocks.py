"""What the session itself brings to a call: its tasks, and the blocks that were kept with it (A-10)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import attrgetter

from ce_engine.config import RuntimeConfig
from ce_engine.errors import ContextEngineError, EvidenceNotFoundError, StoreUnavailableError
from ce_engine.ports.blocks import BlockDeriver, DeriveOptions
from ce_engine.ports.rendering import EvidenceResolver, Renderer, RenderHints
from ce_engine.ports.store import Store
from ce_engine.ports.tokens import TokenEstimator
from ce_engine.prepare.blocks.derive_session import TASKS_ID, SessionDeriver
from ce_engine.prepare.blocks.material import SECTION_OF, CollectedContext, Material, sensitivity_of
from ce_engine.prepare.blocks.render_block import BlockRenderer
from ce_engine.runtime.journal import Journal
from ce_engine.runtime.workers import Workers
from ce_engine.schema.call import ModelCall
from ce_engine.schema.degradation import (
    BLOCK_UNVERIFIED,
    DERIVE_FAILED,
    REASONS,
    RENDER_FAILED,
    Degradation,
)
from ce_engine.schema.document import (
    ContextBlock,
    Evidence,
    Session,
    SessionDocument,
    Task,
    TaskState,
    TodoList,
)
from ce_engine.schema.enums import BlockType
from ce_engine.schema.json_paths import LOOKUP_S
from ce_engine.schema.report import RenderedBlock
from ce_engine.schema.scope import Scope
from ce_engine.schema.selectors import RefSelector
from ce_engine.schema.time_limits import Allowance
from ce_engine.sessions.view import SessionView
from ce_engine.turns.block_macs import gives_orders, is_genuine


async def block_materials(
    document: SessionDocument,
    *,
    deriver: BlockDeriver,
    renderer: Renderer,
    resolver: EvidenceResolver,
    evidences: Sequence[Evidence] = (),
    quoted: Sequence[ContextBlock] = (),
    hints: RenderHints | None = None,
    sensitivity: Callable[[ContextBlock], str | None] = attrgetter("sensitivity"),
) -> CollectedContext:
    """Materials of a session's tasks, of its blocks, and of `evidences`, which the reader may read.

    What could be had only in part is in `degradations`. `sensitivity` tells a block's. `quoted` are blocks
    that give no orders, whatever they are: no deriver sees them, which could make others of them. A deriver of
    the app's own might have left them out, so that with one they do not go out.
    """
    degraded = [Degradation(BLOCK_UNVERIFIED, block.block_id) for block in quoted]
    derived = await _derived(deriver, document, evidences, degraded)
    confidence = {item.evidence_id: item.confidence for item in evidences}
    materials = []
    shown_blocks = quoted if type(deriver) is SessionDeriver else ()
    for is_quoted, block in [
        *((False, block) for block in derived),
        *((True, block) for block in shown_blocks),
    ]:
        text = await _rendered(renderer, block, resolver, hints, degraded)
        if text:
            material = _material(block, text, confidence)
            # What a ref leads to was written by somebody else.
            own = replace(
                material, owned=not (block.refs or is_quoted), sensitivity=sensitivity(block)
            )
            materials.append(own)
    return CollectedContext(materials, degradations=degraded)


async def _derived(
    deriver: BlockDeriver,
    document: SessionDocument,
    evidences: Sequence[Evidence],
    degraded: list[Degradation],
) -> Sequence[ContextBlock]:
    def failed(evidence_id: str, _: Exception) -> None:
        degraded.append(Degradation(DERIVE_FAILED, evidence_id))

    try:
        return list(await deriver.derive(document, evidences, DeriveOptions(on_error=failed)))
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
        codes, text = list(rendered.degradations), rendered.rendered_content
    except Exception as error:  # noqa: BLE001 - a renderer of somebody else's may raise anything
        has_reason = isinstance(error, ContextEngineError) and error.code in REASONS
        code = error.code if isinstance(error, ContextEngineError) and has_reason else RENDER_FAILED
        degraded.append(Degradation(code, block.block_id))
        return block.content
    degraded += [Degradation(code, block.block_id) for code in codes]
    return text


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
        kind=block.block_type,
    )


SHARES = 8
"""One selector may take this part of the blocks' deadline, all of a call three: it rests as long as it works."""


class ViewResolver:
    """Evidence as the engine remembers it: without I/O, and with what is not stored yet."""

    def __init__(
        self, view: SessionView, selectors: RefSelector, workers: Workers, deadline_s: float
    ) -> None:
        self._view = view
        self._selectors = selectors
        self._workers = workers
        # Who plants a ref that takes long must not keep the other blocks from their deadline.
        self._allowance = Allowance(min(LOOKUP_S, deadline_s / SHARES))

    async def resolve(self, evidence_id: str, selector: str | None = None) -> str:
        """See `ports.EvidenceResolver`."""
        row = self._view.evidence.get(evidence_id)
        if row is None:
            raise EvidenceNotFoundError(f"this session has no evidence {evidence_id!r}")
        text = row.evidence.content
        n = self._view.log.by_message_id(row.message_id) if row.message_id else None
        if n is not None:  # the message holds it
            text = self._view.rows[n].message.content
        if not (selector and text):
            return text
        return await self._workers.run(lambda: self._extracted(text, selector))

    def _extracted(self, text: str, selector: str) -> str:
        return self._allowance.of_one(lambda: self._selectors.extract(text, selector))


class _Sensitivity:
    """How sensitive a block is: as it says itself, or, where that is excluded, as what it refers to."""

    def __init__(self, view: SessionView, config: RuntimeConfig) -> None:
        self._evidence = view.evidence
        self._excluded = config.prune.exclude_sensitivity

    def __call__(self, block: ContextBlock) -> str | None:
        rows = (self._evidence.get(ref.evidence_id) for ref in block.refs)
        sensitivities = [sensitivity_of(row.evidence) for row in rows if row is not None]
        return next(
            (sensitivity for sensitivity in sensitivities if sensitivity in self._excluded),
            block.sensitivity,
        )


class BlockSource:
    """The part of the engine that brings in what the session itself keeps."""

    config: RuntimeConfig
    store: Store
    workers: Workers
    selectors: RefSelector
    estimator: TokenEstimator
    _journal: Journal
    deriver: BlockDeriver
    renderer: Renderer

    def _use(
        self,
        deriver: BlockDeriver | None,
        renderer: Renderer | None,
        selectors: RefSelector | None,
    ) -> None:
        self.selectors = selectors or RefSelector()
        estimator, locale, hint = self.estimator, self.config.locale, self.config.model_hint
        self.deriver = deriver or SessionDeriver(estimator, locale=locale, model_hint=hint)
        self.renderer = renderer or BlockRenderer(estimator, locale=locale, model_hint=hint)

    async def _session_context(self, call: ModelCall, view: SessionView) -> CollectedContext:
        """What goes into a call of what the session keeps; it is read when it may be another."""
        if call.purpose != "chat":
            return CollectedContext()
        try:
            if view.tasks_and_blocks is None and view.created:
                view.tasks_and_blocks = await self._read(call.scope)
        except StoreUnavailableError as error:
            return CollectedContext(warnings=[error.code])
        tasks, blocks = view.tasks_and_blocks or ((), ())
        if not (tasks or blocks) and type(self.deriver) is SessionDeriver:
            return CollectedContext()  # the default deriver has nothing to go by
        quoted = self._quoted(call.scope, blocks)
        state = TaskState(todo_list=TodoList(tasks=list(tasks)))
        session = Session(session_id=call.scope.session_id, task_state=state)
        render_config = (call.config or self.config).render
        deadline_s = self.config.collect.deadline_s
        try:
            async with asyncio.timeout(deadline_s):
                context = await block_materials(
                    SessionDocument(
                        session=session, context_blocks=[b for b in blocks if b not in quoted]
                    ),
                    quoted=quoted,
                    deriver=self.deriver,
                    renderer=self.renderer,
                    resolver=ViewResolver(view, self.selectors, self.workers, deadline_s),
                    sensitivity=_Sensitivity(view, call.config or self.config),
                    hints=RenderHints(render_config.max_chars, render_config.format),
                )
        except TimeoutError:  # a deriver or a renderer of somebody else's: the call does not wait
            return CollectedContext(degradations=[Degradation(DERIVE_FAILED)])
        context.materials = [
            replace(material, evidence_id="")
            if material.evidence_id and material.evidence_id not in view.evidence
            else material
            for material in context.materials
        ]
        return context

    def _quoted(self, scope: Scope, blocks: Sequence[ContextBlock]) -> list[ContextBlock]:
        """Instructions that the engine did not store so: whoever wrote them gives no order."""
        orders = [block for block in blocks if gives_orders(block)]
        try:
            secret = self.store.secret if orders else b""
        except ContextEngineError:  # it is away: nobody can tell
            return orders
        return [block for block in orders if not is_genuine(secret, scope, block)]

    async def _read(self, scope: Scope) -> tuple[list[Task], list[ContextBlock]]:
        journal, store = self._journal, self.store
        if not await journal.settle(scope):
            raise StoreUnavailableError("what this session keeps cannot be read now")
        tasks = await journal.read(lambda: store.list_tasks(scope), list)
        tasks = [task for task in tasks if task.framework is None]
        return tasks, await journal.read(lambda: store.list_context_blocks(scope), list)
