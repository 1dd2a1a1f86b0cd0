"""What an answer rests on, and where a piece of evidence is from and went: a graph, the texts, and conflicts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ce_engine.apps.present.conflicts import WENT, Disagreement, Disagreements
from ce_engine.apps.present.evidence_graph import QUOTES_NONE, Graph, Node, graph
from ce_engine.apps.present.graph_svg import drawing
from ce_engine.apps.present.html_text import line
from ce_engine.apps.present.language import Say
from ce_engine.apps.present.links import arguments, usage_words
from ce_engine.apps.present.repeated_calls import other_times
from ce_engine.apps.present.rules_out import RuleOut, texts_in
from ce_engine.apps.present.said_before import said_before
from ce_engine.apps.web.links import evidence_url, trace_url, turn_url
from ce_engine.apps.web.page import page, reader_of, taste_of
from ce_engine.apps.web.reading import Reader
from ce_engine.audit.input_texts import InputTexts
from ce_engine.audit.places.message_places import MessagePlaces
from ce_engine.audit.places.recorded_choice import recorded_fates
from ce_engine.audit.places.whereabouts import (
    QUOTED_PART,
    Whereabouts,
    evidence_whereabouts,
    fate_in,
    stretches_of,
    whereabouts,
)
from ce_engine.audit.trace import trace as trace_of
from ce_engine.audit.unsupported_numbers import UnsupportedNumber, unsupported_numbers
from ce_engine.errors import SessionNotFoundError
from ce_engine.schema.document import Message, SessionDocument
from ce_engine.schema.enums import Role
from ce_engine.schema.rows import TurnRow
from ce_engine.schema.scope import Scope
from ce_engine.schema.trace import Trace


FIRST_WORDS = 60
"""Characters by which a message is told from others."""

PART = 20_000
"""Characters of a text that are shown at once."""


async def evidence(request: Request) -> Response:
    """The page of a piece of evidence."""
    return await _page(request, request.query_params.get("evidence", ""))


async def trace(request: Request) -> Response:
    """The page of a message, and what it rests on."""
    return await _page(request, request.query_params.get("message", ""))


async def _page(request: Request, name: str) -> Response:
    reader, query = reader_of(request), request.query_params
    scope = await reader.scope(query.get("user", ""), query.get("id", ""), "ui trace")
    with reader.looking("ui trace", "read", scope):
        result, document, turns = await _read(reader, scope, name)
        rules = await reader.rules_out(scope, turns)
    answers = {row.answer_message_id: n for n, row in enumerate(turns, 1) if row.answer_message_id}
    questions = {row.tip_message_id: n for n, row in enumerate(turns, 1) if row.tip_message_id}
    say = taste_of(request).language
    picture = graph(result, document, answers, say)
    in_part = _in_part(result, document, turns, answers.get(result.id))
    _mark(picture, in_part, say)
    # Texts are compared, of whatever length somebody sent: beside other requests, not before them.
    disagreements = await asyncio.to_thread(_disagreements, turns, document, result, answers)

    return page(
        request,
        "evidence.html",
        scope=scope,
        found=result,
        svg=Markup(drawing(picture, partial(_address, scope), say)),  # noqa: S704 - what was stored is escaped in it
        left_out=picture.left_out,
        none_quoted=say(QUOTES_NONE) if result.quotes_none else "",
        turn=answers.get(result.id),
        asked_in=questions.get(result.id),
        where=_where(result.id, document, turns),
        again=await asyncio.to_thread(_other_times, result, document, turns, say),
        # A tool's message was not shown its result: it is that result.
        itself=[m.message_id for m in document.session.messages if m.role is Role.TOOL],
        in_part=in_part,
        disagreements=disagreements,
        unsupported=await asyncio.to_thread(_unsupported, result, document, turns, rules),
        **_words(say),
        told=_label_messages(document, answers, questions),
        in_turns=lambda names: stretches_of({answers[name] for name in names if name in answers}),
        said=_find_quotes(result, document, turns),
        asked_turns=questions,
        **_text(result, document, query.get("part", "")),
    )


def _address(scope: Scope, node: Node) -> str:
    if node.kind == "evidence":
        return evidence_url(scope.user_id, scope.session_id, node.id)
    if node.kind == "message":
        return trace_url(scope.user_id, scope.session_id, node.id)
    return turn_url(scope.user_id, scope.session_id, node.turn) if node.turn else ""


def _words(say: Say) -> dict[str, Any]:
    return {
        "run": lambda call: f"{call.tool}({arguments(call.args_digest)})",
        "spent": lambda usage: usage_words(usage, say),
        "went_words": WENT,
    }


def _where(name: str, document: SessionDocument, turns: list[TurnRow]) -> Whereabouts | None:
    """Where a message or a piece of evidence went."""
    places = whereabouts([name], document, turns)
    return (places or evidence_whereabouts([name], document, turns)).get(name)


def _other_times(
    result: Trace, document: SessionDocument, turns: list[TurnRow], say: Say
) -> list[tuple[str | None, str]]:
    """What is said of the other times that the call of a tool's result was made."""
    if result.kind == "evidence":
        return other_times([result.id], document, turns, say)
    message = next((m for m in document.session.messages if m.message_id == result.id), None)
    is_result = message is not None and message.role is Role.TOOL
    ids = [item.ref.evidence_id for item in result.evidence] if is_result else []
    return other_times(ids, document, turns, say) if ids else []


def _in_part(
    result: Trace, document: SessionDocument, turns: list[TurnRow], turn: int | None
) -> frozenset[str]:
    """The evidence of which only the best sentences went out in an answer's turn."""
    if result.kind != "message" or turn is None:
        return frozenset()
    ids = [item.ref.evidence_id for item in result.evidence]
    return frozenset(
        name
        for name, where in evidence_whereabouts(ids, document, turns).items()
        if fate_in(where, turn) == QUOTED_PART
    )


def _mark(picture: Graph, in_part: Collection[str], say: Say) -> None:
    """Say in a drawing what went out in part."""
    for name in in_part:
        if (node := picture.nodes.get(f"e:{name}")) is not None:
            node.title += say(" ({text})", text=say("quoted in part"))


async def _read(
    reader: Reader, scope: Scope, name: str
) -> tuple[Trace, SessionDocument, list[TurnRow]]:
    document = await reader.store.get_session(scope)
    if document is None:
        raise SessionNotFoundError(f"session {scope.session_id!r} was deleted just now")
    result = await trace_of(reader.store, scope, name)
    return result, document, list(await reader.store.list_turns(scope))


def _text(result: Trace, document: SessionDocument, choice: str) -> dict[str, Any]:
    """What it says, a part at a time."""
    message = next((m for m in document.session.messages if m.message_id == result.id), None)
    piece = document.evidences.get(result.id)
    text = message.content if message else piece.content if piece else ""
    parts = max(1, -(-len(text) // PART))
    part = min(max(1, int(choice)), parts) if choice.isdecimal() and len(choice) < 9 else 1
    return {
        "message": message,
        "stored": piece,
        "text": text[(part - 1) * PART : part * PART],
        "length": len(text),
        "part": part,
        "parts": parts,
        "asks": [f"{call.name}({arguments(call.args)})" for call in (message.tool_calls or ())]
        if message
        else [],
        "attachments": (message.attachments or ()) if message else (),
    }


def _unsupported(
    result: Trace, document: SessionDocument, turns: list[TurnRow], rules: Sequence[RuleOut]
) -> list[UnsupportedNumber]:
    """The numbers of an answer that stand in nothing that went out."""
    at = next((n for n, row in enumerate(turns) if row.answer_message_id == result.id), None)
    message = next((m for m in document.session.messages if m.message_id == result.id), None)
    if at is None or message is None:
        return []
    ids = [m.message_id for m in document.session.messages if m.message_id]
    places = MessagePlaces(ids, document, turns)
    inputs = InputTexts(
        document, turns, lambda at: recorded_fates(places, turns[at]), partial(texts_in, rules)
    )
    return unsupported_numbers(message, at, inputs)


def _label_messages(
    document: SessionDocument, answers: Mapping[str, int], questions: Mapping[str, int]
) -> Callable[[str], tuple[int | None, str]]:
    """What tells a message from others: the turn that it is of, and its first words."""
    messages = {m.message_id: m for m in document.session.messages if m.message_id}

    def of(name: str) -> tuple[int | None, str]:
        message = messages.get(name)
        calls = (message.tool_calls or ()) if message else ()
        text = message.content if message else ""
        text = text or "; ".join(f"{call.name}({arguments(call.args)})" for call in calls)
        return answers.get(name) or questions.get(name), line(text, FIRST_WORDS)

    return of


def _find_quotes(result: Trace, document: SessionDocument, turns: list[TurnRow]) -> list[Message]:
    """What people said that an answer has in its words."""
    message = next((m for m in document.session.messages if m.message_id == result.id), None)
    is_answer = message is not None and message.role is Role.ASSISTANT
    return said_before(message, document, turns) if message is not None and is_answer else []


def _disagreements(
    turns: list[TurnRow], document: SessionDocument, result: Trace, answers: Mapping[str, int]
) -> list[tuple[int, Disagreement]]:
    """The conflicts in which what is shown takes part, each once: of an answer those of its own turn, else where each was met first."""
    own, disagreements = answers.get(result.id), Disagreements(document, turns)
    ids = {item.ref.evidence_id for item in result.evidence}
    by_key: dict[tuple[str, ...], tuple[int, Disagreement]] = {}
    for number, row in enumerate(turns, start=1):
        if own not in (None, number):
            continue
        for record in disagreements.records(row) if own is None else disagreements.seen(number):
            key = (record.field_path, *sorted(record.evidence_ids))
            if key not in by_key and ids.intersection(record.evidence_ids):
                by_key[key] = (number, disagreements.of(record, row))
    return list(by_key.values())


routes = [Route("/evidence", evidence), Route("/trace", trace)]
