"""Stored evidence for an agent that asks for it: a tool, whose answers are of its own session alone."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

from ce_engine.config import RuntimeConfig
from ce_engine.errors import ScopeViolationError
from ce_engine.prepare.blocks.material import sensitivity_of
from ce_engine.prepare.tool_results.forms import FETCH
from ce_engine.prepare.tool_results.lines import lines_of, numbered
from ce_engine.schema.ids import SHORT_ID
from ce_engine.schema.scope import Scope, as_scope
from ce_engine.sessions.view import SessionView
from ce_engine.text.relevance.terms import terms
from ce_engine.turns.call_config import is_nobodys
from ce_engine.turns.engine_base import EngineBase
from ce_engine.turns.opt_out import opts_out


MOST_CHARS = 12_000
"""Of evidence that one answer has; the rest is asked for by its lines."""

_SCHEMA: Mapping[str, Any] = {
    "type": "function",
    "function": {
        "name": FETCH,
        "description": (
            "Read the whole text, or more lines, of an earlier result of this conversation that is shown "
            "only in part. Give the evidence id that stands there."
        ),
        "parameters": {
            "type": "object",
            "properties": {
                "evidence_id": {
                    "type": "string",
                    "description": "The id, as it stands in the text.",
                },
                "lines": {"type": "string", "description": "Only these lines, such as 10-40."},
                "find": {
                    "type": "string",
                    "description": "Only lines that have one of these words.",
                },
            },
            "required": ["evidence_id"],
        },
    },
}

_RANGE = re.compile(r"\s*(\d{1,9})\s*(?:[-–:]\s*(\d{1,9})\s*)?")
_WORDS = {
    "en": {
        "none": "There is no evidence {id} in this conversation.",
        "lines": "lines is a number or a range, such as 10-40; found {lines}.",
        "nothing": "No line of evidence {id} has one of these words; it has {total} lines.",
        "head": "[{shown} of the {total} lines of evidence {id}]",
    },
    "zh": {
        "none": "本次对话中没有证据 {id}。",
        "lines": "lines 应为行号或范围，例如 10-40；收到的是 {lines}。",
        "nothing": "证据 {id} 的 {total} 行中没有包含这些词的行。",
        "head": "[证据 {id} 共 {total} 行，此处为其中 {shown} 行]",
    },
}


class EvidenceToolMethods(EngineBase):
    """The part of the engine that lets an agent read what was stored of its own session."""

    async def fetch_evidence(
        self,
        session_id: Scope | str,
        evidence_id: str,
        lines: str = "",
        find: str = "",
        config: RuntimeConfig | None = None,
    ) -> str:
        """The text of evidence for a model that asks for it; where there is none, a text that says so.

        What is another session's, another user's or another project's is not there. Values that were
        taken out of it stand there again where this process knows them, as in all that goes to the model.

        Args:
            session_id: whose conversation asks; an id alone is one of no account and no user.
            evidence_id: the id, or its beginning (8 characters or more).
            lines: only these, from 1: `12` or `10-40`. The lines of a JSON list are its elements.
            find: only lines that have one of these words.
            config: of the app that asks, where it has one of its own: who opts out by it is told nothing, and what it
                excludes by its sensitivity is not there.
        """
        scope, own = as_scope(session_id), config or self.config
        return await self.loop.share(self._fetched(scope, evidence_id, lines, find, own))

    def fetch_evidence_tool(self, session_id: Scope | str) -> EvidenceTool:
        """The tool for a conversation by hand: send its `schema` along, and call it with the arguments."""
        return EvidenceTool(self, as_scope(session_id))

    async def _fetched(
        self, scope: Scope, evidence_id: str, lines: str, find: str, config: RuntimeConfig
    ) -> str:
        words, name = _WORDS[config.locale], str(evidence_id).strip()
        if is_nobodys(config, scope) or opts_out(config, scope):
            return words["none"].format(id=name[:80])
        async with self._locks.hold(scope.key):
            text = None
            # Another project's: as little is told as of evidence that is not there.
            with suppress(ScopeViolationError):
                view = await self._existing_view(scope)
                text = None if view is None else self._content(view, scope, name, config)
        if text is None:
            return words["none"].format(id=name[:80])
        return await self._run_off_loop(lambda: _part(text, name, lines, find, words), [text])

    def _content(
        self, view: SessionView, scope: Scope, name: str, config: RuntimeConfig
    ) -> str | None:
        """What evidence says, if it may be told; `None` else."""
        evidence_id = _find_evidence(view, name)
        row = view.evidence.get(evidence_id or "")
        if row is None or scope.project_id != view.head.project_id:
            return None
        excluded = {*config.prune.exclude_sensitivity, *self.config.prune.exclude_sensitivity}
        if sensitivity_of(row.evidence) in excluded:
            return None
        n = view.log.by_message_id(row.message_id) if row.message_id else None
        if n is not None and view.rows[n].withheld:
            return None
        text = row.evidence.content if n is None else view.rows[n].message.content
        if not text or view.redactor is None:
            return text or None
        try:
            return view.redactor.restore(text).text
        except Exception:  # noqa: BLE001 - a redactor of somebody else's may raise anything
            return text


@dataclass(frozen=True, slots=True)
class EvidenceTool:
    """`fetch_evidence` of one session, for models that are called by hand.

    `schema` is for the request's `tools`, and for `prepare_turn(tools=...)`: JSON as OpenAI has it, and those who
    follow it.
    """

    engine: EvidenceToolMethods
    scope: Scope

    name: ClassVar[str] = FETCH
    schema: ClassVar[Mapping[str, Any]] = _SCHEMA

    def __call__(self, evidence_id: str, lines: str = "", find: str = "") -> str:
        """The text for the model, for a caller that waits."""
        engine = self.engine
        return engine.loop.run(engine.fetch_evidence(self.scope, evidence_id, lines, find))

    async def acall(self, evidence_id: str, lines: str = "", find: str = "") -> str:
        """The same, awaited."""
        return await self.engine.fetch_evidence(self.scope, evidence_id, lines, find)


def _find_evidence(view: SessionView, name: str) -> str | None:
    """The evidence of this id, or the only one that begins with it."""
    if name in view.evidence:
        return name
    matches = [evidence_id for evidence_id in view.evidence if evidence_id.startswith(name)]
    return matches[0] if len(name) >= SHORT_ID and len(matches) == 1 else None


def _part(text: str, name: str, lines: str, find: str, words: Mapping[str, str]) -> str:
    """What of a text is asked for, with the numbers of its lines where it is not the whole."""
    if not lines and not find and len(text) <= MOST_CHARS:
        return text
    all_lines = lines_of(text)
    numbers: Sequence[int] = range(len(all_lines))
    if lines:
        match = _RANGE.fullmatch(str(lines))
        if match is None:
            return words["lines"].format(lines=str(lines)[:80])
        first = int(match[1])
        numbers = range(max(0, first - 1), min(len(all_lines), int(match[2] or first)))
    if find:
        query_terms = frozenset(terms(str(find)))
        numbers = [n for n in numbers if query_terms.intersection(terms(all_lines[n]))]
        if not numbers:
            return words["nothing"].format(id=name, total=len(all_lines))
    shown_numbers = _within(all_lines, numbers)
    head = words["head"].format(id=name, shown=len(shown_numbers), total=len(all_lines))
    return "\n".join([head, *numbered(all_lines, shown_numbers, MOST_CHARS)])


def _within(all_lines: Sequence[str], numbers: Sequence[int]) -> list[int]:
    """The first of the lines that are few enough for one answer; one in any case."""
    shown_numbers, left = list[int](), MOST_CHARS
    for n in numbers:
        left -= len(all_lines[n])
        if left < 0 and shown_numbers:
            break
        shown_numbers.append(n)
    return shown_numbers
