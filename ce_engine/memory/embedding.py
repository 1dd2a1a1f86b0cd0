"""Has a session's texts embedded, so that what it recalls is chosen by meaning as well as by words."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from time import monotonic
from typing import TYPE_CHECKING

from ce_engine.errors import EmbedderError, MissingDependencyError
from ce_engine.ports.embedder import Embedder
from ce_engine.runtime.background import Background
from ce_engine.runtime.own_calls import own_calls
from ce_engine.schema.call import Prepared
from ce_engine.schema.degradation import Degradation
from ce_engine.schema.report import Report
from ce_engine.schema.scope import Scope
from ce_engine.sessions.search import page
from ce_engine.sessions.view import SessionView
from ce_engine.turns.engine_base import EngineBase
from ce_engine.turns.input.preparation import NEAR_BUDGET, Preparation
from ce_engine.turns.input.recall import Recall
from ce_engine.turns.report.archive import NOTHING, ReplayInputs, Selection


if TYPE_CHECKING:
    from ce_engine.sessions.vectors import Vectors

AT_ONCE = 32
"""Texts that an embedder is given together."""

TIMEOUT_S = 60.0
"""How long it may take for those; no call waits for that."""

REST_S = 5.0
"""It is left alone for so long after a failure."""

logger = logging.getLogger("ce_engine")


class EmbeddingMethods(EngineBase):
    """Keeps vectors of what is stored, redacted, where the engine has an embedder.

    They are made in the background, and count once all of a session's texts have one: what is chosen
    must not depend on how far that has come. Until then, and where the embedder fails, words alone choose.
    """

    def _begin_embedding(self, embedder: Embedder | None) -> None:
        """Take the embedder.

        Raises:
            MissingDependencyError: NumPy is not installed.
        """
        self.embedder = embedder
        self._embedding, self._resting_until = Background(self.loop), 0.0
        if embedder is not None and find_spec("numpy") is None:
            raise MissingDependencyError(
                "an embedder needs numpy, which is not installed. "
                "Run: pip install 'ce-integrations[embed]'"
            )

    async def _run_preparation(self, preparation: Preparation) -> tuple[Prepared, Selection]:
        if self.embedder is None:
            return await self._run_off_loop(preparation.run, preparation.texts, preparation.unread)
        texts = list(preparation.texts)
        await self._run_off_loop(preparation.begin, texts)
        seconds = preparation.config.collect.deadline_s
        choice = await self._choose(preparation, texts, seconds=seconds)
        return await self._run_off_loop(partial(preparation.finish, *choice), texts)

    async def _choose(
        self,
        preparation: Preparation,
        texts: Sequence[str],
        inputs: ReplayInputs = NOTHING,
        *,
        seconds: float,
    ) -> tuple[Selection, Recall]:
        """Choose by words; where something is recalled, once more with vectors, if they come in time."""
        choose, records = partial(preparation.choose, inputs), preparation.records
        selection, recall = await self._run_off_loop(choose, texts, preparation.unread)
        if self.embedder is None or not (recall.query and _is_chosen_from(selection)):
            return selection, recall
        clean = partial(records.ingest.text, recall.query)
        question = page((await self._run_off_loop(clean, [recall.query]))[0].text)
        if not question:
            return selection, recall
        vectors = self._vectors(preparation.view)
        vectors.ask(recall.query, question)
        if not await self._embedded(preparation.view, vectors, seconds):
            records.degrade(Degradation(EmbedderError.code))
        elif vectors.reads(recall.query):
            preparation.vectors = vectors
            return await self._run_off_loop(choose, texts)
        return selection, recall

    async def _embedded(self, view: SessionView, vectors: Vectors, seconds: float) -> bool:
        """Whether all that is to be embedded has vectors, or gets them in time."""
        if vectors.missing(view.meanings):
            self._embed_soon(view)
            await self._embedding.ended(id(view), seconds)
        return not vectors.missing(view.meanings)

    def _vectors(self, view: SessionView) -> Vectors:
        """The vectors of a view; one of the past has those of the session as it is."""
        assert self.embedder is not None
        if view.vectors is None:
            known_view = self._sessions.peek(view.scope)
            there = known_view.vectors if known_view is not None else None
            vectors_type = import_module("ce_engine.sessions.vectors").Vectors
            view.vectors = vectors_type(self.embedder.name) if there is None else there
        return view.vectors

    def _embed_before(self, view: SessionView, report: Report) -> None:
        """Embed a session before its budget is used up."""
        budget = report.token_budget
        if self.embedder is None or budget is None or report.token_used < NEAR_BUDGET * budget:
            return
        self._embed_soon(view)

    def _embed_after(self, scope: Scope) -> None:
        """Embed what was recorded of a session that is being embedded, before it is asked again."""
        view = self._sessions.peek(scope)
        if self.embedder is not None and view is not None and view.vectors is not None:
            self._embed_soon(view)

    def _embed_soon(self, view: SessionView) -> None:
        if monotonic() >= self._resting_until:
            self._embedding.ask(id(view), partial(self._embed, view))

    async def _embed(self, view: SessionView) -> None:
        """Embed what has no vector yet, a few texts at a time; after a failure nothing for a while."""
        assert self.embedder is not None
        vectors = self._vectors(view)
        try:
            while batch := vectors.missing(view.meanings)[:AT_ONCE]:
                async with asyncio.timeout(TIMEOUT_S):
                    with own_calls():
                        answer = await self.embedder.embed([text for _, text in batch])
                vectors.put(batch, answer)
        except Exception as error:  # noqa: BLE001 - an embedder of somebody else's may raise anything
            self._resting_until = monotonic() + REST_S
            why = error if isinstance(error, EmbedderError) else type(error).__name__
            logger.warning("embedding failed: %s; words alone choose meanwhile", why)


def _is_chosen_from(selection: Selection) -> bool:
    """Whether some of it is left out, or soon may be: what has room goes out whatever it means."""
    outcome, budget = selection.outcome, selection.limit.tokens
    is_near = budget is not None and outcome.used >= NEAR_BUDGET * budget
    return is_near or outcome.groups_dropped > 0
